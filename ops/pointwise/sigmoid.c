/* sigmoid.c - 1 / (1 + e^-x); torch.sigmoid. dx is sigmoid_backward, from y. */
#include "ops/kit/op_kit.h"

#include <math.h>

static double scalar(const double *x, const void *attrs) {
    (void)attrs;
    return 1 / (1 + exp(-x[0]));
}

static void gradient(weft_node *n, weft_value *const *dout, const bool *wanted, weft_value **din) {
    (void)wanted;
    din[0] = node_value(n->graph, &weft_op_sigmoid_backward, 2, (weft_value *[]){dout[0], &n->out[0]}, NULL);
}

const weft_op weft_op_sigmoid = {
    .name = "sigmoid",
    .summary = "1 / (1 + e^-x)",
    .torch = "torch.sigmoid",
    .min_in = 1,
    .max_in = 1,
    .flags = OP_POINTWISE | OP_FROM_RESULT,
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

weft_value *weft_sigmoid(weft_value *x) {
    return op_value(&weft_op_sigmoid, 1, &x, NULL);
}
