/* tan.c - the tangent of x in radians; torch.tan. dx = dy (1 + y^2). */
#include "ops/kit/op_kit.h"

#include <math.h>

static double scalar(const double *x, const void *attrs) {
    (void)attrs;
    return tan(x[0]);
}

static void gradient(weft_node *n, weft_value *const *dout, const bool *wanted, weft_value **din) {
    (void)wanted;
    din[0] = weft_mul(dout[0], weft_offset(weft_square(&n->out[0]), 1));
}

const weft_op weft_op_tan = {
    .name = "tan",
    .summary = "tangent",
    .torch = "torch.tan",
    .min_in = 1,
    .max_in = 1,
    .flags = OP_POINTWISE,
    /* No precision: runs in f32, as under torch.amp.autocast. */
    .infer = infer_same,
    .gradient = gradient,
    .scalar = scalar,
    .samples = (const op_sample[]){{"f32[2,3]", .out = "f32[2,3]"},
                                   {"f32[2,5,4,3]"},
                                   {"i32[3]", .error = "must be floating point"},
                                   {0}},
};

weft_value *weft_tan(weft_value *x) {
    return op_value(&weft_op_tan, 1, &x, NULL);
}
