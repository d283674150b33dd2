/* remainder.c - a - b floor(a / b), with the sign of b; torch.remainder, % in Python. NaN where b is 0. da
 * = dy, db = -dy floor(a / b). */
#include "ops/kit/op_kit.h"

#include <math.h>

static double scalar(const double *x, const void *attrs) {
    (void)attrs;
    double left = fmod(x[0], x[1]);
    return left != 0 && (left < 0) != (x[1] < 0) ? left + x[1] : left;
}

static void gradient(weft_node *n, weft_value *const *dout, const bool *wanted, weft_value **din) {
    weft_value *a = n->in[0], *b = n->in[1];
    if (wanted[0]) din[0] = sum_to(dout[0], a);
    if (!wanted[1]) return;
    weft_value *times = weft_floor(weft_div(a, b));
    din[1] = sum_to(weft_neg(weft_mul(dout[0], times)), b);
}

const weft_op weft_op_remainder = {
    .name = "remainder",
    .summary = "remainder of a / b, with the sign of b",
    .torch = "torch.remainder",
    .min_in = 2,
    .max_in = 2,
    .flags = OP_POINTWISE,
    .precision = PRECISION_FOLLOWS,
    .reduced_in = 3,
    .reduced_out = 1,
    .infer = infer_broadcast,
    .gradient = gradient,
    .scalar = scalar,
    /* Differences take a step for a slope; test_special_values compares the gradient with PyTorch's. */
    .samples = (const op_sample[]){{"f32[2,3], f32[3]", .low = 1.1, .high = 1.9, .no_gradient = true,
                                    .out = "f32[2,3]"},
                                   {"f32[2,1,4], f32[3,1]", .no_gradient = true},
                                   {"f32[4], f32[3]", .error = "do not broadcast"},
                                   {"f32[2], f64[2]", .error = "cast one"},
                                   {0}},
};

weft_value *weft_remainder(weft_value *a, weft_value *b) {
    return op_value(&weft_op_remainder, 2, (weft_value *[]){a, b}, NULL);
}
