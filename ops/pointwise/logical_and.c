/* logical_and.c - whether both a and b are not 0, as bool, with broadcasting; torch.logical_and. Operands
 * of any one type; NaN is not 0. No gradient. */
#include "ops/kit/op_kit.h"

static double scalar(const double *x, const void *attrs) {
    (void)attrs;
    return x[0] != 0 && x[1] != 0;
}

const weft_op weft_op_logical_and = {
    .name = "logical_and",
    .summary = "both a and b are not 0, bool",
    .torch = "torch.logical_and",
    .min_in = 2,
    .max_in = 2,
    .flags = OP_POINTWISE | OP_COMMUTES | OP_NO_GRADIENT,
    .precision = PRECISION_FOLLOWS,
    .reduced_in = 3,
    .infer = infer_compare,
    .scalar = scalar,
    .samples = (const op_sample[]){{"bool[2,3], bool[3]", .out = "bool[2,3]"},
                                   {"f32[2,5,4,3], f32[3]"},
                                   {"i64[2,1], i64[5]", .out = "bool[2,5]"},
                                   {"bool[4], bool[3]", .error = "do not broadcast"},
                                   {"bool[2], i64[2]", .error = "cast one"},
                                   {0}},
};

weft_value *weft_logical_and(weft_value *a, weft_value *b) {
    return op_value(&weft_op_logical_and, 2, (weft_value *[]){a, b}, NULL);
}
