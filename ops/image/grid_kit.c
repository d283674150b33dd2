/* grid_kit.c - see grid_sample.h. The formulas are PyTorch's (aten/src/ATen/native/GridSampler.h). */
#include "ops/image/cubic.h"
#include "ops/image/grid_sample.h"

#include <math.h>

const char *const grid_modes[] = {"bilinear", "nearest", "bicubic", NULL};
const char *const grid_paddings[] = {"zeros", "border", "reflection", NULL};

/* ---- checks ---- */

static bool order_fits(const op_call *c, int axes) {
    const grid_attrs *a = c->attrs;
    return !a->order.n || a->order.n == axes ||
           op_fail(c, WEFT_ARGUMENT, "order has %d numbers: it must have %d", a->order.n, axes);
}

bool grid_fits(const op_call *c, int image) {
    const tensor_type *x = op_in(c, image), *grid = op_in(c, 1);
    int axes = x->ndim - 2;
    if (!op_want_float(c, 0) || !op_want_same_dtype(c)) return false;
    if (axes < 2 || axes > 3 || grid->ndim != x->ndim || grid->shape[axes + 1] != axes ||
        grid->shape[0] != x->shape[0])
        return op_fail(c, WEFT_SHAPE,
                       "x %s and grid %s: they must be [N, C, H, W] and [N, h, w, 2], or [N, C, D, H, W] and "
                       "[N, d, h, w, 3]",
                       TYPE(x), TYPE(grid));
    return order_fits(c, axes);
}

/* ---- one axis ---- */

/* The place p, where -1 and 1 are the ends of the axis, as an index; *slope is its derivative by p. */
static double index_of(const grid_attrs *a, double p, int64_t length, double *slope) {
    double n = (double)length;
    *slope = a->align_corners ? (n - 1) / 2 : n / 2;
    return a->align_corners ? (p + 1) / 2 * (n - 1) : ((p + 1) * n - 1) / 2;
}

/* Reflected at the middles of the first and the last element, or at their outer borders. */
static double reflected(const grid_attrs *a, double i, int64_t length, double *slope) {
    double low = a->align_corners ? 0 : -0.5, span = (double)length - (a->align_corners ? 1 : 0);
    if (span == 0) {
        *slope = 0;
        return 0;
    }
    if (i < low) *slope = -*slope;
    i = fabs(i - low);
    double rest = fmod(i, span), turns = floor(i / span);
    if (fmod(turns, 2) != 0) {
        *slope = -*slope;
        rest = span - rest;
    }
    return rest + low;
}

/* i inside the axis, as the padding says; zeros leave it as it is. NaN and infinite places are outside. */
static double padded(const grid_attrs *a, double i, int64_t length, double *slope) {
    double last = (double)(length - 1);
    if (a->padding == WEFT_GRID_ZEROS) return fabs(i) < 0x1p40 ? i : -9;
    if (a->padding == WEFT_GRID_REFLECTION) i = fabs(i) < 0x1p40 ? reflected(a, i, length, slope) : -1;
    if (i > 0 && i < last) return i;
    *slope = 0;
    return i >= last ? last : 0;
}

static int64_t held(int64_t k, int64_t length) {
    return k >= 0 && k < length ? k : -1;
}

/* slope^order */
static double chain(double slope, int order) {
    double product = 1;
    while (order-- > 0) product *= slope;
    return product;
}

/* Four elements around the place, each of which is padded. */
static grid_axis cubic_axis(const grid_attrs *a, int order, double i, int64_t length, double slope) {
    grid_axis axis = {.n = GRID_TAPS};
    if (!(fabs(i) < 0x1p40)) i = -9;
    double first = floor(i), none = 0;
    for (int j = 0; j < GRID_TAPS; j++) {
        double x = j - 1 - (i - first), sign = order % 2 ? -1 : 1;
        axis.at[j] = held((int64_t)padded(a, first + j - 1, length, &none), length);
        axis.weight[j] = sign * cubic_slope(x, CUBIC_SHARP, order) * chain(slope, order);
    }
    return axis;
}

grid_axis grid_axis_of(const grid_attrs *a, int k, double place, int64_t length) {
    int order = a->order.n ? (int)a->order.v[k] : 0;
    double slope, i = index_of(a, place, length, &slope);
    if (a->mode == WEFT_GRID_BICUBIC) return cubic_axis(a, order, i, length, slope);
    i = padded(a, i, length, &slope);
    if (a->mode == WEFT_GRID_NEAREST)
        return (grid_axis){1, {held((int64_t)nearbyint(i), length)}, {order == 0}};
    double first = floor(i), after = i - first;
    grid_axis axis = {
        2, {held((int64_t)first, length), held((int64_t)first + 1, length)}, {1 - after, after}};
    if (order == 0) return axis;
    axis.weight[1] = order == 1 ? slope : 0;
    axis.weight[0] = -axis.weight[1];
    return axis;
}

void grid_place(const grid_attrs *a, const tensor *grid, int64_t *at, const tensor_type *x,
                grid_axis axis[3]) {
    int axes = x->ndim - 2, last = grid->type.ndim - 1;
    axis[0] = (grid_axis){1, {0}, {1}};
    for (int k = 0; k < axes; k++) {
        at[last] = k; /* the first number is along the last axis */
        axis[2 - k] = grid_axis_of(a, k, element_get(grid, at), x->shape[x->ndim - 1 - k]);
    }
}

/* ---- gradients ---- */

weft_value *grid_gradient(const weft_node *n, weft_value *dy, weft_value *x, weft_value *grid) {
    int axes = x->type.ndim - 2;
    weft_value *parts[3] = {0}, *in[] = {x, grid};
    if (((const grid_attrs *)n->attrs)->mode == WEFT_GRID_NEAREST) return zeros_like(grid);
    for (int k = 0; k < axes; k++) {
        grid_attrs a = *(const grid_attrs *)n->attrs;
        int64_t channels = 1;
        a.size.n = 0;
        a.order.n = axes;
        if (a.order.v[k]++ >= GRID_MOST_ORDER) return zeros_like(grid);
        weft_value *slope = node_value(n->graph, &weft_op_grid_sample, 2, in, &a);
        parts[k] = weft_sum(weft_mul(dy, slope), 1, &channels, false);
    }
    return weft_stack(axes, parts, -1);
}
