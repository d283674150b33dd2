/* relu.c - max(x, 0), element by element; torch.relu. NaN stays NaN. The gradient at 0 is 0, as in PyTorch.
 * It is computed from y, so x need not be kept: relu_backward is 0 where y <= 0, else dy (also where y is
 * NaN); its gradient by y is 0. */
#include "ops/pointwise/family.h"

GRADIENT_BY_OP(relu, &n->out[0])

GRADIENT(relu_backward) {
    backward_again(n, dout, wanted, din);
}

FUNCTION_OP(relu, 0, x[0] <= 0 ? 0 : x[0], "max(x, 0)", "torch.nn.functional.relu", PRECISION_FOLLOWS,
            unary_samples)
BACKWARD_OP(relu, x[1] <= 0 ? 0 : x[0], "0 where y <= 0, else dy")
