/* hyperbolic.c - hyperbolic sine and cosine of x, and the inverses of sine, cosine and tangent; as in torch.
 * acosh is at least 0 and NaN below 1; atanh is NaN outside of [-1, 1]. The tangent is in saturating.c. */
#include "ops/pointwise/family.h"

#include <math.h>

GRADIENT(sinh) {
    din[0] = weft_mul(dout[0], weft_cosh(n->in[0]));
}

GRADIENT(cosh) {
    din[0] = weft_mul(dout[0], weft_sinh(n->in[0]));
}

/* dx = dy / sqrt(x^2 + 1) */
GRADIENT(asinh) {
    din[0] = weft_mul(dout[0], weft_rsqrt(weft_offset(weft_square(n->in[0]), 1)));
}

/* dx = dy / sqrt(x^2 - 1) */
GRADIENT(acosh) {
    din[0] = weft_mul(dout[0], weft_rsqrt(weft_offset(weft_square(n->in[0]), -1)));
}

/* dx = dy / (1 - x^2) */
GRADIENT(atanh) {
    din[0] = weft_div(dout[0], weft_offset(weft_neg(weft_square(n->in[0])), 1));
}

static const op_sample above_one[] = {{"f32[2,3]", .low = 1.2, .high = 3, .out = "f32[2,3]"},
                                      {"f32[2,5,4,3]", .low = 1.2, .high = 3},
                                      {"i32[3]", .error = "must be floating point"},
                                      {0}};

#define OP_ROW(NAME, TEXT, PRECISION, SAMPLES)                                                               \
    FUNCTION_OP(NAME, 0, NAME(x[0]), TEXT, "torch." #NAME, PRECISION, SAMPLES)

OP_ROW(sinh, "hyperbolic sine", PRECISION_F32, unary_samples)
OP_ROW(cosh, "hyperbolic cosine", PRECISION_F32, unary_samples)
OP_ROW(asinh, "inverse hyperbolic sine", PRECISION_FOLLOWS, unary_samples)
OP_ROW(acosh, "inverse hyperbolic cosine", PRECISION_FOLLOWS, above_one)
OP_ROW(atanh, "inverse hyperbolic tangent", PRECISION_FOLLOWS, below_one_samples)
