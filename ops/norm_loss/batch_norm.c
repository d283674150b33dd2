/* batch_norm.c - normalization by the statistics of the batch (training); torch.nn.functional.batch_norm with
 * training=True; Ioffe and Szegedy, arXiv 1502.03167, algorithm 1:
 *     x [N, C] or [N, C, H, W], w [C], b [C]  ->  y = (x - mean) rstd w + b, and for each channel
 *     mean [C], rstd [C] = 1 / sqrt(biased variance + eps), for the backward op, and
 *     var [C], the unbiased variance, for the running statistics (as in PyTorch)
 * Gradients come from batch_norm_backward. In eval graphs the layer consists of pointwise ops
 * (ops/layers.c). */
#include "ops/norm_loss/norm.h"

#include <math.h>

static bool infer(op_call *c) {
    if (!op_want_float(c, 0) || !op_want_beside(c, 1, 0) || !op_want_beside(c, 2, 0)) return false;
    const tensor_type *x = op_in(c, 0);
    if (((const norm_attrs *)c->attrs)->eps < 0) return op_fail(c, WEFT_ARGUMENT, "eps must not be negative");
    if (x->ndim != 2 && x->ndim != 4)
        return op_fail(c, WEFT_SHAPE, "x is %s: it must be [N, C] or [N, C, H, W]", TYPE(x));
    tensor_type channels = type_of(x->dtype, 1, &x->shape[1]);
    for (int i = 1; i < 3; i++)
        if (!shape_equal(op_in(c, i), &channels))
            return op_fail(c, WEFT_SHAPE, "%s is %s: it must be %s, axis 1 of x", i == 1 ? "weight" : "bias",
                           TYPE(op_in(c, i)), TYPE(&channels));
    /* The unbiased variance divides by n - 1. While a model is built its batch may be 1, and another one be
     * bound later. */
    if (type_elements(x) == x->shape[1] && !model_awaits_batch(c->graph->model))
        return op_fail(c, WEFT_SHAPE,
                       "x is %s: one value a channel has no variance: use a larger batch (batch of "
                       "weft_compile_options)",
                       TYPE(x));
    c->n_out = 4;
    c->out[1] = c->out[2] = c->out[3] = type_of(dtype_accumulator(x->dtype), 1, &x->shape[1]);
    return true;
}

static void gradient(weft_node *n, weft_value *const *dout, const bool *wanted, weft_value **din) {
    weft_value *in[] = {dout[0], n->in[0], n->in[1], &n->out[1], &n->out[2]};
    weft_node *back = dout[0] ? node_new(n->graph, &weft_op_batch_norm_backward, 5, in, NULL) : NULL;
    for (int i = 0; back && i < 3; i++)
        if (wanted[i]) din[i] = &back->out[i];
    /* mean and rstd have gradients where batch_norm_backward is differentiated, mean and the unbiased
     * variance where the program reads them */
    norm_parts of = {.x = in[1], .mean = in[3], .rstd = in[4]};
    norm_axes axes = batch_norm_axes(of.x);
    if (!wanted[0]) return;
    din[0] = norm_statistics_gradient(&of, &axes, din[0], dout[1], dout[2]);
    din[0] = norm_variance_gradient(&of, &axes, din[0], dout[3]);
}

static weft_status reference(const kernel_call *c) {
    const tensor *x = &c->in[0];
    int64_t channels = x->type.shape[1];
    double eps = ((const norm_attrs *)c->attrs)->eps, n = (double)(type_elements(&x->type) / channels);
    for (int64_t k = 0; k < channels; k++) {
        int64_t at[WEFT_MAX_NDIM] = {0, k};
        double first = element_get(x, at), sum = 0, squares = 0;
        do sum += element_get(x, at) - first; /* so the mean of a constant channel is exact */
        while (channel_next(&x->type, at));
        double mean = first + sum / n;
        /* A second pass for the variance, which loses no digits. */
        do squares += pow(element_get(x, at) - mean, 2);
        while (channel_next(&x->type, at));
        double rstd = 1 / sqrt(squares / n + eps), w = element_get(&c->in[1], &k),
               b = element_get(&c->in[2], &k);
        do element_set(&c->out[0], at, (element_get(x, at) - mean) * rstd * w + b);
        while (channel_next(&x->type, at));
        element_set(&c->out[1], &k, mean);
        element_set(&c->out[2], &k, rstd);
        element_set(&c->out[3], &k, squares / (n - 1));
    }
    return WEFT_OK;
}

const weft_op weft_op_batch_norm = {
    .name = "batch_norm",
    .summary = "(x - mean) / sqrt(var + eps) w + b by the batch's statistics",
    .torch = "torch.nn.functional.batch_norm",
    .min_in = 3,
    OP_ATTRS(norm_attrs, norm_attr_table),
    .image_in = 1,
    .image_out = 1,
    .precision = PRECISION_FOLLOWS,
    /* Only x and y are reduced; weight, bias and statistics are f32. */
    .f32_in = 1 << 1 | 1 << 2,
    .f32_out = 1 << 1 | 1 << 2 | 1 << 3,
    .kinds = {0, WEFT_PARAMS_NORM, WEFT_PARAMS_NORM | WEFT_PARAMS_BIAS},
    .infer = infer,
    .gradient = gradient,
    .reference = reference,
    .samples =
        (const op_sample[]){
            {"f32[4,3], f32[3], f32[3]", "eps=1e-5", .out = "f32[4,3], f32[3], f32[3], f32[3]"},
            {"f32[2,3,2,2], f32[3], f32[3]", "eps=1e-5", .out = "f32[2,3,2,2], f32[3], f32[3], f32[3]"},
            {"f32[9,37,11,13], f32[37], f32[37]", "eps=1e-5", .low = 3, .high = 5, .no_gradient = true},
            {"f32[67,403], f32[403], f32[403]", "eps=1e-5", .no_gradient = true}, /* large: fast kernels */
            {"f32[4,3,2], f32[3], f32[3]", "eps=1e-5", .error = "[N, C] or [N, C, H, W]"},
            {"f32[4,3], f32[4], f32[3]", "eps=1e-5", .error = "it must be f32[3]"},
            {"f32[1,3], f32[3], f32[3]", "eps=1e-5", .error = "has no variance"},
            {0}},
};
