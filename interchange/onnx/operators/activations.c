/* activations.c - activations with attributes, and softmax. */
#include "interchange/onnx/operators/families.h"
#include "interchange/onnx/import/types.h"

#include <math.h>

/* ---- of one element ---- */

weft_value *onnx_build_elu(onnx_call *c) {
    return weft_elu(onnx_in(c, 0), onnx_real(c, "alpha", 1));
}

weft_value *onnx_build_selu(onnx_call *c) {
    weft_value *x = onnx_in(c, 0);
    double alpha = onnx_real(c, "alpha", 1.67326319217681884765625),
           gamma = onnx_real(c, "gamma", 1.05070102214813232421875);
    bool is_usual = fabs(alpha - 1.6732632) < 1e-6 && fabs(gamma - 1.0507010) < 1e-6;
    return is_usual ? weft_selu(x) : weft_scale(weft_elu(x, alpha), gamma);
}

/* alpha (exp(x / alpha) - 1) below 0. */
weft_value *onnx_build_celu(onnx_call *c) {
    weft_value *x = onnx_in(c, 0);
    double alpha = onnx_real(c, "alpha", 1);
    if (alpha == 0) return onnx_refuse(c, "alpha is 0");
    return alpha == 1 ? weft_elu(x, 1) : weft_scale(weft_elu(weft_scale(x, 1 / alpha), 1), alpha);
}

weft_value *onnx_build_gelu(onnx_call *c) {
    weft_value *x = onnx_in(c, 0);
    const char *way = onnx_word(c, "approximate", "none");
    if (!strcmp(way, "tanh")) return weft_gelu_tanh(x);
    return strcmp(way, "none") ? onnx_refuse(c, "approximate is '%.40s'", way) : weft_gelu(x);
}

weft_value *onnx_build_hard_sigmoid(onnx_call *c) {
    weft_value *x = onnx_in(c, 0);
    double alpha = onnx_real(c, "alpha", 0.2f), beta = onnx_real(c, "beta", 0.5);
    if (fabs(alpha - 1.0 / 6) < 1e-7 && beta == 0.5) return weft_hardsigmoid(x);
    return weft_clamp(weft_offset(weft_scale(x, alpha), beta), 0, 1);
}

weft_value *onnx_build_leaky_relu(onnx_call *c) {
    return weft_leaky_relu(onnx_in(c, 0), onnx_real(c, "alpha", 0.01f));
}

/* Past the threshold x itself, which log(1 + exp(x)) then is to all digits of the type. */
weft_value *onnx_build_softplus(onnx_call *c) {
    weft_value *x = onnx_in(c, 0);
    return x ? weft_softplus(x, 1, weft_value_dtype(x) == WEFT_F64 ? 40 : 20) : NULL;
}

weft_value *onnx_build_thresholded_relu(onnx_call *c) {
    weft_value *x = onnx_in(c, 0);
    double alpha = onnx_real(c, "alpha", 1);
    weft_value *is_above = weft_greater(x, onnx_constant(c, x, alpha)), *zero = onnx_constant(c, x, 0);
    return weft_where(is_above, x, zero);
}

/* Elements between -lambd and lambd become 0, others come nearer to it by the bias. */
weft_value *onnx_build_shrink(onnx_call *c) {
    weft_value *x = onnx_in(c, 0), *wide = onnx_wide(x);
    double bias = onnx_real(c, "bias", 0), limit = onnx_real(c, "lambd", 0.5);
    if (onnx_is_integer(x) && (bias != floor(bias) || limit != floor(limit)))
        return onnx_refuse(c, "bias %g and lambd %g for integers: whole numbers are taken", bias, limit);
    if (!x) return NULL;
    weft_value *above = weft_greater(wide, onnx_constant(c, wide, limit)),
               *below = weft_less(wide, onnx_constant(c, wide, -limit));
    weft_value *nearer = weft_offset(wide, -bias), *zero = onnx_constant(c, wide, 0),
               *inner = weft_where(above, nearer, zero);
    return onnx_as(weft_where(below, weft_offset(wide, bias), inner), weft_value_dtype(x));
}

