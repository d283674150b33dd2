/* greater_equal.c - a >= b as bool, with broadcasting; torch.ge. Operands of any one type. No gradient.
 * weft_less and weft_less_equal exchange the operands of this op and of `greater`. */
#include "ops/kit/op_kit.h"

static double scalar(const double *x, const void *attrs) {
    (void)attrs;
    return x[0] >= x[1];
}

const weft_op weft_op_greater_equal = {
    .name = "greater_equal",
    .summary = "a >= b, bool",
    .torch = "torch.greater_equal",
    .min_in = 2,
    .max_in = 2,
    .flags = OP_POINTWISE | OP_NO_GRADIENT,
    .precision = PRECISION_FOLLOWS,
    .reduced_in = 3,
    .infer = infer_compare,
    .scalar = scalar,
    .samples = (const op_sample[]){{"f32[2,3], f32[3]", .out = "bool[2,3]"},
                                   {"i64[2,1], i64[5]", .out = "bool[2,5]"},
                                   {"u8[4], u8[4]"},
                                   {"f32[4], f32[3]", .error = "do not broadcast"},
                                   {"f32[2], i64[2]", .error = "cast one"},
                                   {0}},
};

weft_value *weft_greater_equal(weft_value *a, weft_value *b) {
    return op_value(&weft_op_greater_equal, 2, (weft_value *[]){a, b}, NULL);
}

weft_value *weft_less_equal(weft_value *a, weft_value *b) {
    return weft_greater_equal(b, a);
}

weft_value *weft_less(weft_value *a, weft_value *b) {
    return weft_greater(b, a);
}
