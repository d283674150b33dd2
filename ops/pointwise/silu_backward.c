/* silu_backward.c - the gradient of silu, dy s (1 + x (1 - s)) with s = sigmoid(x). Linear in dy; its
 * derivative by x is dy s (1 - s) (2 + x (1 - 2 s)). */
#include "ops/kit/op_kit.h"

#include <math.h>

static double scalar(const double *x, const void *attrs) {
    (void)attrs;
    double s = 1 / (1 + exp(-x[1]));
    return x[0] * s * (1 + x[1] * (1 - s));
}

static void gradient(weft_node *n, weft_value *const *dout, const bool *wanted, weft_value **din) {
    weft_value *dy = n->in[0], *x = n->in[1];
    if (wanted[0]) din[0] = node_value(n->graph, n->op, 2, (weft_value *[]){dout[0], x}, n->attrs);
    if (!wanted[1]) return;
    weft_value *s = weft_sigmoid(x), *rest = weft_offset(weft_neg(s), 1);
    weft_value *bend = weft_mul(x, weft_offset(weft_scale(s, -2), 1));
    weft_value *outer = weft_mul(s, rest);
    weft_value *slope = weft_mul(outer, weft_offset(bend, 2));
    din[1] = weft_mul(weft_mul(dout[0], dy), slope);
}

const weft_op weft_op_silu_backward = {
    .name = "silu_backward",
    .summary = "dy s (1 + x (1 - s)), s = sigmoid(x)",
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
