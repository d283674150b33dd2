/* split.c - builders that cut a value along an axis into slices: torch.split, chunk and unbind. Slices are
 * views. The sum of their gradients, pads of adjacent ranges, becomes a concat (add.c). */
#include "ops/shape/lengths.h"

/* Resolves the axis and clears the parts; false after recording the error. */
static bool can_cut(const char *name, weft_value *x, int n, int64_t *axis, weft_value **parts) {
    for (int i = 0; parts && i < n; i++) parts[i] = NULL;
    if (!x) return false;
    if (n < 1) return value_fail(x, WEFT_ARGUMENT, "%s: %d parts: there must be at least 1", name, n);
    if (!parts)
        return value_fail(x, WEFT_ARGUMENT, "%s: parts is NULL: it must be an array of %d values", name, n);
    int wanted = (int)*axis;
    return axis_resolve(axis, x->type.ndim) ||
           value_fail(x, WEFT_SHAPE, "%s: %s has no axis %d", name, TYPE(&x->type), wanted);
}

/* n if all parts were made. */
static int all_made(int n, weft_value **parts) {
    for (int i = 0; i < n; i++)
        if (!parts[i]) return 0;
    return n;
}

/* Replaces a size of -1 by what the others leave of `length`. False: one is negative, or they do not add
 * up. */
static bool sizes_fit(int n, const int64_t *sizes, int64_t length, int *open, int64_t *rest) {
    *open = -1;
    *rest = length;
    for (int i = 0; i < n; i++) {
        bool is_open = sizes[i] == -1;
        if (is_open && *open >= 0) return false;
        if (is_open) *open = i;
        if (!is_open && (sizes[i] < 0 || sizes[i] > *rest)) return false;
        if (!is_open) *rest -= sizes[i];
    }
    return *open >= 0 || *rest == 0;
}

/* Ranges before the open part count from the front, those after it from the end: they are right at any
 * length. */
int weft_split(weft_value *x, int n, const int64_t *sizes, int axis, weft_value **parts) {
    int64_t k = axis, at = 0, rest;
    int open;
    if (!can_cut("split", x, n, &k, parts)) return 0;
    int64_t length = x->type.shape[k];
    if (!sizes || !sizes_fit(n, sizes, length, &open, &rest))
        return !!value_fail(
            x, WEFT_SHAPE,
            "split: %d sizes along axis %d of %s: each must be at least 0, their sum %lld, and one of "
            "them may be -1, which takes what is left",
            n, axis, TYPE(&x->type), (long long)length);
    if (open < 0) x = fixed_axis(x, (int)k);
    for (int i = 0; i < n; i++) {
        int64_t end = at + (i == open ? rest : sizes[i]);
        bool from_end = open >= 0 && i > open;
        int64_t stop = open < 0 || i < open ? end : end == length ? INT64_MAX : end - length;
        int64_t begin = !from_end ? at : at == length ? INT64_MAX : at - length;
        parts[i] = weft_slice(x, (int)k, begin, stop);
        at = end;
    }
    return all_made(n, parts);
}

/* Equal parts of an axis that may be the batch: cut as [n, -1, ...], which is right for any batch that n
 * divides. */
static int cut_axis(weft_value *x, int n, int axis, weft_value **parts) {
    lengths part = lengths_of(x), l;
    lengths_divide(&part, axis, n);
    l = part;
    lengths_insert(&l, axis, n);
    weft_value *all = reshape_lengths(x, &l);
    for (int i = 0; i < n; i++) parts[i] = reshape_lengths(weft_slice(all, axis, i, i + 1), &part);
    return all_made(n, parts);
}

/* As in torch.chunk parts are ceil(length / n) long except for the last, and may be fewer than n; of an axis
 * of 0 there are n. */
int weft_chunk(weft_value *x, int n, int axis, weft_value **parts) {
    int64_t k = axis;
    if (!can_cut("chunk", x, n, &k, parts)) return 0;
    int64_t length = x->type.shape[k], size = (length + n - 1) / n;
    int count = size ? (int)((length + size - 1) / size) : n;
    bool may_follow = k == 0 || axis_follows(x, (int)k);
    if (may_follow && length % n == 0 && n > 1 && x->type.ndim < WEFT_MAX_NDIM)
        return cut_axis(x, n, (int)k, parts);
    x = n > 1 ? fixed_axis(x, (int)k) : x;
    for (int i = 0; i < count; i++) {
        int64_t end = i == count - 1 ? INT64_MAX : (i + 1) * size;
        parts[i] = weft_slice(x, (int)k, i * size, end);
    }
    return all_made(count, parts);
}

int weft_unbind(weft_value *x, int n, int axis, weft_value **parts) {
    int64_t k = axis;
    if (!can_cut("unbind", x, n, &k, parts)) return 0;
    if (x->type.shape[k] != n)
        return !!value_fail(x, WEFT_SHAPE,
                            "unbind: axis %d of %s is %lld long, not %d: there is a part for each index",
                            axis, TYPE(&x->type), (long long)x->type.shape[k], n);
    x = fixed_axis(x, (int)k);
    for (int i = 0; i < n; i++) {
        weft_value *one = weft_slice(x, (int)k, i, i + 1);
        parts[i] = weft_squeeze(one, (int)k);
    }
    return all_made(n, parts);
}
