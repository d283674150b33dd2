/* gelu_tanh_backward.c - the gradient of gelu_tanh, dy y'(x), with y = x (1 + t) / 2, t = tanh(u), u = k (x +
 * c x^3) and s = 1 - t^2. Linear in dy; its derivative by x is dy y''(x).
 *     u'  = k (1 + 3 c x^2)                 u'' = 6 k c x
 *     y'  = (1 + t) / 2 + x s u' / 2
 *     y'' = s u' + x s (u'' - 2 t u'^2) / 2
 */
#include "ops/kit/op_kit.h"

#include <math.h>

#define K 0.79788456080286535588 /* sqrt(2/pi) */
#define C 0.044715

static double scalar(const double *x, const void *attrs) {
    (void)attrs;
    double v = x[1], u = K * (v + C * v * v * v), du = K * (1 + 3 * C * v * v), t = tanh(u);
    return x[0] * (0.5 * (1 + t) + 0.5 * v * (1 - t * t) * du);
}

static void gradient(weft_node *n, weft_value *const *dout, const bool *wanted, weft_value **din) {
    weft_value *dy = n->in[0], *x = n->in[1];
    if (wanted[0]) din[0] = node_value(n->graph, n->op, 2, (weft_value *[]){dout[0], x}, n->attrs);
    if (!wanted[1]) return;
    weft_value *square = weft_square(x);
    weft_value *t = weft_tanh(weft_mul(x, weft_offset(weft_scale(square, K * C), K)));
    weft_value *s = weft_offset(weft_neg(weft_square(t)), 1);
    weft_value *du = weft_offset(weft_scale(square, 3 * K * C), K), *ddu = weft_scale(x, 6 * K * C);
    /* u'' - 2 t u'^2, then y'' */
    weft_value *bend = weft_sub(ddu, weft_scale(weft_mul(t, weft_square(du)), 2));
    weft_value *second = weft_mul(s, weft_add(du, weft_scale(weft_mul(x, bend), 0.5)));
    din[1] = weft_mul(weft_mul(dout[0], dy), second);
}

const weft_op weft_op_gelu_tanh_backward = {
    .name = "gelu_tanh_backward",
    .summary = "the gradient of gelu_tanh",
    .min_in = 2,
    .max_in = 2,
    .flags = OP_POINTWISE,
    .precision = PRECISION_FOLLOWS,
    .reduced_in = 3,
    .reduced_out = 1,
    .infer = infer_alike,
    .gradient = gradient,
    .scalar = scalar,
    .samples = (const op_sample[]){{"f32[2,3], f32[2,3]", .out = "f32[2,3]"},
                                   {"f32[2,5,4,3], f32[2,5,4,3]"},
                                   {"f32[2,3], f32[3]", .error = "must have one shape"},
                                   {0}},
};
