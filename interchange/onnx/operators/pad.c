/* pad.c - what stands around the elements of an axis: Pad and CenterCropPad. */
#include "interchange/onnx/operators/families.h"

/* Where the element comes from that stands at place `at` of an axis of n elements; `at` may be outside. */
static int64_t source(const char *mode, int64_t at, int64_t n) {
    int64_t period = *mode == 'w' ? n : 2 * (n - 1);
    if (*mode == 'e') return at < 0 ? 0 : at >= n ? n - 1 : at;
    if (period == 0) return 0;
    at = (at % period + period) % period;
    return at < n ? at : period - at;
}

/* Elements by their places, which are known here. */
static weft_value *padded_by_places(onnx_call *c, weft_value *x, int axis, const char *mode, int64_t before,
                                    int64_t after) {
    int64_t n = weft_dim(x, axis), count[] = {before + n + after};
    int64_t *places =
        count[0] < INT32_MAX ? kit_take(c->in->arena, (size_t)count[0] + 1, sizeof *places) : NULL;
    if (!places) return kit_no_memory(c->in->error, "Pad"), NULL;
    if (!n) return onnx_refuse(c, "axis %d has no elements to repeat", axis);
    for (int64_t i = 0; i < count[0]; i++) places[i] = source(mode, i - before, n);
    return weft_index_select(x, axis, weft_constant_tensor(onnx_graph_of(c), WEFT_I64, 1, count, places));
}

/* Cuts off what is negative, which becomes 0. */
static weft_value *cut(weft_value *x, int axis, int64_t *before, int64_t *after) {
    int64_t begin = *before < 0 ? -*before : 0, end = *after < 0 ? *after : INT64_MAX;
    if (begin || *after < 0) x = weft_slice(x, axis, begin, end);
    *before = *before < 0 ? 0 : *before;
    *after = *after < 0 ? 0 : *after;
    return x;
}

/* Weft's own pads of images, which have faster kernels: of the last axes, and no further than x reaches. */
static weft_value *padded_by_builder(weft_value *x, const char *mode, const int64_t *before,
                                     const int64_t *after) {
    int64_t pads[6];
    int ndim = weft_ndim(x), n = 0;
    bool is_float = weft_value_dtype(x) == WEFT_F32 || weft_value_dtype(x) == WEFT_F16 ||
                    weft_value_dtype(x) == WEFT_BF16;
    for (int i = 0; i < ndim; i++) {
        bool is_used = before[i] || after[i];
        if (is_used && (ndim - i > 3 || i < 2 || before[i] >= weft_dim(x, i) || after[i] >= weft_dim(x, i)))
            return NULL;
        if (is_used && ndim - i > n) n = ndim - i;
    }
    if (!is_float || !n) return NULL;
    for (int i = 0; i < n; i++) {
        pads[2 * i] = before[ndim - 1 - i];
        pads[2 * i + 1] = after[ndim - 1 - i];
    }
    return *mode == 'e'   ? weft_replicate_pad(x, n, pads)
           : *mode == 'w' ? weft_circular_pad(x, n, pads)
                          : weft_reflect_pad(x, n, pads);
}

static weft_value *padded_by_number(weft_value *x, const int64_t *before, const int64_t *after,
                                    double number) {
    int64_t pads[2 * WEFT_MAX_NDIM];
    int ndim = weft_ndim(x), n = 0;
    for (int i = 0; i < ndim; i++) {
        pads[2 * i] = before[ndim - 1 - i];
        pads[2 * i + 1] = after[ndim - 1 - i];
        if (pads[2 * i] || pads[2 * i + 1]) n = i + 1;
    }
    return n ? weft_constant_pad(x, n, pads, number) : x;
}

/* The same with a number that is computed when the graph runs: it stands where a padded mask has 0. */
static weft_value *padded_by_value(onnx_call *c, weft_value *x, const int64_t *before, const int64_t *after,
                                   weft_value *number) {
    int64_t own[WEFT_MAX_NDIM], shape[WEFT_MAX_NDIM];
    onnx_shape_of(c, 0, own);
    for (int i = 0; i < weft_ndim(x); i++) {
        shape[i] = before[i] || after[i] ? own[i] : 1;
        if (shape[i] == ONNX_DEPENDS) return onnx_refuse(c, "axis %d, whose length depends on the batch", i);
    }
    weft_value *is_own = weft_constant(onnx_graph_of(c), WEFT_BOOL, weft_ndim(x), shape, 1);
    weft_value *y = padded_by_number(x, before, after, 0);
    if (weft_ndim(number) == 1) number = weft_squeeze(number, 0);
    return weft_where(padded_by_number(is_own, before, after, 0), y, number);
}

