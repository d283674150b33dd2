/* tanh_backward.c - the gradient of tanh, dy (1 - y^2), with y the result of tanh. Linear in dy; its
 * derivative by y is -2 dy y. */
#include "ops/kit/op_kit.h"

static double scalar(const double *x, const void *attrs) {
    (void)attrs;
    return x[0] * (1 - x[1] * x[1]);
}

static void gradient(weft_node *n, weft_value *const *dout, const bool *wanted, weft_value **din) {
    weft_value *dy = n->in[0], *y = n->in[1];
    if (wanted[0]) din[0] = node_value(n->graph, n->op, 2, (weft_value *[]){dout[0], y}, n->attrs);
    if (!wanted[1]) return;
    weft_value *slope = weft_mul(dy, y);
    din[1] = weft_mul(weft_scale(dout[0], -2), slope);
}

const weft_op weft_op_tanh_backward = {
    .name = "tanh_backward",
    .summary = "dy (1 - y^2)",
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
