/* extremes.c - the larger and the smaller of a and b, with broadcasting; torch.maximum and minimum. NaN if
 * either is NaN. The chosen operand gets the gradient; equal ones get half each, as in PyTorch. */
#include "ops/pointwise/family.h"

#define OP_ROW(NAME, SIGN, TEXT)                                                                             \
    static void NAME##_gradient(weft_node *n, weft_value *const *dout, const bool *wanted,                   \
                                weft_value **din) {                                                          \
        extremum_gradient(n, dout[0], wanted, din, 1 SIGN 0);                                                \
    }                                                                                                        \
    POINTWISE_OP(NAME, 2, x[0] SIGN x[1] || x[0] != x[0] ? x[0] : x[1], TEXT, .torch = "torch." #NAME,       \
                 .flags = OP_POINTWISE | OP_COMMUTES, .precision = PRECISION_FOLLOWS, .reduced_in = 3,       \
                 .reduced_out = 1, .infer = infer_broadcast, .gradient = NAME##_gradient,                    \
                 .samples = extreme_samples)

static const op_sample extreme_samples[] = {{"f32[2,3], f32[3]", .out = "f32[2,3]"},
                                            {"f32[2,1,4], f32[3,1]", .out = "f32[2,3,4]"},
                                            {"f32[4], f32[3]", .error = "do not broadcast"},
                                            {"f32[2], f64[2]", .error = "cast one"},
                                            {0}};

OP_ROW(maximum, >, "the larger of a and b")
OP_ROW(minimum, <, "the smaller of a and b")
