/* rms_norm_backward.c - the gradients of rms_norm from dy, x, its result rstd, and w (or none):
 *     xhat = x rstd        g = dy w        dx = rstd (g - xhat mean(g xhat)), the mean over the last axis
 *     dw = sum over rows of dy xhat        (left out without w)
 * dy and x [..., d], rstd [...], w and dw [d]. Its gradient: norm_gradient.c. */
#include "ops/norm_loss/norm.h"

/* Operands dy, x, rstd, w; results dx, dw. */
static bool infer(op_call *c) {
    if (!op_want_float(c, 0) || !op_want_beside(c, 3, 1)) return false;
    const tensor_type *dy = op_in(c, 0), *x = op_in(c, 1);
    tensor_type rows = type_of(dtype_accumulator(x->dtype), x->ndim - 1, x->shape);
    if (x->ndim < 1 || !type_equal(dy, x) || !type_equal(op_in(c, 2), &rows))
        return op_fail(c, WEFT_SHAPE, "dy %s, x %s, rstd %s do not belong together", TYPE(dy), TYPE(x),
                       TYPE(op_in(c, 2)));
    bool has_weight = c->n_in == 4;
    if (has_weight && !c->in[3])
        return op_fail(c, WEFT_ARGUMENT, "operand 3, the weight, is missing: leave it out");
    tensor_type d = type_of(dtype_accumulator(x->dtype), 1, &x->shape[x->ndim - 1]);
    if (has_weight && !shape_equal(op_in(c, 3), &d))
        return op_fail(c, WEFT_SHAPE, "weight is %s: it must be %s", TYPE(op_in(c, 3)), TYPE(&d));
    c->n_out = has_weight ? 2 : 1;
    c->out[0] = *x;
    c->out[1] = d;
    return true;
}

const weft_op weft_op_rms_norm_backward = {
    .name = "rms_norm_backward",
    .summary = "gradients of rms_norm",
    .min_in = 3,
    .max_in = 4,
    .precision = PRECISION_FOLLOWS,
    /* dy, x and dx are reduced; dw is f32. */
    .f32_in = 1 << 2 | 1 << 3,
    .f32_out = 1 << 1,
    .infer = infer,
    .gradient = norm_rows_gradient,
    .reference = norm_rows_backward,
    /* rstd (above 0 in truth) may be any number here */
    .samples = (const op_sample[]){{"f32[2,3,6], f32[2,3,6], f32[2,3], f32[6]", .out = "f32[2,3,6], f32[6]"},
                                   {"f32[4,5], f32[4,5], f32[4]", .out = "f32[4,5]"},
                                   {"f32[150,387], f32[150,387], f32[150], f32[387]", .no_gradient = true},
                                   {"f32[70,64], f32[70,64], f32[70]", .no_gradient = true}, /* large */
                                   {"f32[4,5], f32[4,6], f32[4]", .error = "do not belong together"},
                                   {"f32[4,5], f32[4,5], f32[4], f32[4]", .error = "it must be f32[5]"},
                                   {0}},
};
