/* special.c - whether x is NaN, or infinite, as bool; torch.isnan, torch.isinf. Integers are neither. No
 * gradient. */
#include "ops/pointwise/family.h"

#include <math.h>

#define OP_ROW(NAME, FORMULA, TEXT)                                                                          \
    UNARY_OP(NAME, OP_NO_GRADIENT, FORMULA, TEXT, .torch = "torch." #NAME, .precision = PRECISION_FOLLOWS,   \
             .infer = infer_test, .samples = special_samples)

static const op_sample special_samples[] = {
    {"f32[2,3]", .out = "bool[2,3]"}, {"f32[2,5,4,3]"}, {"i64[4]", .out = "bool[4]"}, {0}};

OP_ROW(isnan, x[0] != x[0], "whether x is NaN, bool")
OP_ROW(isinf, isinf(x[0]) != 0, "whether x is infinite, bool")
