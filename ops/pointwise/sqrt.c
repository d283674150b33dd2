/* sqrt.c - the square root of x; torch.sqrt. NaN below 0. dx = dy / (2 y), infinite at 0. */
#include "ops/kit/op_kit.h"

#include <math.h>

static double scalar(const double *x, const void *attrs) {
    (void)attrs;
    return sqrt(x[0]);
}

static void gradient(weft_node *n, weft_value *const *dout, const bool *wanted, weft_value **din) {
    (void)wanted;
    din[0] = weft_div(weft_scale(dout[0], 0.5), &n->out[0]);
}

const weft_op weft_op_sqrt = {
    .name = "sqrt",
    .summary = "square root",
    .torch = "torch.sqrt",
    .min_in = 1,
    .max_in = 1,
    .flags = OP_POINTWISE | OP_FROM_RESULT,
    .precision = PRECISION_FOLLOWS,
    .reduced_in = 1,
    .reduced_out = 1,
    .infer = infer_same,
    .gradient = gradient,
    .scalar = scalar,
    .samples = (const op_sample[]){{"f32[2,3]", .out = "f32[2,3]", .low = 0.3, .high = 3},
                                   {"f32[2,5,4,3]", .low = 0.3, .high = 3},
                                   {"i32[3]", .error = "must be floating point"},
                                   {0}},
};

weft_value *weft_sqrt(weft_value *x) {
    return op_value(&weft_op_sqrt, 1, &x, NULL);
}
