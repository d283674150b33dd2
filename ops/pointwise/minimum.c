/* minimum.c - the smaller of a and b, with broadcasting; torch.minimum. NaN if either is NaN. The smaller
 * operand gets the gradient; equal ones get half each, as in PyTorch. */
#include "ops/kit/op_kit.h"

static double scalar(const double *x, const void *attrs) {
    (void)attrs;
    return x[0] < x[1] || x[0] != x[0] ? x[0] : x[1];
}

static void gradient(weft_node *n, weft_value *const *dout, const bool *wanted, weft_value **din) {
    extremum_gradient(n, dout[0], wanted, din, false);
}

const weft_op weft_op_minimum = {
    .name = "minimum",
    .summary = "the smaller of a and b",
    .torch = "torch.minimum",
    .min_in = 2,
    .max_in = 2,
    .flags = OP_POINTWISE | OP_COMMUTES,
    .precision = PRECISION_FOLLOWS,
    .reduced_in = 3,
    .reduced_out = 1,
    .infer = infer_broadcast,
    .gradient = gradient,
    .scalar = scalar,
    .samples = (const op_sample[]){{"f32[2,3], f32[3]", .out = "f32[2,3]"},
                                   {"f32[2,1,4], f32[3,1]", .out = "f32[2,3,4]"},
                                   {"f32[4], f32[3]", .error = "do not broadcast"},
                                   {"f32[2], f64[2]", .error = "cast one"},
                                   {0}},
};

weft_value *weft_minimum(weft_value *a, weft_value *b) {
    return op_value(&weft_op_minimum, 2, (weft_value *[]){a, b}, NULL);
}
