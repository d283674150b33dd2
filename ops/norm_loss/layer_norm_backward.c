/* layer_norm_backward.c - the gradients of layer_norm from dy, x, its results mean and rstd, and w (or none):
 *     xhat = (x - mean) rstd        g = dy w
 *     dx = rstd (g - mean(g) - xhat mean(g xhat)), means over the last axis
 *     dw = sum over rows of dy xhat        db = sum over rows of dy        (left out without w)
 * dy and x [..., d], mean and rstd [...], w, dw and db [d]. Its gradient: norm_gradient.c. */
#include "ops/norm_loss/norm.h"

/* Operands dy, x, mean, rstd, w; results dx, dw, db. */
static bool infer(op_call *c) {
    if (!op_want_float(c, 0) || !op_want_beside(c, 4, 1)) return false;
    const tensor_type *dy = op_in(c, 0), *x = op_in(c, 1);
    tensor_type rows = type_of(dtype_accumulator(x->dtype), x->ndim - 1, x->shape);
    if (x->ndim < 1 || !type_equal(dy, x) || !type_equal(op_in(c, 2), &rows) ||
        !type_equal(op_in(c, 3), &rows))
        return op_fail(c, WEFT_SHAPE, "dy %s, x %s, mean %s, rstd %s do not belong together", TYPE(dy),
                       TYPE(x), TYPE(op_in(c, 2)), TYPE(op_in(c, 3)));
    bool has_weight = c->n_in == 5 && c->in[4];
    tensor_type d = type_of(dtype_accumulator(x->dtype), 1, &x->shape[x->ndim - 1]);
    if (has_weight && !shape_equal(op_in(c, 4), &d))
        return op_fail(c, WEFT_SHAPE, "weight is %s: it must be %s", TYPE(op_in(c, 4)), TYPE(&d));
    c->n_out = has_weight ? 3 : 1;
    c->out[0] = *x;
    c->out[1] = c->out[2] = d;
    return true;
}

/* The operands of layer_norm_backward, and of rms_norm_backward, which has no mean. */
static norm_parts parts_of(const weft_node *n) {
    bool has_mean = n->op == &weft_op_layer_norm_backward;
    weft_value **in = n->in + has_mean;
    return (norm_parts){.dy = n->in[0],
                        .x = n->in[1],
                        .mean = has_mean ? n->in[2] : NULL,
                        .rstd = in[2],
                        .w = n->n_out > 1 ? in[3] : NULL,
                        .weight_is_row = true};
}

void norm_rows_gradient(weft_node *n, weft_value *const *dout, const bool *wanted, weft_value **din) {
    norm_parts of = parts_of(n), by = {0};
    weft_value *const ends[3] = {dout[0], n->n_out > 1 ? dout[1] : NULL, n->n_out > 2 ? dout[2] : NULL};
    norm_axes last = {1, {of.x->type.ndim - 1}};
    norm_backward_gradient(&of, &last, ends, &by);
    weft_value *const found[] = {by.dy, by.x, by.mean, by.rstd, by.w};
    for (int i = 0; i < n->n_in; i++)
        if (wanted[i]) din[i] = found[i > 1 && !of.mean ? i + 1 : i];
}

/* One row: sets dx, and adds the row's part to dw and db. */
static void row_backward(const kernel_call *c, int64_t *at) {
    const tensor *dy = &c->in[0], *x = &c->in[1];
    bool has_mean = c->node->op == &weft_op_layer_norm_backward;
    const tensor *of_rstd = &c->in[2 + has_mean], *w = c->n_out > 1 ? of_rstd + 1 : NULL;
    int last = x->type.ndim - 1;
    int64_t d = x->type.shape[last], *k = &at[last];
    double mean = has_mean ? element_get(&c->in[2], at) : 0, rstd = element_get(of_rstd, at);
    double sum_g = 0, sum_gx = 0;
    for (*k = 0; *k < d; ++*k) {
        double g = element_get(dy, at), xhat = (element_get(x, at) - mean) * rstd;
        if (w) element_set(&c->out[1], k, element_get(&c->out[1], k) + g * xhat);
        if (c->n_out == 3) element_set(&c->out[2], k, element_get(&c->out[2], k) + g);
        if (w) g *= element_get(w, k);
        if (has_mean) sum_g += g;
        sum_gx += g * xhat;
    }
    for (*k = 0; *k < d; ++*k) {
        double g = element_get(dy, at) * (w ? element_get(w, k) : 1);
        double xhat = (element_get(x, at) - mean) * rstd;
        element_set(&c->out[0], at, rstd * (g - sum_g / (double)d - xhat * sum_gx / (double)d));
    }
}

weft_status norm_rows_backward(const kernel_call *c) {
    const tensor_type *x = &c->in[1].type;
    int last = x->ndim - 1;
    int64_t at[WEFT_MAX_NDIM] = {0};
    for (int64_t k = 0; c->n_out > 1 && k < x->shape[last]; k++)
        for (int i = 1; i < c->n_out; i++) element_set(&c->out[i], &k, 0);
    do {
        row_backward(c, at);
        at[last] = x->shape[last] - 1; /* the next row */
    } while (index_next(x, at));
    return WEFT_OK;
}

const weft_op weft_op_layer_norm_backward = {
    .name = "layer_norm_backward",
    .summary = "gradients of layer_norm",
    .min_in = 4,
    .max_in = 5,
    .precision = PRECISION_FOLLOWS,
    /* dy, x and dx are reduced; dw and db are f32. */
    .f32_in = 1 << 2 | 1 << 3 | 1 << 4,
    .f32_out = 1 << 1 | 1 << 2,
    .infer = infer,
    .gradient = norm_rows_gradient,
    .reference = norm_rows_backward,
    /* rstd (above 0 in truth) may be any number here */
    .samples =
        (const op_sample[]){
            {"f32[2,3,6], f32[2,3,6], f32[2,3], f32[2,3], f32[6]", .out = "f32[2,3,6], f32[6], f32[6]"},
            {"f32[4,5], f32[4,5], f32[4], f32[4]", .out = "f32[4,5]"},
            {"f32[150,387], f32[150,387], f32[150], f32[150], f32[387]", .no_gradient = true},
            {"f32[70,64], f32[70,64], f32[70], f32[70]", .no_gradient = true},
            {"f32[4,5], f32[4,6], f32[4], f32[4]", .error = "do not belong together"},
            {"f32[4,5], f32[4,5], f32[4], f32[4], f32[4]", .error = "it must be f32[5]"},
            {0}},
};
