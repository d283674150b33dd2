/* atan.c - the angle in (-pi/2, pi/2) whose tangent is x; torch.atan. dx = dy / (1 + x^2). */
#include "ops/kit/op_kit.h"

#include <math.h>

static double scalar(const double *x, const void *attrs) {
    (void)attrs;
    return atan(x[0]);
}

static void gradient(weft_node *n, weft_value *const *dout, const bool *wanted, weft_value **din) {
    (void)wanted;
    din[0] = weft_div(dout[0], weft_offset(weft_square(n->in[0]), 1));
}

const weft_op weft_op_atan = {
    .name = "atan",
    .summary = "inverse tangent",
    .torch = "torch.atan",
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

weft_value *weft_atan(weft_value *x) {
    return op_value(&weft_op_atan, 1, &x, NULL);
}
