/* trigonometric.c - sine, cosine and tangent of x in radians, and their inverses; as in torch. asin is in
 * [-pi/2, pi/2], acos in [0, pi], both NaN outside of [-1, 1]; atan is in (-pi/2, pi/2). */
#include "ops/pointwise/family.h"

#include <math.h>

GRADIENT(sin) {
    din[0] = weft_mul(dout[0], weft_cos(n->in[0]));
}

GRADIENT(cos) {
    din[0] = weft_neg(weft_mul(dout[0], weft_sin(n->in[0])));
}

/* dx = dy (1 + y^2) */
GRADIENT(tan) {
    din[0] = weft_mul(dout[0], weft_offset(weft_square(&n->out[0]), 1));
}

/* dx = dy / sqrt(1 - x^2) */
GRADIENT(asin) {
    weft_value *rest = weft_offset(weft_neg(weft_square(n->in[0])), 1);
    din[0] = weft_mul(dout[0], weft_rsqrt(rest));
}

GRADIENT(acos) {
    asin_gradient(n, dout, wanted, din);
    din[0] = weft_neg(din[0]);
}

/* dx = dy / (1 + x^2) */
GRADIENT(atan) {
    din[0] = weft_div(dout[0], weft_offset(weft_square(n->in[0]), 1));
}

static const op_sample below_one[] = {{"f32[2,3]", .low = -0.9, .high = 0.9, .out = "f32[2,3]"},
                                      {"f32[2,5,4,3]", .low = -0.9, .high = 0.9},
                                      {"i32[3]", .error = "must be floating point"},
                                      {0}};

#define OP_ROW(NAME, FLAGS, TEXT, PRECISION, SAMPLES)                                                        \
    FUNCTION_OP(NAME, FLAGS, NAME(x[0]), TEXT, "torch." #NAME, PRECISION, SAMPLES)

OP_ROW(sin, 0, "sine", PRECISION_FOLLOWS, unary_samples)
OP_ROW(cos, 0, "cosine", PRECISION_FOLLOWS, unary_samples)
OP_ROW(tan, OP_FROM_RESULT, "tangent", PRECISION_F32, unary_samples)
OP_ROW(asin, 0, "inverse sine", PRECISION_F32, below_one)
OP_ROW(acos, 0, "inverse cosine", PRECISION_F32, below_one)
OP_ROW(atan, 0, "inverse tangent", PRECISION_FOLLOWS, unary_samples)
