/* saturating.c - tanh and sigmoid, whose gradients are ops of y; torch.tanh, torch.sigmoid. */
#include "ops/pointwise/family.h"

#include <math.h>

GRADIENT_BY_OP(tanh, &n->out[0])
GRADIENT_BY_OP(sigmoid, &n->out[0])

/* Its derivative by y is -2 dy y. */
GRADIENT(tanh_backward) {
    if (!backward_again(n, dout, wanted, din)) return;
    weft_value *slope = weft_mul(n->in[0], n->in[1]);
    din[1] = weft_mul(weft_scale(dout[0], -2), slope);
}

/* Its derivative by y is dy (1 - 2 y). */
GRADIENT(sigmoid_backward) {
    if (!backward_again(n, dout, wanted, din)) return;
    weft_value *dy = n->in[0], *y = n->in[1];
    din[1] = weft_mul(dout[0], weft_mul(dy, weft_offset(weft_scale(y, -2), 1)));
}

FUNCTION_OP(tanh, OP_FROM_RESULT, tanh(x[0]), "hyperbolic tangent", "torch.tanh", PRECISION_FOLLOWS,
            unary_samples)
BACKWARD_OP(tanh, x[0] * (1 - x[1] * x[1]), "dy (1 - y^2)")
FUNCTION_OP(sigmoid, OP_FROM_RESULT, 1 / (1 + exp(-x[0])), "1 / (1 + e^-x)", "torch.sigmoid",
            PRECISION_FOLLOWS, unary_samples)
BACKWARD_OP(sigmoid, x[0] * x[1] * (1 - x[1]), "dy y (1 - y)")
