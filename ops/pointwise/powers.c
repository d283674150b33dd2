/* powers.c - powers of x and of e, and their inverses, element by element; as in torch. */
#include "ops/kit/integer.h"
#include "ops/pointwise/family.h"

#include <math.h>

/* dx = 2 x dy */
GRADIENT(square) {
    din[0] = weft_mul(dout[0], weft_scale(n->in[0], 2));
}

/* NaN below 0. dx = dy / (2 y), infinite at 0. */
GRADIENT(sqrt) {
    din[0] = weft_div(weft_scale(dout[0], 0.5), &n->out[0]);
}

/* dx = -dy y^3 / 2 */
GRADIENT(rsqrt) {
    weft_value *y = &n->out[0], *cube = weft_mul(y, weft_square(y));
    din[0] = weft_mul(weft_scale(dout[0], -0.5), cube);
}

/* dx = -dy y^2 */
GRADIENT(reciprocal) {
    din[0] = weft_neg(weft_mul(dout[0], weft_square(&n->out[0])));
}

/* dx = dy y */
GRADIENT(exp) {
    din[0] = weft_mul(dout[0], &n->out[0]);
}

/* -infinity at 0, NaN below. dx = dy / x. */
GRADIENT(log) {
    din[0] = weft_div(dout[0], n->in[0]);
}

/* 2 / sqrt(pi) times the integral of e^-t^2 from 0 to x. dx = dy 2 / sqrt(pi) e^-x^2. */
GRADIENT(erf) {
    weft_value *density = weft_exp(weft_neg(weft_square(n->in[0])));
    din[0] = weft_mul(dout[0], weft_scale(density, 1.1283791670955126)); /* 2 / sqrt(pi) */
}

/* dx = dy (y + 1) */
GRADIENT(expm1) {
    din[0] = weft_mul(dout[0], weft_offset(&n->out[0], 1));
}

GRADIENT(log1p) {
    din[0] = weft_div(dout[0], weft_offset(n->in[0], 1));
}

/* da = dy b a^(b-1), 0 where b is 0; db = dy y log a, 0 where a is 0 and b is at least 0, as PyTorch's. */
GRADIENT(pow) {
    weft_value *a = n->in[0], *b = n->in[1], *y = &n->out[0];
    weft_value *zero = weft_constant(n->graph, a->type.dtype, 0, NULL, 0);
    if (wanted[0]) {
        weft_value *slope = weft_mul(b, weft_pow(a, weft_offset(b, -1)));
        din[0] = sum_to(weft_mul(dout[0], weft_where(weft_equal(b, zero), zero, slope)), a);
    }
    if (wanted[1]) {
        weft_value *slope = weft_mul(y, weft_log(a));
        /* where a is 0: 0 for b >= 0, else the slope (infinite), also for NaN */
        weft_value *of_power = weft_where(weft_greater(b, zero), zero, slope);
        weft_value *of_zero = weft_where(weft_equal(b, zero), zero, of_power);
        din[1] = sum_to(weft_mul(dout[0], weft_where(weft_equal(a, zero), of_zero, slope)), b);
    }
}

static const op_sample reciprocal_samples[] = {{"f32[2,3]", .out = "f32[2,3]", .low = 0.3, .high = 3},
                                               {"f32[2,5,4,3]", .low = 0.3, .high = 3},
                                               {"f32[7]", .low = -3, .high = -0.3},
                                               {"i32[3]", .error = "must be floating point"},
                                               {0}};

INTEGER(square, int_mul(x[0], x[0]))

FUNCTION_OP(square, 0, x[0] * x[0], "x^2", "torch.square", PRECISION_F32, whole_samples,
            .integer = square_integer)
FUNCTION_OP(sqrt, OP_FROM_RESULT, sqrt(x[0]), "square root", "torch.sqrt", PRECISION_FOLLOWS,
            positive_samples)
FUNCTION_OP(rsqrt, OP_FROM_RESULT, 1 / sqrt(x[0]), "1 / sqrt(x)", "torch.rsqrt", PRECISION_F32,
            positive_samples)
FUNCTION_OP(reciprocal, OP_FROM_RESULT, 1 / x[0], "1 / x", "torch.reciprocal", PRECISION_F32,
            reciprocal_samples)
FUNCTION_OP(exp, OP_FROM_RESULT, exp(x[0]), "e^x", "torch.exp", PRECISION_F32, unary_samples)
FUNCTION_OP(log, 0, log(x[0]), "natural logarithm", "torch.log", PRECISION_F32, positive_samples)
FUNCTION_OP(expm1, OP_FROM_RESULT, expm1(x[0]), "e^x - 1, exact near 0", "torch.expm1", PRECISION_F32,
            unary_samples)
FUNCTION_OP(log1p, 0, log1p(x[0]), "log(1 + x), exact near 0", "torch.log1p", PRECISION_F32,
            below_one_samples)
FUNCTION_OP(erf, 0, erf(x[0]), "the error function", "torch.erf", PRECISION_FOLLOWS, unary_samples)
BROADCAST_OP(pow, OP_FROM_RESULT, pow(x[0], x[1]), "a^b", PRECISION_F32, quotient_samples)
