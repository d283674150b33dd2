/* isnan.c - whether x is NaN, as bool; torch.isnan. Integers are not. No gradient. */
#include "ops/kit/op_kit.h"

#include <math.h>

static double scalar(const double *x, const void *attrs) {
    (void)attrs;
    return x[0] != x[0];
}

const weft_op weft_op_isnan = {
    .name = "isnan",
    .summary = "whether x is NaN, bool",
    .torch = "torch.isnan",
    .min_in = 1,
    .max_in = 1,
    .flags = OP_POINTWISE | OP_NO_GRADIENT,
    .precision = PRECISION_FOLLOWS,
    .reduced_in = 1,
    .infer = infer_test,
    .scalar = scalar,
    .samples =
        (const op_sample[]){
            {"f32[2,3]", .out = "bool[2,3]"}, {"f32[2,5,4,3]"}, {"i64[4]", .out = "bool[4]"}, {0}},
};

weft_value *weft_isnan(weft_value *x) {
    return op_value(&weft_op_isnan, 1, &x, NULL);
}
