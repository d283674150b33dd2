/* layer_norm.c - normalization over the last axis; torch.nn.functional.layer_norm (Ba, Kiros, Hinton, arXiv
 * 1607.06450):
 *     x [..., d], w [d] and b [d], w alone, or neither
 *     ->  y = (x - mean) rstd w + b [..., d], mean [...], rstd [...]
 * with rstd = 1 / sqrt(biased variance + eps). mean and rstd are for layer_norm_backward, which gives the
 * gradients. */
#include "ops/norm_loss/norm.h"

#include <math.h>

static bool infer(op_call *c) {
    if (!op_want_float(c, 0) || !op_want_beside(c, 1, 0) || !op_want_beside(c, 2, 0)) return false;
    const tensor_type *x = op_in(c, 0);
    if (((const norm_attrs *)c->attrs)->eps < 0) return op_fail(c, WEFT_ARGUMENT, "eps must not be negative");
    if (x->ndim < 1) return op_fail(c, WEFT_SHAPE, "x is %s: it needs an axis", TYPE(x));
    int64_t d = x->shape[x->ndim - 1];
    for (int i = 1; i < c->n_in; i++) {
        if (!c->in[i])
            return op_fail(c, WEFT_ARGUMENT, "a bias without a weight: there may be a weight alone");
        if (op_in(c, i)->ndim != 1 || op_in(c, i)->shape[0] != d)
            return op_fail(c, WEFT_SHAPE, "%s is %s: it must be [%lld], the last axis of x",
                           i == 1 ? "weight" : "bias", TYPE(op_in(c, i)), (long long)d);
    }
    c->n_out = 3;
    c->out[1] = c->out[2] = type_of(dtype_accumulator(x->dtype), x->ndim - 1, x->shape);
    return true;
}

static void gradient(weft_node *n, weft_value *const *dout, const bool *wanted, weft_value **din) {
    weft_value *in[] = {dout[0], n->in[0], &n->out[1], &n->out[2], n->n_in > 1 ? n->in[1] : NULL};
    weft_node *back =
        dout[0] ? node_new(n->graph, &weft_op_layer_norm_backward, n->n_in > 1 ? 5 : 4, in, NULL) : NULL;
    for (int i = 0; back && i < n->n_in; i++)
        if (wanted[i]) din[i] = &back->out[i];
    /* mean and rstd have gradients where layer_norm_backward is differentiated. */
    norm_parts of = {.x = in[1], .mean = in[2], .rstd = in[3]};
    norm_axes last = {1, {in[1]->type.ndim - 1}};
    if (wanted[0]) din[0] = norm_statistics_gradient(&of, &last, din[0], dout[1], dout[2]);
}

/* Three passes for each row: mean, variance, result. */
static weft_status reference(const kernel_call *c) {
    const tensor *x = &c->in[0];
    double eps = ((const norm_attrs *)c->attrs)->eps;
    int last = x->type.ndim - 1;
    int64_t d = x->type.shape[last], at[WEFT_MAX_NDIM] = {0};
    do {
        at[last] = 0;
        double first = element_get(x, at), sum = 0, squares = 0;
        for (; at[last] < d; at[last]++) sum += element_get(x, at) - first;
        double mean = first + sum / (double)d; /* exact for a constant row */
        for (at[last] = 0; at[last] < d; at[last]++) squares += pow(element_get(x, at) - mean, 2);
        double rstd = 1 / sqrt(squares / (double)d + eps);
        for (at[last] = 0; at[last] < d; at[last]++) {
            double y = (element_get(x, at) - mean) * rstd;
            if (c->n_in > 1) y *= element_get(&c->in[1], &at[last]);
            if (c->n_in > 2) y += element_get(&c->in[2], &at[last]);
            element_set(&c->out[0], at, y);
        }
        element_set(&c->out[1], at, mean);
        element_set(&c->out[2], at, rstd);
        at[last] = d - 1; /* the next row */
    } while (index_next(&x->type, at));
    return WEFT_OK;
}

const weft_op weft_op_layer_norm = {
    .name = "layer_norm",
    .summary = "(x - mean) / sqrt(var + eps) w + b over the last axis",
    .torch = "torch.nn.functional.layer_norm",
    .min_in = 1,
    .max_in = 3,
    OP_ATTRS(norm_attrs, norm_attr_table),
    .precision = PRECISION_FOLLOWS,
    /* Only x and y are reduced; weight, bias and statistics are f32. */
    .f32_in = 1 << 1 | 1 << 2,
    .f32_out = 1 << 1 | 1 << 2,
    .kinds = {0, WEFT_PARAMS_NORM, WEFT_PARAMS_NORM | WEFT_PARAMS_BIAS},
    .infer = infer,
    .gradient = gradient,
    .reference = reference,
    .samples = (const op_sample[]){{"f32[2,4,6], f32[6], f32[6]", "eps=1e-5",
                                    .out = "f32[2,4,6], f32[2,4], f32[2,4]"},
                                   {"f32[3,5]", "eps=1e-5", .out = "f32[3,5], f32[3], f32[3]"},
                                   {"f32[70,387], f32[387], f32[387]", "eps=1e-5", .no_gradient = true},
                                   {"f32[70,64]", "eps=1e-5", .no_gradient = true}, /* large: fast kernels */
                                   {"f32[4,6], f32[5], f32[5]", "eps=1e-5", .error = "it must be [6]"},
                                   {"f32[4,6], f32[6]", "eps=1e-5", .out = "f32[4,6], f32[4], f32[4]"},
                                   {"f32[70,387], f32[387]", "eps=1e-5", .no_gradient = true},
                                   {"f32[4,6], -, f32[6]", "eps=1e-5", .error = "a bias without a weight"},
                                   {"f32[]", "eps=1e-5", .error = "it needs an axis"},
                                   {0}},
};

weft_value *layer_norm_over(weft_value *x, int axes, weft_value *w, weft_value *b, double eps) {
    norm_attrs a = {option_number(eps, 1e-5)};
    norm_rows rows;
    if (!norm_rows_of(&rows, "layer_norm", x, axes, w, b)) return NULL;
    weft_value *in[] = {rows.x, rows.w, rows.b};
    return norm_rows_back(&rows, op_value(&weft_op_layer_norm, b ? 3 : w ? 2 : 1, in, &a));
}

weft_value *weft_layer_norm_op(weft_value *x, weft_value *w, weft_value *b, double eps) {
    return layer_norm_over(x, 0, w, b, eps);
}
