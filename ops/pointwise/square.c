/* square.c - x^2, element by element; torch.square. dx = 2 x dy. */
#include "ops/kit/op_kit.h"

static double scalar(const double *x, const void *attrs) {
    (void)attrs;
    return x[0] * x[0];
}

static void gradient(weft_node *n, weft_value *const *dout, const bool *wanted, weft_value **din) {
    (void)wanted;
    din[0] = weft_mul(dout[0], weft_scale(n->in[0], 2));
}

const weft_op weft_op_square = {
    .name = "square",
    .summary = "x^2",
    .torch = "torch.square",
    .min_in = 1,
    .max_in = 1,
    .flags = OP_POINTWISE,
    /* No precision: runs in f32, like pow under torch.amp.autocast. */
    .infer = infer_same,
    .gradient = gradient,
    .scalar = scalar,
    .samples = (const op_sample[]){{"f32[2,3]", .out = "f32[2,3]"},
                                   {"f32[2,5,4,3]"},
                                   {"i32[3]", .error = "must be floating point"},
                                   {0}},
};

weft_value *weft_square(weft_value *x) {
    return op_value(&weft_op_square, 1, &x, NULL);
}
