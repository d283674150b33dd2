/* reciprocal.c - 1 / x; torch.reciprocal. dx = -dy y^2. */
#include "ops/kit/op_kit.h"

static double scalar(const double *x, const void *attrs) {
    (void)attrs;
    return 1 / x[0];
}

static void gradient(weft_node *n, weft_value *const *dout, const bool *wanted, weft_value **din) {
    (void)wanted;
    din[0] = weft_neg(weft_mul(dout[0], weft_square(&n->out[0])));
}

const weft_op weft_op_reciprocal = {
    .name = "reciprocal",
    .summary = "1 / x",
    .torch = "torch.reciprocal",
    .min_in = 1,
    .max_in = 1,
    .flags = OP_POINTWISE | OP_FROM_RESULT,
    /* No precision: runs in f32, as under torch.amp.autocast. */
    .infer = infer_same,
    .gradient = gradient,
    .scalar = scalar,
    .samples = (const op_sample[]){{"f32[2,3]", .out = "f32[2,3]", .low = 0.3, .high = 3},
                                   {"f32[2,5,4,3]", .low = 0.3, .high = 3},
                                   {"f32[7]", .low = -3, .high = -0.3},
                                   {"i32[3]", .error = "must be floating point"},
                                   {0}},
};

weft_value *weft_reciprocal(weft_value *x) {
    return op_value(&weft_op_reciprocal, 1, &x, NULL);
}