static weft_value *padded_by_itself(onnx_call *c, weft_value *x, const char *mode, int64_t *before,
                                    int64_t *after) {
    int64_t own[WEFT_MAX_NDIM];
    onnx_shape_of(c, 0, own);
    for (int i = 0; x && i < weft_ndim(x); i++) {
        if (own[i] < 0 && (before[i] || after[i]))
            return onnx_refuse(c, "mode %.20s of axis %d, whose length depends on the batch", mode, i);
        x = cut(x, i, &before[i], &after[i]);
    }
    weft_value *y = x ? padded_by_builder(x, mode, before, after) : NULL;
    if (y) return y;
    for (int i = 0; x && i < weft_ndim(x); i++)
        if (before[i] || after[i]) x = padded_by_places(c, x, i, mode, before[i], after[i]);
    return x;
}

weft_value *onnx_build_pad(onnx_call *c) {
    int64_t before[WEFT_MAX_NDIM] = {0}, after[WEFT_MAX_NDIM] = {0};
    int axes[WEFT_MAX_NDIM], n, n_axes;
    weft_value *x = onnx_in(c, 0);
    const int64_t *pads = onnx_list(c, 1, "pads", &n), *list = onnx_integers(c, 3, &n_axes);
    const char *mode = onnx_word(c, "mode", "constant");
    weft_value *value =
        onnx_known_in(c, 2) ? NULL : onnx_in(c, 2); /* one that is computed when the graph runs */
    bool is_constant = !strcmp(mode, "constant");
    double number = value ? 0 : onnx_number(c, 2, onnx_real(c, "value", 0));
    if (!x || c->in->error->status) return NULL;
    if (!list) n_axes = weft_ndim(x);
    if (!pads || n != 2 * n_axes) return onnx_refuse(c, "%d pads for %d axes", n, n_axes);
    if (!onnx_axes(c, list, n_axes, weft_ndim(x), axes)) return NULL;
    for (int i = 0; i < n_axes; i++) {
        before[axes[i]] = pads[i];
        after[axes[i]] = pads[i + n_axes];
    }
    if (is_constant)
        return value ? padded_by_value(c, x, before, after, value)
                     : padded_by_number(x, before, after, number);
    if (strcmp(mode, "edge") && strcmp(mode, "reflect") && strcmp(mode, "wrap"))
        return onnx_refuse(c, "mode is '%.40s'", mode);
    return padded_by_itself(c, x, mode, before, after);
}

/* The middle of x, or x in the middle of zeros; an odd element is at the end. */
weft_value *onnx_build_center_crop_pad(onnx_call *c) {
    int64_t own[WEFT_MAX_NDIM], before[WEFT_MAX_NDIM] = {0}, after[WEFT_MAX_NDIM] = {0};
    int axes[WEFT_MAX_NDIM], n, n_axes;
    weft_value *x = onnx_in(c, 0);
    const int64_t *shape = onnx_lengths(c, 1, &n), *list = onnx_ints(c, "axes", &n_axes);
    if (!x || !shape) return NULL;
    if (!list) n_axes = weft_ndim(x);
    if (n != n_axes) return onnx_refuse(c, "%d lengths for %d axes", n, n_axes);
    if (!onnx_axes(c, list, n, weft_ndim(x), axes)) return NULL;
    onnx_shape_of(c, 0, own);
    for (int i = 0; i < n; i++) {
        int64_t here = own[axes[i]];
        if (shape[i] == here && here != ONNX_DEPENDS) continue;
        if (shape[i] < 0 || here < 0) return onnx_refuse(c, "axis %d depends on the batch", axes[i]);
        int64_t more = shape[i] - here, half = (more < 0 ? -more : more) / 2;
        before[axes[i]] = more < 0 ? -half : half;
        after[axes[i]] = more - before[axes[i]];
    }
    return padded_by_number(x, before, after, 0);
}
