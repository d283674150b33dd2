/* div.c - a / b with broadcasting; torch.div. da = dy / b, db = -dy (a / b) / b, summed over broadcast axes.
 * As PyTorch's, db is of the operands, so a gradient of it by y is 0; the pass that merges equal nodes makes
 * a / b the result again. */
#include "ops/kit/op_kit.h"

static double scalar(const double *x, const void *attrs) {
    (void)attrs;
    return x[0] / x[1];
}

static void gradient(weft_node *n, weft_value *const *dout, const bool *wanted, weft_value **din) {
    weft_value *part = weft_div(dout[0], n->in[1]);
    if (wanted[0]) din[0] = sum_to(part, n->in[0]);
    if (wanted[1]) din[1] = sum_to(weft_neg(weft_mul(part, weft_div(n->in[0], n->in[1]))), n->in[1]);
}

const weft_op weft_op_div = {
    .name = "div",
    .summary = "a / b",
    .torch = "torch.div",
    .min_in = 2,
    .max_in = 2,
    .flags = OP_POINTWISE,
    .precision = PRECISION_FOLLOWS,
    .reduced_in = 3,
    .reduced_out = 1,
    .infer = infer_broadcast,
    .gradient = gradient,
    .scalar = scalar,
    .samples = (const op_sample[]){{"f32[2,3], f32[3]", .out = "f32[2,3]", .low = 0.5, .high = 2},
                                   {"f32[2,1,4], f32[3,1]", .out = "f32[2,3,4]", .low = 0.5, .high = 2},
                                   {"f32[4], f32[3]", .error = "do not broadcast"},
                                   {"f32[2], f64[2]", .error = "cast one"},
                                   {0}},
};

weft_value *weft_div(weft_value *a, weft_value *b) {
    return op_value(&weft_op_div, 2, (weft_value *[]){a, b}, NULL);
}
