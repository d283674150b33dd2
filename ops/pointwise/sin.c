/* sin.c - the sine of x in radians; torch.sin. */
#include "ops/kit/op_kit.h"

#include <math.h>

static double scalar(const double *x, const void *attrs) {
    (void)attrs;
    return sin(x[0]);
}

static void gradient(weft_node *n, weft_value *const *dout, const bool *wanted, weft_value **din) {
    (void)wanted;
    din[0] = weft_mul(dout[0], weft_cos(n->in[0]));
}

const weft_op weft_op_sin = {
    .name = "sin",
    .summary = "sine",
    .torch = "torch.sin",
    .min_in = 1,
    .max_in = 1,
    .flags = OP_POINTWISE,
    .precision = PRECISION_FOLLOWS,
    .reduced_in = 1,
    .reduced_out = 1,
    .infer = infer_same,
    .gradient = gradient,
    .scalar = scalar,
    .samples = (const op_sample[]){{"f32[2,3]", .out = "f32[2,3]"},
                                   {"f32[2,5,4,3]"},
                                   {"i32[3]", .error = "must be floating point"},
                                   {0}},
};

weft_value *weft_sin(weft_value *x) {
    return op_value(&weft_op_sin, 1, &x, NULL);
}
