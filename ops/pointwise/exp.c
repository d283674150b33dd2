/* exp.c - e^x, element by element; torch.exp. dx = dy y. */
#include "ops/kit/op_kit.h"

#include <math.h>

static double scalar(const double *x, const void *attrs) {
    (void)attrs;
    return exp(x[0]);
}

static void gradient(weft_node *n, weft_value *const *dout, const bool *wanted, weft_value **din) {
    (void)wanted;
    din[0] = weft_mul(dout[0], &n->out[0]);
}

const weft_op weft_op_exp = {
    .name = "exp",
    .summary = "e^x",
    .torch = "torch.exp",
    .min_in = 1,
    .max_in = 1,
    .flags = OP_POINTWISE | OP_FROM_RESULT,
    /* No precision: runs in f32, as under torch.amp.autocast. */
    .infer = infer_same,
    .gradient = gradient,
    .scalar = scalar,
    .samples = (const op_sample[]){{"f32[2,3]", .out = "f32[2,3]"},
                                   {"f32[2,5,4,3]"},
                                   {"i32[3]", .error = "must be floating point"},
                                   {0}},
};

weft_value *weft_exp(weft_value *x) {
    return op_value(&weft_op_exp, 1, &x, NULL);
}
