/* rsqrt.c - 1 / sqrt(x); torch.rsqrt. dx = -dy y^3 / 2. */
#include "ops/kit/op_kit.h"

#include <math.h>

static double scalar(const double *x, const void *attrs) {
    (void)attrs;
    return 1 / sqrt(x[0]);
}

static void gradient(weft_node *n, weft_value *const *dout, const bool *wanted, weft_value **din) {
    (void)wanted;
    weft_value *y = &n->out[0];
    weft_value *cube = weft_mul(y, weft_square(y));
    din[0] = weft_mul(weft_scale(dout[0], -0.5), cube);
}

const weft_op weft_op_rsqrt = {
    .name = "rsqrt",
    .summary = "1 / sqrt(x)",
    .torch = "torch.rsqrt",
    .min_in = 1,
    .max_in = 1,
    .flags = OP_POINTWISE | OP_FROM_RESULT,
    /* No precision: runs in f32, as under torch.amp.autocast. */
    .infer = infer_same,
    .gradient = gradient,
    .scalar = scalar,
    .samples = (const op_sample[]){{"f32[2,3]", .out = "f32[2,3]", .low = 0.3, .high = 3},
                                   {"f32[2,5,4,3]", .low = 0.3, .high = 3},
                                   {"i32[3]", .error = "must be floating point"},
                                   {0}},
};

weft_value *weft_rsqrt(weft_value *x) {
    return op_value(&weft_op_rsqrt, 1, &x, NULL);
}
