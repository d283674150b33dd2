/* gelu_backward.c - the gradient of gelu, dy (Phi(x) + x phi(x)), with Phi and phi the standard normal
 * distribution function and density. Linear in dy; its derivative by x is dy phi(x) (2 - x^2). */
#include "ops/kit/op_kit.h"

#include <math.h>

static double scalar(const double *x, const void *attrs) {
    (void)attrs;
    double density = exp(-0.5 * x[1] * x[1]) * (M_2_SQRTPI * M_SQRT1_2 / 2);
    return x[0] * (0.5 * erfc(-x[1] * M_SQRT1_2) + x[1] * density);
}

static void gradient(weft_node *n, weft_value *const *dout, const bool *wanted, weft_value **din) {
    weft_value *dy = n->in[0], *x = n->in[1];
    if (wanted[0]) din[0] = node_value(n->graph, n->op, 2, (weft_value *[]){dout[0], x}, n->attrs);
    if (!wanted[1]) return;
    /* phi(x) = exp(-x^2 / 2) / sqrt(2 pi) */
    weft_value *square = weft_square(x);
    weft_value *density = weft_scale(weft_exp(weft_scale(square, -0.5)), M_2_SQRTPI * M_SQRT1_2 / 2);
    weft_value *slope = weft_mul(density, weft_offset(weft_neg(square), 2));
    din[1] = weft_mul(weft_mul(dout[0], dy), slope);
}

const weft_op weft_op_gelu_backward = {
    .name = "gelu_backward",
    .summary = "dy (Phi(x) + x phi(x))",
    .min_in = 2,
    .max_in = 2,
    .flags = OP_POINTWISE,
    .precision = PRECISION_FOLLOWS,
    .reduced_in = 3,
    .reduced_out = 1,
    .infer = infer_alike,
    .gradient = gradient,
    .scalar = scalar,
    .samples = (const op_sample[]){{"f32[2,3], f32[2,3]", .out = "f32[2,3]"},
                                   {"f32[2,5,4,3], f32[2,5,4,3]"},
                                   {"f32[2,3], f32[3]", .error = "must have one shape"},
                                   {0}},
};
