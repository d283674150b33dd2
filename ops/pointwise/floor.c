/* floor.c - the largest integer that is not above x; torch.floor. The gradient is 0. */
#include "ops/kit/op_kit.h"

#include <math.h>

static double scalar(const double *x, const void *attrs) {
    (void)attrs;
    return floor(x[0]);
}

static void gradient(weft_node *n, weft_value *const *dout, const bool *wanted, weft_value **din) {
    (void)n, (void)wanted;
    din[0] = zeros_like(dout[0]);
}

const weft_op weft_op_floor = {
    .name = "floor",
    .summary = "largest integer not above x",
    .torch = "torch.floor",
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
    .samples = (const op_sample[]){{"f32[2,3]", .low = 0.55, .high = 0.95, .out = "f32[2,3]"},
                                   {"f32[2,5,4,3]", .low = -3, .high = 3, .no_gradient = true},
                                   {"i32[3]", .error = "must be floating point"},
                                   {0}},
};

weft_value *weft_floor(weft_value *x) {
    return op_value(&weft_op_floor, 1, &x, NULL);
}
