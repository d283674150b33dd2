/* bce_with_logits.c - binary cross-entropy of logits x and targets t in [0, 1], element by element, in a form
 * without overflow; torch.nn.functional.binary_cross_entropy_with_logits with reduction="none". A mean of it
 * is PyTorch's default.
 *     y = max(x, 0) - x t + log(1 + e^-|x|)        dx = dy (sigmoid(x) - t)        dt = -dy x
 */
#include "ops/kit/op_kit.h"

#include <math.h>

static double scalar(const double *x, const void *attrs) {
    return fmax(x[0], 0) - x[0] * x[1] + log1p(exp(-fabs(x[0])));
}

static void gradient(weft_node *n, weft_value *const *dout, const bool *wanted, weft_value **din) {
    weft_value *x = n->in[0], *t = n->in[1];
    if (wanted[0]) din[0] = sum_to(weft_mul(dout[0], weft_sub(weft_sigmoid(x), t)), x);
    if (wanted[1]) din[1] = sum_to(weft_neg(weft_mul(dout[0], x)), t);
}

const weft_op weft_op_bce_with_logits = {
    .name = "bce_with_logits",
    .summary = "max(x, 0) - x t + log(1 + e^-|x|)",
    .torch = "torch.nn.functional.binary_cross_entropy_with_logits",
    .min_in = 2,
    .flags = OP_POINTWISE,
    /* No precision: runs in f32, as under torch.amp.autocast. Broadcasts for files of older versions;
     * loss_fits is stricter. */
    .infer = infer_broadcast,
    .gradient = gradient,
    .scalar = scalar,
    .samples = (const op_sample[]){{"f32[2,3], f32[2,3]", .out = "f32[2,3]"},
                                   {"f32[2,3], f32[]", .out = "f32[2,3]"},
                                   {"f32[77,65], f32[77,65]", .low = -30, .high = 30, .no_gradient = true},
                                   {"f32[2,3], i32[2,3]", .error = "cast one"},
                                   {0}},
};
