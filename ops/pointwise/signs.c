/* signs.c - |x|, -x and the sign of x, element by element; as in torch. The
 * least integer has no positive twin: it stays. */
#include "ops/kit/integer.h"
#include "ops/pointwise/family.h"

#include <math.h>

/* dy where x > 0, -dy where x < 0, else 0: at 0 the gradient is 0, as in PyTorch. */
GRADIENT(abs) {
    weft_value *x = n->in[0], *zero = weft_constant(n->graph, x->type.dtype, 0, NULL, 0);
    weft_value *turned = weft_neg(dout[0]);
    weft_value *negative = weft_where(weft_greater(zero, x), turned, zero);
    din[0] = weft_where(weft_greater(x, zero), dout[0], negative);
}

GRADIENT(neg) {
    din[0] = weft_neg(dout[0]);
}

/* 0 for NaN, and the gradient is 0, as in PyTorch. */
GRADIENT(sign) {
    din[0] = zeros_like(dout[0]);
}

/* A step within reach of the differences would be taken for a slope. */
static const op_sample sign_samples[] = {{"f32[2,3]", .low = 0.5, .high = 2, .out = "f32[2,3]"},
                                         {"f32[2,5,4,3]", .low = -3, .high = 3, .no_gradient = true},
                                         {"i64[2,3]", .least = -2, .below = 3, .out = "i64[2,3]"},
                                         {"u8[3]", .error = "must be floating point, i32 or i64"},
                                         {0}};

INTEGER(abs, int_abs(x[0]))
INTEGER(neg, int_sub(0, x[0]))
INTEGER(sign, (x[0] > 0) - (x[0] < 0))

FUNCTION_OP(abs, 0, fabs(x[0]), "|x|", "torch.abs", PRECISION_FOLLOWS, whole_samples, .integer = abs_integer)
FUNCTION_OP(neg, 0, -x[0], "-x", "torch.neg", PRECISION_FOLLOWS, whole_samples, .integer = neg_integer)
FUNCTION_OP(sign, 0, (x[0] > 0) - (x[0] < 0), "1 where x > 0, -1 where x < 0, else 0", "torch.sign",
            PRECISION_FOLLOWS, sign_samples, .integer = sign_integer)
