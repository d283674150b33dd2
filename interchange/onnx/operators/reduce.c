/* reduce.c - reductions over axes, places of extremes, running sums and products. */
#include "interchange/onnx/operators/families.h"
#include "interchange/onnx/import/types.h"

#include <math.h>

/* ---- Reduce*: the axes are an attribute, in later opsets an operand ---- */

typedef struct reduction {
    weft_value *x;    /* in a type that is computed with */
    weft_dtype dtype; /* of the result */
    int n;            /* 0: all axes */
    int64_t axes[WEFT_MAX_NDIM];
    bool keeps, is_void; /* over no axis: each element is by itself */
} reduction;

typedef weft_value *reducer(weft_value *x, int n_axes, const int64_t *axes, bool keep);

static bool reduction_of(onnx_call *c, reduction *r) {
    weft_value *x = onnx_in(c, 0);
    int n_given, n_operand;
    const int64_t *given = onnx_ints(c, "axes", &n_given), *operand = onnx_integers(c, 1, &n_operand);
    *r = (reduction){
        .x = onnx_wide(x), .n = operand ? n_operand : n_given, .keeps = onnx_int(c, "keepdims", 1)};
    r->is_void = onnx_int(c, "noop_with_empty_axes", 0) && !r->n;
    if (!x || c->in->error->status) return false;
    r->dtype = weft_value_dtype(x);
    if (operand) given = operand;
    if (r->n > weft_ndim(x)) return onnx_refuse(c, "it reduces over %d axes of %d", r->n, weft_ndim(x));
    for (int i = 0; i < r->n; i++) r->axes[i] = given[i];
    return true;
}

static weft_value *reduced(const reduction *r, weft_value *x, reducer *function) {
    return r->is_void ? x : function(x, r->n, r->n ? r->axes : NULL, r->keeps);
}

weft_value *onnx_build_reduce_sum(onnx_call *c) {
    reduction r;
    return reduction_of(c, &r) ? onnx_as(reduced(&r, r.x, weft_sum), r.dtype) : NULL;
}

weft_value *onnx_build_reduce_prod(onnx_call *c) {
    reduction r;
    return reduction_of(c, &r) ? onnx_as(reduced(&r, r.x, weft_prod), r.dtype) : NULL;
}

/* Of integers the quotient towards 0; the count is the sum of ones, as it may follow the batch. */
weft_value *onnx_build_reduce_mean(onnx_call *c) {
    reduction r;
    if (!reduction_of(c, &r)) return NULL;
    if (onnx_is_real(r.x)) return reduced(&r, r.x, weft_mean);
    weft_value *x = onnx_as(r.x, WEFT_I64), *count = weft_cast(weft_equal(x, x), WEFT_I64);
    weft_value *sum = reduced(&r, x, weft_sum), *n = reduced(&r, count, weft_sum);
    return onnx_as(weft_trunc_divide(sum, n), r.dtype);
}

weft_value *onnx_build_reduce_l1(onnx_call *c) {
    reduction r;
    return reduction_of(c, &r) ? onnx_as(reduced(&r, weft_abs(r.x), weft_sum), r.dtype) : NULL;
}

static weft_value *norm_2(weft_value *x, int n_axes, const int64_t *axes, bool keep) {
    return weft_vector_norm(x, 2, n_axes, axes, keep);
}

weft_value *onnx_build_reduce_l2(onnx_call *c) {
    reduction r;
    if (!reduction_of(c, &r)) return NULL;
    weft_value *x = onnx_as_real(r.x);
    return onnx_as(r.is_void ? weft_abs(x) : reduced(&r, x, norm_2), r.dtype);
}

weft_value *onnx_build_reduce_sum_square(onnx_call *c) {
    reduction r;
    return reduction_of(c, &r) ? onnx_as(reduced(&r, weft_square(r.x), weft_sum), r.dtype) : NULL;
}

weft_value *onnx_build_reduce_log_sum(onnx_call *c) {
    reduction r;
    return reduction_of(c, &r) ? onnx_as(weft_log(reduced(&r, onnx_as_real(r.x), weft_sum)), r.dtype) : NULL;
}

/* ---- extremes ---- */

static bool is_reduced(const reduction *r, int axis) {
    for (int i = 0; i < r->n; i++)
        if (r->axes[i] == axis || r->axes[i] == axis - weft_ndim(r->x)) return true;
    return !r->n && !r->is_void;
}

/* x with one element along each axis that is reduced and has none: what the extreme of no element is. */
static weft_value *filled(const reduction *r, weft_value *x, double element) {
    int64_t pads[2 * WEFT_MAX_NDIM] = {0};
    bool is_empty = false;
    for (int i = 0; i < weft_ndim(r->x); i++) {
        bool fills = weft_dim(r->x, i) == 0 && is_reduced(r, i);
        pads[2 * (weft_ndim(r->x) - 1 - i) + 1] = fills;
        is_empty |= fills;
    }
    return is_empty ? weft_constant_pad(x, weft_ndim(r->x), pads, element) : x;
}

