/* erf.c - the error function, 2 / sqrt(pi) times the integral of e^-t^2 from 0 to x; torch.erf. dx = dy 2
 * / sqrt(pi) e^-x^2. */
#include "ops/kit/op_kit.h"

#include <math.h>

static double scalar(const double *x, const void *attrs) {
    (void)attrs;
    return erf(x[0]);
}

static void gradient(weft_node *n, weft_value *const *dout, const bool *wanted, weft_value **din) {
    (void)wanted;
    weft_value *density = weft_exp(weft_neg(weft_square(n->in[0])));
    din[0] = weft_mul(dout[0], weft_scale(density, 1.1283791670955126)); /* 2 / sqrt(pi) */
}

const weft_op weft_op_erf = {
    .name = "erf",
    .summary = "the error function",
    .torch = "torch.erf",
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

weft_value *weft_erf(weft_value *x) {
    return op_value(&weft_op_erf, 1, &x, NULL);
}
