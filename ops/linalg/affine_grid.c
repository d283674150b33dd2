/* affine_grid.c - a builder: the places of grid_sample that an affine map moves the elements of an image or
 * volume to; torch.nn.functional.affine_grid. One product of the elements' places with each matrix. */
#include "ops/shape/arange.h"
#include "ops/shape/lengths.h"

/* The places of `length` elements along an axis, as that axis of `axes`. */
static weft_value *places_along(weft_graph *g, weft_dtype dtype, int64_t length, int axis, int axes,
                                bool align_corners) {
    double n = (double)length, step = align_corners ? (n > 1 ? 2 / (n - 1) : 0) : 2 / n;
    double begin = n == 1 ? 0 : align_corners ? -1 : 1 / n - 1;
    int64_t shape[4] = {1, 1, 1, 1};
    arange_attrs a = {dtype, {1, {length}}, begin, step};
    shape[axis] = length;
    return weft_reshape(node_value(g, &weft_op_arange, 0, NULL, &a), axes + 1, shape);
}

/* [size, 1] of each number, and of ones, side by side: [size, axes + 1], as rows. */
static weft_value *all_places(weft_value *theta, int axes, const int64_t *size, bool align_corners) {
    weft_graph *g = theta->node->graph;
    weft_value *parts[4] = {0};
    int64_t whole[4] = {1, 1, 1, 1}, rows[] = {-1, axes + 1};
    for (int i = 0; i < axes; i++) whole[i] = size[i];
    for (int k = 0; k < axes; k++) {
        int axis = axes - 1 - k; /* the first number is along the last axis */
        weft_value *v = places_along(g, theta->type.dtype, size[axis], axis, axes, align_corners);
        parts[k] = weft_broadcast_to(v, axes + 1, whole);
    }
    parts[axes] = weft_constant(g, theta->type.dtype, axes + 1, whole, 1);
    return weft_reshape(weft_concat(axes + 1, parts, axes), 2, rows);
}

static bool theta_fits(const weft_value *theta) {
    const int64_t *s = theta->type.shape;
    bool fits = theta->type.ndim == 3 && (s[1] == 2 || s[1] == 3) && s[2] == s[1] + 1;
    return fits ||
           value_fail(theta, WEFT_SHAPE,
                      "affine_grid: theta is %s: it must be [N, 2, 3] for images, [N, 3, 4] for volumes",
                      TYPE(&theta->type));
}

weft_value *weft_affine_grid(weft_value *theta, const int64_t *size, bool align_corners) {
    if (!theta || !theta_fits(theta)) return NULL;
    int axes = (int)theta->type.shape[1];
    if (!dtype_is_float(theta->type.dtype))
        return value_fail(theta, WEFT_TYPE, "affine_grid: theta is %s: it must be floating point",
                          TYPE(&theta->type));
    for (int i = 0; i < axes; i++)
        if (!size || size[i] < 1 || size[i] > INT32_MAX)
            return value_fail(theta, WEFT_ARGUMENT, "affine_grid: size[%d]=%lld: it must be 1 to 2^31-1", i,
                              size ? (long long)size[i] : 0);
    weft_value *y = weft_matmul(all_places(theta, axes, size, align_corners), theta, false, true);
    if (!y) return NULL;
    lengths l = lengths_of(y);
    lengths_remove(&l, 1);
    for (int i = 0; i < axes; i++) lengths_insert(&l, 1 + i, size[i]);
    return reshape_lengths(y, &l);
}
