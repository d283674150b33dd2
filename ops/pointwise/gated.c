/* gated.c - activations that are x times a gate of x, and their gradients by x as ops of dy and x:
 *     gelu       x Phi(x), with Phi the standard normal distribution function (Hendrycks and Gimpel, arXiv
 *                1606.08415); Phi(x) = erfc(-x / sqrt 2) / 2, which loses no digits for large negative x
 *     gelu_tanh  x (1 + tanh(u)) / 2 with u = sqrt(2/pi) (x + 0.044715 x^3) (section 2 there)
 *     silu       x sigmoid(x), also called swish (same paper)
 *     mish       x tanh(softplus(x)) (Misra, arXiv 1908.08681)
 *     hardswish  x max(0, min(6, x + 3)) / 6 (Howard et al., arXiv 1905.02244) */
#include "ops/pointwise/family.h"

#include <math.h>

#define K 0.79788456080286535588 /* sqrt(2/pi) */
#define C 0.044715

GRADIENT_BY_OP(gelu, n->in[0])
GRADIENT_BY_OP(gelu_tanh, n->in[0])
GRADIENT_BY_OP(silu, n->in[0])
GRADIENT_BY_OP(mish, n->in[0])
GRADIENT_BY_OP(hardswish, n->in[0])

/* ---- first derivatives ---- */

/* dy (Phi(x) + x phi(x)), with phi the density. */
static double gelu_back(double dy, double x) {
    double density = exp(-0.5 * x * x) * (M_2_SQRTPI * M_SQRT1_2 / 2);
    return dy * (0.5 * erfc(-x * M_SQRT1_2) + x * density);
}

/* dy ((1 + t) / 2 + x (1 - t^2) u' / 2) with t = tanh(u), u' = k (1 + 3 c x^2). */
static double gelu_tanh_back(double dy, double x) {
    double u = K * (x + C * x * x * x), du = K * (1 + 3 * C * x * x), t = tanh(u);
    return dy * (0.5 * (1 + t) + 0.5 * x * (1 - t * t) * du);
}

/* dy s (1 + x (1 - s)) with s = sigmoid(x). */
static double silu_back(double dy, double x) {
    double s = 1 / (1 + exp(-x));
    return dy * s * (1 + x * (1 - s));
}

static double mish_gate(double x) {
    return tanh(fmax(x, 0) + log1p(exp(-fabs(x))));
}

/* dy (w + x s (1 - w^2)) with w = tanh(softplus(x)) and s = sigmoid(x), the derivative of softplus. */
static double mish_back(double dy, double x) {
    double w = mish_gate(x), s = 1 / (1 + exp(-x));
    return dy * (w + x * s * (1 - w * w));
}

/* ---- second derivatives: of dy NAME'(x) by x ---- */

/* din[1], for slope = NAME''(x). */
static weft_value *bent(weft_node *n, weft_value *dout, weft_value *slope) {
    return weft_mul(weft_mul(dout, n->in[0]), slope);
}

/* phi(x) (2 - x^2), phi(x) = exp(-x^2 / 2) / sqrt(2 pi) */
GRADIENT(gelu_backward) {
    if (!backward_again(n, dout, wanted, din)) return;
    weft_value *square = weft_square(n->in[1]);
    weft_value *density = weft_scale(weft_exp(weft_scale(square, -0.5)), M_2_SQRTPI * M_SQRT1_2 / 2);
    weft_value *slope = weft_mul(density, weft_offset(weft_neg(square), 2));
    din[1] = bent(n, dout[0], slope);
}

/* s u' + x s (u'' - 2 t u'^2) / 2 with s = 1 - t^2, u'' = 6 k c x */
GRADIENT(gelu_tanh_backward) {
    if (!backward_again(n, dout, wanted, din)) return;
    weft_value *x = n->in[1], *square = weft_square(x);
    weft_value *t = weft_tanh(weft_mul(x, weft_offset(weft_scale(square, K * C), K)));
    weft_value *s = weft_offset(weft_neg(weft_square(t)), 1);
    weft_value *du = weft_offset(weft_scale(square, 3 * K * C), K), *ddu = weft_scale(x, 6 * K * C);
    weft_value *bend = weft_sub(ddu, weft_scale(weft_mul(t, weft_square(du)), 2));
    weft_value *second = weft_mul(s, weft_add(du, weft_scale(weft_mul(x, bend), 0.5)));
    din[1] = bent(n, dout[0], second);
}

