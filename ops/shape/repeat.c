/* repeat.c - builders that repeat a value along axes: torch.tile and repeat_interleave. A repeated axis is a
 * view with stride 0 between two reshapes, so there is one copy for each axis, and the gradient is a sum over
 * it. Axis 0 of x is -1 in the reshapes, so that replay works at another batch size. */
#include "ops/kit/op_kit.h"

/* Product of the lengths of axes begin <= i < end. */
static int64_t product(const tensor_type *t, int begin, int end) {
    int64_t p = 1;
    for (int i = begin; i < end; i++) p *= t->shape[i];
    return p;
}

/* x [lead, rest] as [lead, n, rest], in the shape of x with n times the length of `axis`. `cut` is the
 * first axis of rest. Axis `open`, which may be the batch, has no length in the reshapes. */
static weft_value *repeat_between(weft_value *x, int cut, int64_t n, int axis, int open) {
    const tensor_type *t = &x->type;
    bool is_behind = cut <= open;
    int64_t lead = is_behind ? product(t, 0, cut) : -1, rest = is_behind ? -1 : product(t, cut, t->ndim),
            shape[WEFT_MAX_NDIM];
    weft_value *y = weft_reshape(x, 3, (int64_t[]){lead, 1, rest});
    y = weft_broadcast_to(y, 3, (int64_t[]){-1, n, -1});
    if (!y) return NULL;
    for (int i = 0; i < t->ndim; i++) shape[i] = i == open ? -1 : i == axis ? t->shape[i] * n : t->shape[i];
    return weft_reshape(y, t->ndim, shape);
}

/* So many repeats that no size overflows. */
static bool repeats_fit(const char *name, weft_value *x, int64_t n) {
    return (n >= 1 && n <= INT32_MAX) ||
           value_fail(x, WEFT_ARGUMENT, "%s: %lld repeats: they must be 1 to 2^31-1", name, (long long)n);
}

/* From the last axis on, since it is the copies of the first that are large. */
weft_value *weft_tile(weft_value *x, int n, const int64_t *repeats) {
    if (!x) return NULL;
    if (n < 0 || n > WEFT_MAX_NDIM || (n && !repeats))
        return value_fail(x, WEFT_SHAPE, "tile: %d repeats, 0 to %d are allowed", n, WEFT_MAX_NDIM);
    for (int i = 0; i < n; i++)
        if (!repeats_fit("tile", x, repeats[i])) return NULL;
    int64_t shape[WEFT_MAX_NDIM];
    int open = n > x->type.ndim ? n - x->type.ndim : 0; /* where axis 0 of x is then */
    for (int i = 0; i < n; i++) shape[i] = i < open ? 1 : i == open ? -1 : x->type.shape[i - open];
    if (open) x = weft_reshape(x, n, shape);
    for (int i = n - 1; x && i >= 0; i--) {
        int axis = x->type.ndim - n + i;
        if (repeats[i] > 1) x = repeat_between(x, axis, repeats[i], axis, open);
    }
    return x;
}

weft_value *weft_repeat_interleave(weft_value *x, int64_t repeats, int axis) {
    if (!x) return NULL;
    int64_t k = axis;
    if (!axis_resolve(&k, x->type.ndim))
        return value_fail(x, WEFT_SHAPE, "repeat_interleave: %s has no axis %d", TYPE(&x->type), axis);
    if (!repeats_fit("repeat_interleave", x, repeats)) return NULL;
    return repeats == 1 ? x : repeat_between(x, (int)k + 1, repeats, (int)k, 0);
}

/* torch.roll of one axis: the range that leaves at the end comes first. */
weft_value *weft_roll(weft_value *x, int64_t shift, int axis) {
    if (!x) return NULL;
    int64_t k = axis;
    if (!axis_resolve(&k, x->type.ndim))
        return value_fail(x, WEFT_SHAPE, "roll: %s has no axis %d", TYPE(&x->type), axis);
    int64_t by = shift % x->type.shape[k];
    if (shift == 0 || (by == 0 && k > 0)) return x;
    if (by == 0)
        return value_fail(
            x, WEFT_SHAPE,
            "roll: a shift of %lld moves nothing along axis 0 of %s: use 0, or, if that is the batch, a "
            "default batch (weft_model_set_batch) that does not divide the shift",
            (long long)shift, TYPE(&x->type));
    int64_t cut = -by; /* of a shift to the right negative: from the end */
    weft_value *last = weft_slice(x, (int)k, cut, INT64_MAX);
    weft_value *first = last ? weft_slice(x, (int)k, 0, cut) : NULL;
    return first ? weft_concat(2, (weft_value *[]){last, first}, (int)k) : NULL;
}
