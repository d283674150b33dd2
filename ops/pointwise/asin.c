/* asin.c - the angle in [-pi/2, pi/2] whose sine is x; torch.asin. NaN outside of [-1, 1]. dx = dy /
 * sqrt(1 - x^2). */
#include "ops/kit/op_kit.h"

#include <math.h>

static double scalar(const double *x, const void *attrs) {
    (void)attrs;
    return asin(x[0]);
}

static void gradient(weft_node *n, weft_value *const *dout, const bool *wanted, weft_value **din) {
    (void)wanted;
    weft_value *rest = weft_offset(weft_neg(weft_square(n->in[0])), 1);
    din[0] = weft_mul(dout[0], weft_rsqrt(rest));
}

const weft_op weft_op_asin = {
    .name = "asin",
    .summary = "inverse sine",
    .torch = "torch.asin",
    .min_in = 1,
    .max_in = 1,
    .flags = OP_POINTWISE,
    /* No precision: runs in f32, as under torch.amp.autocast. */
    .infer = infer_same,
    .gradient = gradient,
    .scalar = scalar,
    .samples = (const op_sample[]){{"f32[2,3]", .low = -0.9, .high = 0.9, .out = "f32[2,3]"},
                                   {"f32[2,5,4,3]", .low = -0.9, .high = 0.9},
                                   {"i32[3]", .error = "must be floating point"},
                                   {0}},
};

weft_value *weft_asin(weft_value *x) {
    return op_value(&weft_op_asin, 1, &x, NULL);
}
