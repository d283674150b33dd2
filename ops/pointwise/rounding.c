/* rounding.c - x to an integer: floor, ceil, round (halves to the even one) and trunc, as in torch. The
 * gradient is 0. */
#include "ops/pointwise/family.h"

#include <math.h>

static void no_slope(weft_node *n, weft_value *const *dout, const bool *wanted, weft_value **din) {
    din[0] = zeros_like(dout[0]);
}

#define OP_ROW(NAME, FUNCTION, TEXT)                                                                         \
    UNARY_OP(NAME, 0, FUNCTION(x[0]), TEXT, .torch = "torch." #NAME, .precision = PRECISION_FOLLOWS,         \
             .infer = infer_same, .gradient = no_slope, .samples = rounding_samples)

/* A step within reach of the differences would be taken for a slope. */
static const op_sample rounding_samples[] = {{"f32[2,3]", .low = 0.55, .high = 0.95, .out = "f32[2,3]"},
                                             {"f32[2,5,4,3]", .low = -3, .high = 3, .no_gradient = true},
                                             {"i32[3]", .error = "must be floating point"},
                                             {0}};

OP_ROW(floor, floor, "largest integer not above x")
OP_ROW(ceil, ceil, "smallest integer not below x")
OP_ROW(round, rint, "nearest integer, halves to the even one")
OP_ROW(trunc, trunc, "x without its fraction")