/* s (1 - s) (2 + x (1 - 2 s)) */
GRADIENT(silu_backward) {
    if (!backward_again(n, dout, wanted, din)) return;
    weft_value *x = n->in[1], *s = weft_sigmoid(x), *rest = weft_offset(weft_neg(s), 1);
    weft_value *bend = weft_mul(x, weft_offset(weft_scale(s, -2), 1));
    weft_value *outer = weft_mul(s, rest);
    din[1] = bent(n, dout[0], weft_mul(outer, weft_offset(bend, 2)));
}

/* (1 - w^2) s (2 + x (1 - s - 2 w s)) */
GRADIENT(mish_backward) {
    if (!backward_again(n, dout, wanted, din)) return;
    weft_value *x = n->in[1], *w = weft_tanh(weft_softplus(x, 1, 20)), *s = weft_sigmoid(x);
    weft_value *flat = weft_offset(weft_neg(weft_square(w)), 1), *rest = weft_offset(weft_neg(s), 1);
    weft_value *twice = weft_scale(weft_mul(w, s), -2);
    weft_value *bend = weft_mul(x, weft_add(rest, twice));
    weft_value *outer = weft_mul(flat, s);
    din[1] = bent(n, dout[0], weft_mul(outer, weft_offset(bend, 2)));
}

/* 1 / 3 between -3 and 3. */
GRADIENT(hardswish_backward) {
    if (!backward_again(n, dout, wanted, din)) return;
    weft_value *dy = n->in[0], *x = n->in[1];
    weft_value *zero = weft_constant(n->graph, x->type.dtype, 0, NULL, 0);
    weft_value *three = weft_constant(n->graph, x->type.dtype, 0, NULL, 3);
    weft_value *slope = weft_scale(weft_mul(dout[0], dy), 1.0 / 3);
    din[1] = weft_where(weft_less(weft_abs(x), three), slope, zero);
}

/* ---- the ops ---- */

#define GATED_OP(NAME, FORMULA, TEXT, TORCH)                                                                 \
    FUNCTION_OP(NAME, 0, FORMULA, TEXT, "torch.nn.functional." TORCH, PRECISION_FOLLOWS, unary_samples)

GATED_OP(gelu, 0.5 * x[0] * erfc(-x[0] * M_SQRT1_2), "x Phi(x), by erf", "gelu")
BACKWARD_OP(gelu, gelu_back(x[0], x[1]), "dy (Phi(x) + x phi(x))")
GATED_OP(gelu_tanh, 0.5 * x[0] * (1 + tanh(sqrt(M_2_PI) * (x[0] + C * x[0] * x[0] * x[0]))),
         "GELU, tanh approximation", "gelu(approximate='tanh')")
BACKWARD_OP(gelu_tanh, gelu_tanh_back(x[0], x[1]), "the gradient of gelu_tanh")
GATED_OP(silu, x[0] / (1 + exp(-x[0])), "x sigmoid(x)", "silu")
BACKWARD_OP(silu, silu_back(x[0], x[1]), "dy s (1 + x (1 - s)), s = sigmoid(x)")
GATED_OP(mish, x[0] * mish_gate(x[0]), "x tanh(log(1 + e^x))", "mish")
BACKWARD_OP(mish, mish_back(x[0], x[1]), "dy (w + x s (1 - w^2)), w = tanh(log(1 + e^x)), s = sigmoid(x)")
GATED_OP(hardswish, x[0] * fmin(fmax(x[0] + 3, 0), 6) / 6, "x max(0, min(6, x + 3)) / 6", "hardswish")
/* NaN where x is NaN. */
BACKWARD_OP(hardswish,
            x[1] <= -3  ? 0
            : x[1] >= 3 ? x[0]
                        : x[0] * (x[1] / 3 + 0.5),
            "dy times 0 below -3, 1 above 3, x / 3 + 1 / 2 between")
