/* trigonometric.c - sine, cosine and tangent of x in radians, and their inverses; as in torch. asin is in
 * [-pi/2, pi/2], acos in [0, pi], both NaN outside of [-1, 1]; atan is in (-pi/2, pi/2). */
#include "ops/pointwise/family.h"

#include <math.h>

#define GRADIENT(NAME)                                                                                       \
    static void NAME##_gradient(weft_node *n, weft_value *const *dout, const bool *wanted, weft_value **din)

GRADIENT(sin) {
    (void)wanted;
    din[0] = weft_mul(dout[0], weft_cos(n->in[0]));
}

GRADIENT(cos) {
    (void)wanted;
    din[0] = weft_neg(weft_mul(dout[0], weft_sin(n->in[0])));
}

/* dx = dy (1 + y^2) */
GRADIENT(tan) {
    (void)wanted;
    din[0] = weft_mul(dout[0], weft_offset(weft_square(&n->out[0]), 1));
}

/* dx = dy / sqrt(1 - x^2) */
GRADIENT(asin) {
    (void)wanted;
    weft_value *rest = weft_offset(weft_neg(weft_square(n->in[0])), 1);
    din[0] = weft_mul(dout[0], weft_rsqrt(rest));
}

GRADIENT(acos) {
    asin_gradient(n, dout, wanted, din);
    din[0] = weft_neg(din[0]);
}

/* dx = dy / (1 + x^2) */
GRADIENT(atan) {
    (void)wanted;
    din[0] = weft_div(dout[0], weft_offset(weft_square(n->in[0]), 1));
}

#define OP_ROW(NAME, TEXT, FLAGS, PRECISION, REDUCED, SAMPLES)                                               \
    POINTWISE_OP(NAME, 1, NAME(x[0]), TEXT, .torch = "torch." #NAME, .flags = OP_POINTWISE | FLAGS,          \
                 .precision = PRECISION, .reduced_in = REDUCED, .reduced_out = REDUCED, .infer = infer_same, \
                 .gradient = NAME##_gradient, .samples = SAMPLES)

static const op_sample of_any[] = {
    {"f32[2,3]", .out = "f32[2,3]"}, {"f32[2,5,4,3]"}, {"i32[3]", .error = "must be floating point"}, {0}};
static const op_sample below_one[] = {{"f32[2,3]", .low = -0.9, .high = 0.9, .out = "f32[2,3]"},
                                      {"f32[2,5,4,3]", .low = -0.9, .high = 0.9},
                                      {"i32[3]", .error = "must be floating point"},
                                      {0}};

/* Those in f32 are so under torch.amp.autocast, too. */
OP_ROW(sin, "sine", 0, PRECISION_FOLLOWS, 1, of_any)
OP_ROW(cos, "cosine", 0, PRECISION_FOLLOWS, 1, of_any)
OP_ROW(tan, "tangent", OP_FROM_RESULT, PRECISION_F32, 0, of_any)
OP_ROW(asin, "inverse sine", 0, PRECISION_F32, 0, below_one)
OP_ROW(acos, "inverse cosine", 0, PRECISION_F32, 0, below_one)
OP_ROW(atan, "inverse tangent", 0, PRECISION_FOLLOWS, 1, of_any)
