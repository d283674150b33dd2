/* pad_modes.c - builders that pad with elements of x itself: the modes reflect, replicate and circular of
 * torch.nn.functional.pad. Each axis is a concat of slices of x, so the gradient is right by itself; slices
 * count from the ends, so they are right at another batch. */
#include "ops/kit/op_kit.h"

typedef enum pad_mode { REFLECT, REPLICATE, CIRCULAR } pad_mode;

static const char *const names[] = {"reflect_pad", "replicate_pad", "circular_pad"};

/* Elements begin <= i < end of `axis` (weft_slice) in reverse. */
static weft_value *backwards(weft_value *x, int axis, int64_t begin, int64_t end) {
    weft_value *part = weft_slice(x, axis, begin, end);
    return weft_flip(part, 1, (int64_t[]){axis});
}

/* The n elements that come before the first element of the axis (`is_before`) or after the last one. */
static weft_value *border(weft_value *x, int axis, int64_t n, bool is_before, pad_mode mode) {
    if (mode == REFLECT) return is_before ? backwards(x, axis, 1, n + 1) : backwards(x, axis, -n - 1, -1);
    if (mode == CIRCULAR) return is_before ? weft_slice(x, axis, -n, INT64_MAX) : weft_slice(x, axis, 0, n);
    weft_value *edge = weft_slice(x, axis, is_before ? 0 : -1, is_before ? 1 : INT64_MAX);
    return weft_repeat_interleave(edge, n, axis);
}

/* One axis: {before, x, after}, of which there are those that are not empty. */
static weft_value *pad_axis(weft_value *x, int axis, const int64_t pads[2], pad_mode mode) {
    weft_value *parts[3];
    int n = 0;
    for (int i = 0; i < 3; i++) {
        if (i != 1 && pads[i / 2] == 0) continue;
        parts[n] = i == 1 ? x : border(x, axis, pads[i / 2], i == 0, mode);
        if (!parts[n++]) return NULL;
    }
    return n == 1 ? x : weft_concat(n, parts, axis);
}

/* Reflecting leaves out the border itself; a circle has each element once. */
static bool pads_fit(weft_value *x, int n_axes, const int64_t *pads, pad_mode mode) {
    int ndim = x->type.ndim;
    if (n_axes < 0 || n_axes > ndim || (n_axes && !pads))
        return value_fail(x, WEFT_SHAPE, "%s: %d pairs for %s: at most one for each axis", names[mode],
                          n_axes, TYPE(&x->type));
    for (int i = 0; i < 2 * n_axes; i++) {
        int64_t length = x->type.shape[ndim - 1 - i / 2];
        int64_t most = mode == REFLECT ? length - 1 : mode == CIRCULAR ? length : INT32_MAX;
        if (pads[i] < 0 || pads[i] > most)
            return value_fail(x, WEFT_SHAPE, "%s: %lld elements beside axis %d of %s: there may be 0 to %lld",
                              names[mode], (long long)pads[i], ndim - 1 - i / 2, TYPE(&x->type),
                              (long long)most);
    }
    return true;
}

static weft_value *pad_by(weft_value *x, int n_axes, const int64_t *pads, pad_mode mode) {
    if (!x || !pads_fit(x, n_axes, pads, mode)) return NULL;
    int ndim = x->type.ndim;
    for (int i = 0; x && i < n_axes; i++) x = pad_axis(x, ndim - 1 - i, pads + 2 * i, mode);
    return x;
}

weft_value *weft_reflect_pad(weft_value *x, int n_axes, const int64_t *pads) {
    return pad_by(x, n_axes, pads, REFLECT);
}

weft_value *weft_replicate_pad(weft_value *x, int n_axes, const int64_t *pads) {
    return pad_by(x, n_axes, pads, REPLICATE);
}

weft_value *weft_circular_pad(weft_value *x, int n_axes, const int64_t *pads) {
    return pad_by(x, n_axes, pads, CIRCULAR);
}
