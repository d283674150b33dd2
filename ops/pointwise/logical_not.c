/* logical_not.c - whether x is 0, as bool; torch.logical_not. NaN is not 0. No gradient. */
#include "ops/kit/op_kit.h"

static double scalar(const double *x, const void *attrs) {
    (void)attrs;
    return x[0] == 0;
}

const weft_op weft_op_logical_not = {
    .name = "logical_not",
    .summary = "x is 0, bool",
    .torch = "torch.logical_not",
    .min_in = 1,
    .max_in = 1,
    .flags = OP_POINTWISE | OP_NO_GRADIENT,
    .precision = PRECISION_FOLLOWS,
    .reduced_in = 1,
    .infer = infer_test,
    .scalar = scalar,
    .samples =
        (const op_sample[]){
            {"bool[2,3]", .out = "bool[2,3]"}, {"f32[2,5,4,3]"}, {"i64[4]", .out = "bool[4]"}, {0}},
};

weft_value *weft_logical_not(weft_value *x) {
    return op_value(&weft_op_logical_not, 1, &x, NULL);
}
