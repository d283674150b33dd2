/* window.c - see window.h. */
#include "interchange/onnx/operators/window.h"

/* An attribute with a number an axis, 1 where it is left out. */
static bool numbers(onnx_call *c, const char *name, int n, int64_t *into) {
    int given;
    const int64_t *list = onnx_ints(c, name, &given);
    for (int i = 0; i < n; i++) into[i] = list && i < given ? list[i] : 1;
    if (list && given != n) return onnx_refuse(c, "%s has %d numbers for %d axes", name, given, n);
    for (int i = 0; i < n; i++)
        if (into[i] < 1 || into[i] > INT32_MAX) return onnx_refuse(c, "%s has %jd", name, into[i]);
    return true;
}

/* SAME: as many windows as strides, the padding shared by both sides; an odd one goes to the side named. */
static void same(onnx_window *w, int64_t length, int i, bool is_upper, int64_t *before, int64_t *after) {
    int64_t windows = (length + w->stride[i] - 1) / w->stride[i];
    int64_t reach = (windows - 1) * w->stride[i] + (w->kernel[i] - 1) * w->dilation[i] + 1;
    int64_t pad = reach > length ? reach - length : 0;
    *before = is_upper ? pad / 2 : pad - pad / 2;
    *after = pad - *before;
    if (reach < length - is_upper) w->is_cut = true;
}

static bool padding(onnx_call *c, weft_value *x, onnx_window *w) {
    int n;
    const int64_t *pads = onnx_ints(c, "pads", &n);
    const char *automatic = onnx_word(c, "auto_pad", "NOTSET");
    bool is_same = !strncmp(automatic, "SAME_", 5), is_set = !strcmp(automatic, "NOTSET");
    if (!is_same && !is_set && strcmp(automatic, "VALID"))
        return onnx_refuse(c, "auto_pad is '%.40s'", automatic);
    if (is_set && pads && n != 2 * w->n) return onnx_refuse(c, "pads has %d numbers for %d axes", n, w->n);
    for (int i = 0; i < w->n; i++) {
        w->before[i] = is_set && pads ? pads[i] : 0;
        w->after[i] = is_set && pads ? pads[i + w->n] : 0;
        if (!is_set && pads && i + w->n < n && (pads[i] || pads[i + w->n]))
            return onnx_refuse(c, "pads and auto_pad '%.40s': one of them is needed", automatic);
        if (is_same)
            same(w, weft_dim(x, 2 + i), i, !strcmp(automatic, "SAME_UPPER"), &w->before[i], &w->after[i]);
        if (w->before[i] < 0 || w->after[i] < 0) return onnx_refuse(c, "padding below 0");
        if (w->before[i] > INT32_MAX || w->after[i] > INT32_MAX)
            return onnx_refuse(c, "padding of 2^31 and more");
    }
    return true;
}

bool onnx_window_of(onnx_call *c, weft_value *x, const int64_t *kernel, onnx_window *w) {
    *w = (onnx_window){.n = weft_ndim(x) - 2};
    if (w->n < 1 || w->n > ONNX_SPACE) return onnx_refuse(c, "x has %d axes; 3 to 5 are taken", weft_ndim(x));
    int64_t own[WEFT_MAX_NDIM];
    onnx_shape_of(c, 0, own);
    for (int i = 0; i < w->n; i++) {
        if (own[2 + i] < 1)
            return onnx_refuse(c, "axis %d of x depends on the batch, or has no elements", 2 + i);
        if (own[2 + i] > INT32_MAX) return onnx_refuse(c, "an axis of 2^31 elements and more");
    }
    if (!numbers(c, "kernel_shape", w->n, w->kernel) || !numbers(c, "strides", w->n, w->stride)) return false;
    if (!numbers(c, "dilations", w->n, w->dilation)) return false;
    int given;
    onnx_ints(c, "kernel_shape", &given);
    for (int i = 0; kernel && i < w->n; i++) {
        if (given && w->kernel[i] != kernel[i])
            return onnx_refuse(c, "kernel_shape has %jd for axis %d, the weight %jd", w->kernel[i], i,
                               kernel[i]);
        w->kernel[i] = kernel[i];
    }
    return padding(c, x, w);
}

bool onnx_window_is_even(const onnx_window *w) {
    return !memcmp(w->before, w->after, sizeof w->before);
}

weft_value *onnx_window_pad(weft_value *x, onnx_window *w, double value) {
    int64_t pads[2 * ONNX_SPACE];
    if (onnx_window_is_even(w)) return x;
    for (int i = 0; i < w->n; i++) {
        pads[2 * (w->n - 1 - i)] = w->before[i]; /* the last axis first */
        pads[2 * (w->n - 1 - i) + 1] = w->after[i];
        w->before[i] = w->after[i] = 0;
    }
    return weft_constant_pad(x, w->n, pads, value);
}
