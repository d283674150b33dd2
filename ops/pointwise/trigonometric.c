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

/* da = dy b / (a^2 + b^2), db = -dy a / (a^2 + b^2); 0 where both are 0, as PyTorch's */
GRADIENT(atan2) {
    weft_value *a = n->in[0], *b = n->in[1], *zero = weft_constant(n->graph, a->type.dtype, 0, NULL, 0);
    weft_value *a2 = weft_square(a), *b2 = weft_square(b), *length = weft_add(a2, b2);
    weft_value *is_zero = weft_equal(length, zero), *quotient = weft_div(dout[0], length);
    weft_value *part = weft_where(is_zero, zero, quotient);
    if (wanted[0]) din[0] = sum_to(weft_mul(part, b), a);
    if (wanted[1]) din[1] = sum_to(weft_neg(weft_mul(part, a)), b);
}

#define OP_ROW(NAME, FLAGS, TEXT, PRECISION, SAMPLES)                                                        \
    FUNCTION_OP(NAME, FLAGS, NAME(x[0]), TEXT, "torch." #NAME, PRECISION, SAMPLES)

OP_ROW(sin, 0, "sine", PRECISION_FOLLOWS, unary_samples)
OP_ROW(cos, 0, "cosine", PRECISION_FOLLOWS, unary_samples)
OP_ROW(tan, OP_FROM_RESULT, "tangent", PRECISION_F32, unary_samples)
OP_ROW(asin, 0, "inverse sine", PRECISION_F32, below_one_samples)
OP_ROW(acos, 0, "inverse cosine", PRECISION_F32, below_one_samples)
OP_ROW(atan, 0, "inverse tangent", PRECISION_FOLLOWS, unary_samples)
BROADCAST_OP(atan2, 0, atan2(x[0], x[1]), "the angle of the point (b, a), in [-pi, pi]", PRECISION_FOLLOWS,
             quotient_samples)
