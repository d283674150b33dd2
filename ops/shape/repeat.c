/* repeat.c - builders that repeat a value along axes: torch.tile and repeat_interleave. A repeated axis is a
 * view with stride 0 between two reshapes, so there is one copy for each axis, and the gradient is a sum over
 * it. */
#include "ops/shape/lengths.h"

/* x [lead, rest] as [lead, n, rest], in the shape of x with n times the length of `axis`. `cut` is the
 * first axis of rest. */
static weft_value *repeat_between(weft_value *x, int cut, int64_t n, int axis) {
    lengths l = lengths_of(x), result = l;
    lengths_scale(&result, axis, n);
    lengths_merge(&l, cut, l.n);
    lengths_merge(&l, 0, cut);
    lengths_insert(&l, 1, 1);
    weft_value *y = reshape_lengths(x, &l);
    y = weft_broadcast_to(y, 3, (int64_t[]){-1, n, -1});
    return reshape_lengths(y, &result);
}

/* So many repeats that no size overflows. */
static bool repeats_fit(const char *name, weft_value *x, int64_t n) {
    return (n >= 0 && n <= INT32_MAX) ||
           value_fail(x, WEFT_ARGUMENT, "%s: %lld repeats: they must be 0 to 2^31-1", name, (long long)n);
}

/* From the last axis on, since it is the copies of the first that are large. */
weft_value *weft_tile(weft_value *x, int n, const int64_t *repeats) {
    if (!x) return NULL;
    if (n < 0 || n > WEFT_MAX_NDIM || (n && !repeats))
        return value_fail(x, WEFT_SHAPE, "tile: %d repeats, 0 to %d are allowed", n, WEFT_MAX_NDIM);
    for (int i = 0; i < n; i++)
        if (!repeats_fit("tile", x, repeats[i])) return NULL;
    lengths l = lengths_of(x);
    for (int i = x->type.ndim; i < n; i++) lengths_insert(&l, 0, 1);
    if (n > x->type.ndim) x = reshape_lengths(x, &l);
    for (int i = n - 1; x && i >= 0; i--) {
        int axis = x->type.ndim - n + i;
        if (repeats[i] != 1) x = repeat_between(x, axis, repeats[i], axis);
    }
    return x;
}

weft_value *weft_repeat_interleave(weft_value *x, int64_t repeats, int axis) {
    if (!x) return NULL;
    int64_t k = axis;
    if (!axis_resolve(&k, x->type.ndim))
        return value_fail(x, WEFT_SHAPE, "repeat_interleave: %s has no axis %d", TYPE(&x->type), axis);
    if (!repeats_fit("repeat_interleave", x, repeats)) return NULL;
    return repeats == 1 ? x : repeat_between(x, (int)k + 1, repeats, (int)k);
}

/* torch.roll of one axis: the range that leaves at the end comes first. */
weft_value *weft_roll(weft_value *x, int64_t shift, int axis) {
    if (!x) return NULL;
    int64_t k = axis;
    if (!axis_resolve(&k, x->type.ndim))
        return value_fail(x, WEFT_SHAPE, "roll: %s has no axis %d", TYPE(&x->type), axis);
    int64_t length = x->type.shape[k], by = length ? shift % length : 0;
    bool may_follow = (k == 0 && length) || axis_follows(x, (int)k);
    if (shift == 0 || (by == 0 && !may_follow)) return x;
    if (by == 0)
        return value_fail(
            x, WEFT_SHAPE,
            "roll: a shift of %lld moves nothing along axis %d of %s: use 0, or, if that is the batch, a "
            "default batch (weft_model_set_batch) that does not divide the shift",
            (long long)shift, (int)k, TYPE(&x->type));
    if (by != shift) x = fixed_axis(x, (int)k);
    int64_t cut = -by; /* of a shift to the right negative: from the end */
    weft_value *last = weft_slice(x, (int)k, cut, INT64_MAX);
    weft_value *first = last ? weft_slice(x, (int)k, 0, cut) : NULL;
    return first ? weft_concat(2, (weft_value *[]){last, first}, (int)k) : NULL;
}