static weft_value *swish(weft_value *x, double alpha) {
    return alpha == 1 ? weft_silu(x) : weft_mul(x, weft_sigmoid(weft_scale(x, alpha)));
}

weft_value *onnx_build_swish(onnx_call *c) {
    return swish(onnx_in(c, 0), onnx_real(c, "alpha", 1));
}

/* The second operand times the swish of the first. */
weft_value *onnx_build_swiglu(onnx_call *c) {
    weft_value *gate = swish(onnx_in(c, 0), onnx_real(c, "alpha", 1)), *x = onnx_in(c, 1);
    return weft_mul(gate, x);
}

/* ---- along an axis ---- */

typedef weft_value *along(onnx_call *c, weft_value *x, int axis);

static weft_value *softmax(onnx_call *c, weft_value *x, int axis) {
    (void)c;
    return weft_softmax(x, axis);
}

static weft_value *log_softmax(onnx_call *c, weft_value *x, int axis) {
    (void)c;
    return weft_log_softmax(x, axis);
}

/* 1 at the first of the largest elements, else 0. */
static weft_value *hardmax(onnx_call *c, weft_value *x, int axis) {
    int64_t shape[WEFT_MAX_NDIM];
    for (int i = 0; i < weft_ndim(x); i++) shape[i] = i == axis ? -1 : 1;
    weft_value *places = weft_arange(onnx_graph_of(c), WEFT_I64, 0, (double)weft_dim(x, axis), 1);
    places = weft_reshape(places, weft_ndim(x), shape);
    return onnx_as(weft_equal(weft_argmax(x, axis, true), places), weft_value_dtype(x));
}

static weft_value *along_axis(onnx_call *c, along *function) {
    weft_value *x = onnx_in(c, 0);
    int64_t own[WEFT_MAX_NDIM];
    int axis;
    if (!x || !onnx_axis_of(c, onnx_int(c, "axis", -1), weft_ndim(x), &axis)) return NULL;
    onnx_shape_of(c, 0, own);
    if (function == hardmax && own[axis] < 0) return onnx_refuse(c, "its axis follows the batch");
    return function(c, x, axis);
}

/* Before opset 13 the axes from `axis` on are one. */
static weft_value *along_all(onnx_call *c, along *function) {
    weft_value *x = onnx_in(c, 0);
    int64_t own[WEFT_MAX_NDIM], flat[WEFT_MAX_NDIM] = {0};
    int axis;
    if (!x || !onnx_axis_of(c, onnx_int(c, "axis", 1), weft_ndim(x), &axis)) return NULL;
    onnx_shape_of(c, 0, own);
    int64_t length = 1;
    for (int i = 0; i < weft_ndim(x); i++) {
        if (i < axis)
            flat[i] = own[i];
        else
            length = own[i] < 0 || length < 0 ? ONNX_DEPENDS : length * own[i];
    }
    flat[axis] = length;
    if (function == hardmax && length < 0) return onnx_refuse(c, "its axes follow the batch");
    if (axis == weft_ndim(x) - 1) return function(c, x, axis);
    return onnx_reshape(c, function(c, onnx_reshape(c, x, axis + 1, flat), axis), weft_ndim(x), own);
}

weft_value *onnx_build_softmax(onnx_call *c) {
    return along_axis(c, softmax);
}

weft_value *onnx_build_softmax_flat(onnx_call *c) {
    return along_all(c, softmax);
}

weft_value *onnx_build_log_softmax(onnx_call *c) {
    return along_axis(c, log_softmax);
}

weft_value *onnx_build_log_softmax_flat(onnx_call *c) {
    return along_all(c, log_softmax);
}

weft_value *onnx_build_hardmax(onnx_call *c) {
    return along_axis(c, hardmax);
}

weft_value *onnx_build_hardmax_flat(onnx_call *c) {
    return along_all(c, hardmax);
}
