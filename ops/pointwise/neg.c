/* neg.c - -x, element by element; torch.neg. dx = -dy. */
#include "ops/kit/op_kit.h"

static double scalar(const double *x, const void *attrs) {
    (void)attrs;
    return -x[0];
}

static void gradient(weft_node *n, weft_value *const *dout, const bool *wanted, weft_value **din) {
    (void)wanted;
    (void)n;
    din[0] = weft_neg(dout[0]);
}

const weft_op weft_op_neg = {
    .name = "neg",
    .summary = "-x",
    .torch = "torch.neg",
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

weft_value *weft_neg(weft_value *x) {
    return op_value(&weft_op_neg, 1, &x, NULL);
}
