/* compare.c - a and b compared, as bool, with broadcasting; torch.eq, ne, gt and ge. Operands of any one
 * type. With NaN only not_equal is true.
 * No gradient. weft_less and weft_less_equal exchange the operands of greater and greater_equal. */
#include "ops/pointwise/family.h"

#define OP_ROW(NAME, FLAGS, SIGN, TEXT, TORCH)                                                               \
    INTEGER(NAME, x[0] SIGN x[1])                                                                            \
    BINARY_OP(NAME, OP_NO_GRADIENT | FLAGS, x[0] SIGN x[1], TEXT, .torch = TORCH,                            \
              .precision = PRECISION_FOLLOWS, .infer = infer_compare, .samples = compare_samples,            \
              .integer = NAME##_integer)

static const op_sample compare_samples[] = {{"f32[2,3], f32[3]", .out = "bool[2,3]"},
                                            {"i64[2,1], i64[5]", .out = "bool[2,5]"},
                                            {"i32[2,5,4,3], i32[3]", .least = -2, .below = 2},
                                            {"u8[4], u8[4]"},
                                            {"f32[4], f32[3]", .error = "do not broadcast"},
                                            {"f32[2], i64[2]", .error = "cast one"},
                                            {0}};

OP_ROW(equal, OP_COMMUTES, ==, "a = b, bool", "torch.eq")
OP_ROW(not_equal, OP_COMMUTES, !=, "a != b, bool", "torch.not_equal")
OP_ROW(greater, 0, >, "a > b, bool", "torch.greater")
OP_ROW(greater_equal, 0, >=, "a >= b, bool", "torch.greater_equal")

weft_value *weft_less(weft_value *a, weft_value *b) {
    return weft_greater(b, a);
}

weft_value *weft_less_equal(weft_value *a, weft_value *b) {
    return weft_greater_equal(b, a);
}
