/* elu_backward.c - the gradient of elu: dy where x > 0, else alpha e^x dy; NaN where x is NaN. Linear in
 * dy; its derivative by x is alpha e^x dy where x <= 0. */
#include "ops/kit/basic_attrs.h"
#include "ops/kit/op_kit.h"

#include <math.h>

static const op_attr attrs[] = {
    {"alpha", ATTR_REAL, offsetof(number_attrs, value), 0, 0},
    {0},
};

static double scalar(const double *x, const void *attrs) {
    double alpha = ((const number_attrs *)attrs)->value;
    return x[1] > 0 ? x[0] : alpha * exp(x[1]) * x[0];
}

static void gradient(weft_node *n, weft_value *const *dout, const bool *wanted, weft_value **din) {
    weft_value *dy = n->in[0], *x = n->in[1];
    if (wanted[0]) din[0] = node_value(n->graph, n->op, 2, (weft_value *[]){dout[0], x}, n->attrs);
    if (!wanted[1]) return;
    weft_value *zero = weft_constant(n->graph, x->type.dtype, 0, NULL, 0);
    weft_value *bend = weft_scale(weft_exp(x), ((const number_attrs *)n->attrs)->value);
    weft_value *below = weft_mul(weft_mul(dout[0], dy), bend);
    din[1] = weft_where(weft_greater(x, zero), zero, below);
}

const weft_op weft_op_elu_backward = {
    .name = "elu_backward",
    .summary = "dy if x > 0, else alpha e^x dy",
    .min_in = 2,
    .max_in = 2,
    .flags = OP_POINTWISE,
    .attrs_bytes = sizeof(number_attrs),
    .attrs = attrs,
    .precision = PRECISION_FOLLOWS,
    .reduced_in = 3,
    .reduced_out = 1,
    .infer = infer_alike,
    .gradient = gradient,
    .scalar = scalar,
    .samples = (const op_sample[]){{"f32[2,3], f32[2,3]", "alpha=1", .out = "f32[2,3]"},
                                   {"f32[2,5,4,3], f32[2,5,4,3]", "alpha=-1.5"},
                                   {"f32[2,3], f32[3]", .error = "must have one shape"},
                                   {0}},
};
