/* batch_norm_backward.c - the gradients of batch_norm from dy, x, w and its results mean and rstd. With n
 * values in a channel and xhat = (x - mean) rstd:
 *     db = sum of dy        dw = sum of dy xhat        dx = w rstd (dy - db / n - xhat dw / n)
 * dy and x [N, C] or [N, C, H, W], the others [C]. Its gradient:
 * norm_gradient.c. */
#include "ops/norm_loss/norm.h"

/* Operands dy, x, w, mean, rstd; results dx, dw, db. */
static bool infer(op_call *c) {
    if (!op_want_float(c, 0) || !op_want_beside(c, 2, 1)) return false;
    const tensor_type *dy = op_in(c, 0), *x = op_in(c, 1);
    if ((x->ndim != 2 && x->ndim != 4) || !type_equal(dy, x))
        return op_fail(c, WEFT_SHAPE, "dy %s and x %s: both must be one [N, C] or [N, C, H, W]", TYPE(dy),
                       TYPE(x));
    tensor_type channels = type_of(dtype_accumulator(x->dtype), 1, &x->shape[1]);
    for (int i = 2; i < 5; i++)
        if (i == 2 ? !shape_equal(op_in(c, i), &channels) : !type_equal(op_in(c, i), &channels))
            return op_fail(c, WEFT_SHAPE, "operand %d is %s: it must be %s", i, TYPE(op_in(c, i)),
                           TYPE(&channels));
    c->n_out = 3;
    c->out[0] = *x;
    c->out[1] = c->out[2] = channels;
    return true;
}

static void gradient(weft_node *n, weft_value *const *dout, const bool *wanted, weft_value **din) {
    norm_parts of = {.dy = n->in[0], .x = n->in[1], .w = n->in[2], .mean = n->in[3], .rstd = n->in[4]};
    norm_parts by = {0};
    norm_axes axes = batch_norm_axes(of.x);
    norm_backward_gradient(&of, &axes, dout, &by);
    weft_value *const found[] = {by.dy, by.x, by.w, by.mean, by.rstd};
    for (int i = 0; i < n->n_in; i++)
        if (wanted[i]) din[i] = found[i];
}

/* Two passes for each channel: the sums dw and db, then dx from them. */
static weft_status reference(const kernel_call *c) {
    const tensor *dy = &c->in[0], *x = &c->in[1];
    int64_t channels = x->type.shape[1];
    double n = (double)(type_elements(&x->type) / channels);
    for (int64_t k = 0; k < channels; k++) {
        double w = element_get(&c->in[2], &k), mean = element_get(&c->in[3], &k),
               rstd = element_get(&c->in[4], &k);
        int64_t at[WEFT_MAX_NDIM] = {0, k};
        double dw = 0, db = 0;
        do {
            db += element_get(dy, at);
            dw += element_get(dy, at) * (element_get(x, at) - mean) * rstd;
        } while (channel_next(&x->type, at));
        do {
            double xhat = (element_get(x, at) - mean) * rstd;
            element_set(&c->out[0], at, w * rstd * (element_get(dy, at) - db / n - xhat * dw / n));
        } while (channel_next(&x->type, at));
        element_set(&c->out[1], &k, dw);
        element_set(&c->out[2], &k, db);
    }
    return WEFT_OK;
}

const weft_op weft_op_batch_norm_backward = {
    .name = "batch_norm_backward",
    .summary = "gradients of batch_norm",
    .min_in = 5,
    .image_in = 3,
    .image_out = 1,
    .precision = PRECISION_FOLLOWS,
    /* dy, x and dx are reduced; dw and db are f32. */
    .f32_in = 1 << 2 | 1 << 3 | 1 << 4,
    .f32_out = 1 << 1 | 1 << 2,
    .infer = infer,
    .gradient = gradient,
    .reference = reference,
    /* rstd (above 0 in truth) may be any number here */
    .samples =
        (const op_sample[]){
            {"f32[4,3], f32[4,3], f32[3], f32[3], f32[3]", .out = "f32[4,3], f32[3], f32[3]"},
            {"f32[2,3,2,2], f32[2,3,2,2], f32[3], f32[3], f32[3]", .out = "f32[2,3,2,2], f32[3], f32[3]"},
            {"f32[9,37,11,13], f32[9,37,11,13], f32[37], f32[37], f32[37]", .no_gradient = true},
            {"f32[67,403], f32[67,403], f32[403], f32[403], f32[403]", .no_gradient = true},
            {"f32[4,3], f32[4,2], f32[3], f32[3], f32[3]", .error = "both must be one"},
            {"f32[4,3], f32[4,3], f32[3], f32[4], f32[3]", .error = "it must be f32[3]"},
            {0}},
};