/* The least (sign -1) or largest number of a type. A double does not hold the largest of i64: the builder
 * refuses 2^63. */
static double end_of(weft_dtype dtype, int sign) {
    switch (dtype) {
    case WEFT_BOOL:
        return sign > 0;
    case WEFT_U8:
        return sign > 0 ? 255 : 0;
    case WEFT_I8:
        return sign > 0 ? 127 : -128;
    case WEFT_U16:
        return sign > 0 ? 65535 : 0;
    case WEFT_U32:
        return sign > 0 ? 4294967295.0 : 0;
    case WEFT_I32:
        return sign > 0 ? 2147483647 : -2147483648.0;
    case WEFT_I64:
        return sign > 0 ? 9223372036854775808.0 : -9223372036854775808.0;
    default:
        return sign * (double)INFINITY;
    }
}

weft_value *onnx_build_reduce_max(onnx_call *c) {
    reduction r;
    if (!reduction_of(c, &r)) return NULL;
    return onnx_as(reduced(&r, filled(&r, r.x, end_of(r.dtype, -1)), weft_amax), r.dtype);
}

weft_value *onnx_build_reduce_min(onnx_call *c) {
    reduction r;
    if (!reduction_of(c, &r)) return NULL;
    return onnx_as(reduced(&r, filled(&r, r.x, end_of(r.dtype, 1)), weft_amin), r.dtype);
}

weft_value *onnx_build_reduce_log_sum_exp(onnx_call *c) {
    reduction r;
    if (!reduction_of(c, &r)) return NULL;
    return onnx_as(reduced(&r, filled(&r, onnx_as_real(r.x), -INFINITY), weft_logsumexp), r.dtype);
}

typedef weft_value *place_of(weft_value *x, int axis, bool keep);

/* The first of equal ones, or with select_last_index the last: the first from the other end. */
static weft_value *place(onnx_call *c, place_of *function) {
    weft_value *x = onnx_wide(onnx_in(c, 0));
    bool keeps = onnx_int(c, "keepdims", 1), takes_last = onnx_int(c, "select_last_index", 0);
    int64_t own[WEFT_MAX_NDIM], given = onnx_int(c, "axis", 0);
    int axis;
    if (!x || !onnx_axis_of(c, given, weft_ndim(x), &axis)) return NULL;
    if (!takes_last) return function(x, axis, keeps);
    onnx_shape_of(c, 0, own);
    if (own[axis] < 0) return onnx_refuse(c, "select_last_index along an axis that follows the batch");
    weft_value *from_end = function(weft_flip(x, 1, &(int64_t){axis}), axis, keeps);
    return weft_offset(weft_neg(from_end), (double)own[axis] - 1);
}

weft_value *onnx_build_arg_max(onnx_call *c) {
    return place(c, weft_argmax);
}

weft_value *onnx_build_arg_min(onnx_call *c) {
    return place(c, weft_argmin);
}

/* ---- running sums and products ---- */

typedef weft_value *runner(weft_value *x, int axis);

/* Each element gets what is before it: the last one leaves, `first` comes in front. */
static weft_value *delayed(weft_value *x, int axis, double first) {
    int64_t pads[2 * WEFT_MAX_NDIM] = {0};
    int n = weft_ndim(x) - axis;
    pads[2 * (n - 1)] = 1;
    pads[2 * (n - 1) + 1] = -1;
    return weft_constant_pad(x, n, pads, first);
}

static weft_value *running(onnx_call *c, runner *function, double first) {
    weft_value *x = onnx_in(c, 0), *y = onnx_wide(x);
    bool is_exclusive = onnx_int(c, "exclusive", 0), is_reverse = onnx_int(c, "reverse", 0);
    int64_t given = onnx_integer(c, 1, 0);
    int axis;
    if (!x || c->in->error->status || !onnx_axis_of(c, given, weft_ndim(x), &axis)) return NULL;
    int64_t axes[1] = {axis};
    if (is_reverse) y = weft_flip(y, 1, axes);
    if (is_exclusive) y = delayed(y, axis, first);
    y = function(y, axis);
    if (is_reverse) y = weft_flip(y, 1, axes);
    return onnx_as(y, weft_value_dtype(x));
}

weft_value *onnx_build_cum_sum(onnx_call *c) {
    return running(c, weft_cumsum, 0);
}

weft_value *onnx_build_cum_prod(onnx_call *c) {
    return running(c, weft_cumprod, 1);
}
