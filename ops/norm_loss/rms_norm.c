/* rms_norm.c - division by the root mean square of the last axis; torch.nn.functional.rms_norm (Zhang and
 * Sennrich, arXiv 1910.07467): layer_norm without a mean and a bias.
 *     x [..., d], w [d] or none  ->  y = x rstd w [..., d], rstd [...] = 1 / sqrt(mean of x^2 + eps)
 * rstd is for rms_norm_backward, which gives the gradients. */
#include "ops/norm_loss/norm.h"

#include <float.h>
#include <math.h>

static bool infer(op_call *c) {
    if (!op_want_float(c, 0) || !op_want_beside(c, 1, 0)) return false;
    if (c->n_in == 2 && !c->in[1])
        return op_fail(c, WEFT_ARGUMENT, "operand 1, the weight, is missing: leave it out");
    const tensor_type *x = op_in(c, 0), *w = c->n_in == 2 ? op_in(c, 1) : NULL;
    if (((const norm_attrs *)c->attrs)->eps < 0) return op_fail(c, WEFT_ARGUMENT, "eps must not be negative");
    if (x->ndim < 1) return op_fail(c, WEFT_SHAPE, "x is %s: it needs an axis", TYPE(x));
    if (w && (w->ndim != 1 || w->shape[0] != x->shape[x->ndim - 1]))
        return op_fail(c, WEFT_SHAPE, "weight is %s: it must be [%lld], the last axis of x", TYPE(w),
                       (long long)x->shape[x->ndim - 1]);
    c->n_out = 2;
    c->out[1] = type_of(dtype_accumulator(x->dtype), x->ndim - 1, x->shape);
    return true;
}

static void gradient(weft_node *n, weft_value *const *dout, const bool *wanted, weft_value **din) {
    weft_value *in[] = {dout[0], n->in[0], &n->out[1], n->n_in == 2 ? n->in[1] : NULL};
    weft_node *back = NULL;
    if (dout[0]) back = node_new(n->graph, &weft_op_rms_norm_backward, n->n_in == 2 ? 4 : 3, in, NULL);
    for (int i = 0; back && i < n->n_in; i++)
        if (wanted[i]) din[i] = &back->out[i];
    /* rstd has a gradient where rms_norm_backward is differentiated. */
    norm_parts of = {.x = in[1], .rstd = in[2]};
    norm_axes last = {1, {in[1]->type.ndim - 1}};
    if (wanted[0]) din[0] = norm_statistics_gradient(&of, &last, din[0], NULL, dout[1]);
}

/* Two passes for each row: the mean square, then the result. */
static weft_status reference(const kernel_call *c) {
    const tensor *x = &c->in[0];
    double eps = ((const norm_attrs *)c->attrs)->eps;
    int last = x->type.ndim - 1;
    int64_t d = x->type.shape[last], at[WEFT_MAX_NDIM] = {0};
    do {
        double squares = 0;
        for (at[last] = 0; at[last] < d; at[last]++) squares += pow(element_get(x, at), 2);
        double rstd = 1 / sqrt(squares / (double)d + eps);
        for (at[last] = 0; at[last] < d; at[last]++) {
            double w = c->n_in == 2 ? element_get(&c->in[1], &at[last]) : 1;
            element_set(&c->out[0], at, element_get(x, at) * rstd * w);
        }
        element_set(&c->out[1], at, rstd);
        at[last] = d - 1; /* the next row */
    } while (index_next(&x->type, at));
    return WEFT_OK;
}

const weft_op weft_op_rms_norm = {
    .name = "rms_norm",
    .summary = "x / sqrt(mean of x^2 + eps) w over the last axis",
    .torch = "torch.nn.functional.rms_norm",
    .min_in = 1,
    .max_in = 2,
    OP_ATTRS(norm_attrs, norm_attr_table),
    .precision = PRECISION_FOLLOWS,
    /* Only x and y are reduced; weight and rstd are f32. */
    .f32_in = 1 << 1,
    .f32_out = 1 << 1,
    .kinds = {0, WEFT_PARAMS_NORM},
    .infer = infer,
    .gradient = gradient,
    .reference = reference,
    .samples = (const op_sample[]){{"f32[2,4,6], f32[6]", "eps=1e-5", .out = "f32[2,4,6], f32[2,4]"},
                                   {"f32[3,5]", "eps=0.1",
                                    .out = "f32[3,5], f32[3]"}, /* also equal numbers: a wide eps */
                                   {"f32[7,1], f32[1]", "eps=0.1", .out = "f32[7,1], f32[7]"},
                                   {"f32[70,387], f32[387]", "eps=1e-5", .no_gradient = true},
                                   {"f32[70,64]", "eps=1e-5", .no_gradient = true}, /* large: fast kernels */
                                   {"f32[4,6], f32[5]", "eps=1e-5", .error = "it must be [6]"},
                                   {"f32[4,6]", "eps=-1", .error = "eps must not be negative"},
                                   {"f32[]", "eps=1e-5", .error = "it needs an axis"},
                                   {0}},
};

weft_value *rms_norm_over(weft_value *x, int axes, weft_value *w, weft_value *b, double eps) {
    double least = x && x->type.dtype == WEFT_F64 ? DBL_EPSILON : FLT_EPSILON;
    norm_attrs a = {option_number(eps, least)};
    norm_rows rows;
    if (!norm_rows_of(&rows, "rms_norm", x, axes, w, b)) return NULL;
    weft_value *in[] = {rows.x, rows.w};
    return norm_rows_back(&rows, op_value(&weft_op_rms_norm, w ? 2 : 1, in, &a));
}

weft_value *weft_rms_norm_op(weft_value *x, weft_value *w, double eps) {
    return rms_norm_over(x, 0, w, NULL, eps);
}
