/* logical.c - elements as truth, as bool, with broadcasting: an element that is not 0, NaN included, is true;
 * torch.logical_and, logical_or, logical_xor and logical_not. Operands of any one type. No gradient. */
#include "ops/pointwise/family.h"

static const op_sample of_one[] = {
    {"bool[2,3]", .out = "bool[2,3]"}, {"f32[2,5,4,3]"}, {"i64[4]", .out = "bool[4]"}, {0}};
static const op_sample of_two[] = {
    {"bool[2,3], bool[3]", .out = "bool[2,3]"}, {"f32[2,5,4,3], f32[3]"},
    {"i64[2,1], i64[5]", .out = "bool[2,5]"},   {"bool[4], bool[3]", .error = "do not broadcast"},
    {"bool[2], i64[2]", .error = "cast one"},   {0}};

#define OP_ROW(NAME, IS_TRUE, TEXT)                                                                       \
    BINARY_OP(NAME, OP_NO_GRADIENT | OP_COMMUTES, IS_TRUE, TEXT, .torch = "torch." #NAME,                    \
              .precision = PRECISION_FOLLOWS, .infer = infer_compare, .samples = of_two)

OP_ROW(logical_and, x[0] != 0 && x[1] != 0, "both a and b are not 0, bool")
OP_ROW(logical_or, x[0] != 0 || x[1] != 0, "a or b is not 0, bool")
OP_ROW(logical_xor, (x[0] != 0) != (x[1] != 0), "just one of a and b is not 0, bool")
UNARY_OP(logical_not, OP_NO_GRADIENT, x[0] == 0, "x is 0, bool", .torch = "torch.logical_not",
         .precision = PRECISION_FOLLOWS, .infer = infer_test, .samples = of_one)
