/* mish.c - x tanh(softplus(x)); torch.nn.functional.mish. Misra, arXiv 1908.08681. */
#include "ops/kit/op_kit.h"

#include <math.h>

static double scalar(const double *x, const void *attrs) {
    (void)attrs;
    return x[0] * tanh(fmax(x[0], 0) + log1p(exp(-fabs(x[0]))));
}

static void gradient(weft_node *n, weft_value *const *dout, const bool *wanted, weft_value **din) {
    (void)wanted;
    din[0] = node_value(n->graph, &weft_op_mish_backward, 2, (weft_value *[]){dout[0], n->in[0]}, NULL);
}

const weft_op weft_op_mish = {
    .name = "mish",
    .summary = "x tanh(log(1 + e^x))",
    .torch = "torch.nn.functional.mish",
    .min_in = 1,
    .max_in = 1,
    .flags = OP_POINTWISE,
    .precision = PRECISION_FOLLOWS,
    .reduced_in = 1,
    .reduced_out = 1,
    .infer = infer_same,
    .gradient = gradient,
    .scalar = scalar,
    .samples = (const op_sample[]){{"f32[2,3]", .out = "f32[2,3]"},
                                   {"f32[2,5,4,3]"},
                                   {"i32[3]", .error = "must be floating point"},
                                   {0}},
};

weft_value *weft_mish(weft_value *x) {
    return op_value(&weft_op_mish, 1, &x, NULL);
}
