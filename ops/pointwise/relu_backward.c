/* relu_backward.c - the gradient of relu: 0 where y <= 0, else dy (also where y is NaN), with y the result of
 * relu. Linear in dy, so its gradient by dy is the same op; that by y is 0. */
#include "ops/kit/op_kit.h"

static double scalar(const double *x, const void *attrs) {
    (void)attrs;
    return x[1] <= 0 ? 0 : x[0];
}

static void gradient(weft_node *n, weft_value *const *dout, const bool *wanted, weft_value **din) {
    if (wanted[0]) din[0] = node_value(n->graph, n->op, 2, (weft_value *[]){dout[0], n->in[1]}, NULL);
}

const weft_op weft_op_relu_backward = {
    .name = "relu_backward",
    .summary = "0 where y <= 0, else dy",
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
                                   {"f32[2,3], f32[3]", .error = "must have one shape"},
                                   {0}},
};
