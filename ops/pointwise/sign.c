/* sign.c - 1, 0 or -1; torch.sign. 0 for NaN, and the gradient is 0, as in PyTorch. */
#include "ops/kit/op_kit.h"

#include <math.h>

static double scalar(const double *x, const void *attrs) {
    (void)attrs;
    return (x[0] > 0) - (x[0] < 0);
}

static void gradient(weft_node *n, weft_value *const *dout, const bool *wanted, weft_value **din) {
    (void)n, (void)wanted;
    din[0] = zeros_like(dout[0]);
}

const weft_op weft_op_sign = {
    .name = "sign",
    .summary = "1 where x > 0, -1 where x < 0, else 0",
    .torch = "torch.sign",
    .min_in = 1,
    .max_in = 1,
    .flags = OP_POINTWISE,
    .precision = PRECISION_FOLLOWS,
    .reduced_in = 1,
    .reduced_out = 1,
    .infer = infer_same,
    .gradient = gradient,
    .scalar = scalar,
    /* A step within reach of the differences would be taken for a slope. */
    .samples = (const op_sample[]){{"f32[2,3]", .low = 0.5, .high = 2, .out = "f32[2,3]"},
                                   {"f32[2,5,4,3]", .low = -3, .high = 3, .no_gradient = true},
                                   {"i32[3]", .error = "must be floating point"},
                                   {0}},
};

weft_value *weft_sign(weft_value *x) {
    return op_value(&weft_op_sign, 1, &x, NULL);
}
