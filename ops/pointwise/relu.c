/* relu.c - max(x, 0), element by element; torch.relu. NaN stays NaN. The gradient at 0 is 0, as in PyTorch.
 * It is computed from y, so x need not be kept. */
#include "ops/kit/op_kit.h"

static double scalar(const double *x, const void *attrs) {
    (void)attrs;
    return x[0] <= 0 ? 0 : x[0];
}

static void gradient(weft_node *n, weft_value *const *dout, const bool *wanted, weft_value **din) {
    (void)wanted;
    din[0] = node_value(n->graph, &weft_op_relu_backward, 2, (weft_value *[]){dout[0], &n->out[0]}, NULL);
}

const weft_op weft_op_relu = {
    .name = "relu",
    .summary = "max(x, 0)",
    .torch = "torch.nn.functional.relu",
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
                                   {"u8[3]", .error = "must be floating point"},
                                   {0}},
};

weft_value *weft_relu(weft_value *x) {
    return op_value(&weft_op_relu, 1, &x, NULL);
}
