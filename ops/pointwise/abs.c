/* abs.c - |x|, element by element; torch.abs. dx = dy sign(x), so the gradient at 0 is 0, as in PyTorch. */
#include "ops/kit/op_kit.h"

#include <math.h>

static double scalar(const double *x, const void *attrs) {
    (void)attrs;
    return fabs(x[0]);
}

static void gradient(weft_node *n, weft_value *const *dout, const bool *wanted, weft_value **din) {
    (void)wanted;
    /* dy where x > 0, -dy where x < 0, else 0. */
    weft_value *x = n->in[0], *zero = weft_constant(n->graph, x->type.dtype, 0, NULL, 0);
    weft_value *turned = weft_neg(dout[0]);
    weft_value *negative = weft_where(weft_greater(zero, x), turned, zero);
    din[0] = weft_where(weft_greater(x, zero), dout[0], negative);
}

const weft_op weft_op_abs = {
    .name = "abs",
    .summary = "|x|",
    .torch = "torch.abs",
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

weft_value *weft_abs(weft_value *x) {
    return op_value(&weft_op_abs, 1, &x, NULL);
}
