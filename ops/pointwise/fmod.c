/* fmod.c - what is left of a after b is taken from it a whole number of times, with the sign of a;
 * torch.fmod, fmod in C. NaN where b is 0. da = dy, db = -dy trunc(a / b). */
#include "ops/kit/op_kit.h"

#include <math.h>

static double scalar(const double *x, const void *attrs) {
    (void)attrs;
    return fmod(x[0], x[1]);
}

static void gradient(weft_node *n, weft_value *const *dout, const bool *wanted, weft_value **din) {
    weft_value *a = n->in[0], *b = n->in[1];
    if (wanted[0]) din[0] = sum_to(dout[0], a);
    if (!wanted[1]) return;
    weft_value *times = weft_trunc(weft_div(a, b));
    din[1] = sum_to(weft_neg(weft_mul(dout[0], times)), b);
}

const weft_op weft_op_fmod = {
    .name = "fmod",
    .summary = "remainder of a / b, with the sign of a",
    .torch = "torch.fmod",
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

weft_value *weft_fmod(weft_value *a, weft_value *b) {
    return op_value(&weft_op_fmod, 2, (weft_value *[]){a, b}, NULL);
}
