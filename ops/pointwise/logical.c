/* logical.c - elements as truth, as bool, with broadcasting: an element that is not 0, NaN included, is true;
 * torch.logical_and, logical_or, logical_xor and logical_not. Operands of any one type. No gradient. */
#include "ops/pointwise/family.h"

#define OP_ROW(NAME, N, IS_TRUE, TEXT)                                                                       \
    POINTWISE_OP(NAME, N, IS_TRUE, TEXT, .torch = "torch." #NAME,                                            \
                 .flags = OP_POINTWISE | OP_NO_GRADIENT | (N == 2 ? OP_COMMUTES : 0),                        \
                 .precision = PRECISION_FOLLOWS, .reduced_in = (1 << N) - 1,                                 \
                 .infer = N == 2 ? infer_compare : infer_test, .samples = N == 2 ? of_two : of_one)

static const op_sample of_one[] = {
    {"bool[2,3]", .out = "bool[2,3]"}, {"f32[2,5,4,3]"}, {"i64[4]", .out = "bool[4]"}, {0}};
static const op_sample of_two[] = {
    {"bool[2,3], bool[3]", .out = "bool[2,3]"}, {"f32[2,5,4,3], f32[3]"},
    {"i64[2,1], i64[5]", .out = "bool[2,5]"},   {"bool[4], bool[3]", .error = "do not broadcast"},
    {"bool[2], i64[2]", .error = "cast one"},   {0}};

OP_ROW(logical_and, 2, x[0] != 0 && x[1] != 0, "both a and b are not 0, bool")
OP_ROW(logical_or, 2, x[0] != 0 || x[1] != 0, "a or b is not 0, bool")
OP_ROW(logical_xor, 2, (x[0] != 0) != (x[1] != 0), "just one of a and b is not 0, bool")
OP_ROW(logical_not, 1, x[0] == 0, "x is 0, bool")
