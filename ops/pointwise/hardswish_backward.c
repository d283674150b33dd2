/* hardswish_backward.c - the gradient of hardswish: 0 up to -3, dy from 3 on, dy (x / 3 + 1 / 2) between;
 * NaN where x is NaN. Linear in dy; its derivative by x is dy / 3 between. */
#include "ops/kit/op_kit.h"

#include <math.h>

static double scalar(const double *x, const void *attrs) {
    (void)attrs;
    return x[1] <= -3 ? 0 : x[1] >= 3 ? x[0] : x[0] * (x[1] / 3 + 0.5);
}

static void gradient(weft_node *n, weft_value *const *dout, const bool *wanted, weft_value **din) {
    weft_value *dy = n->in[0], *x = n->in[1];
    if (wanted[0]) din[0] = node_value(n->graph, n->op, 2, (weft_value *[]){dout[0], x}, n->attrs);
    if (!wanted[1]) return;
    weft_value *zero = weft_constant(n->graph, x->type.dtype, 0, NULL, 0);
    weft_value *three = weft_constant(n->graph, x->type.dtype, 0, NULL, 3);
    weft_value *slope = weft_scale(weft_mul(dout[0], dy), 1.0 / 3);
    din[1] = weft_where(weft_less(weft_abs(x), three), slope, zero);
}

const weft_op weft_op_hardswish_backward = {
    .name = "hardswish_backward",
    .summary = "dy times 0 below -3, 1 above 3, x / 3 + 1 / 2 between",
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
