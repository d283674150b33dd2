/* cross_entropy_backward.c - the gradient of cross_entropy with respect to the logits, from dloss [] and lse
 * [N]; `rows` is the number of rows that are not ignored:
 *     dlogits[i, k] = dloss / rows (e^(logits[i, k] - lse[i]) - (k == target[i])), 0 in ignored rows
 * For a sum there is no division, and for each row's loss dloss is [N]. With a gradient a by dlogits,
 * p = e^(logits - lse) and f = dloss / rows (or dloss), 0 in ignored rows, it has
 *     by logits: f a p        by lse: -sum over k of f a p        by dloss: sum of a dlogits, at dloss 1 */
#include "ops/norm_loss/norm.h"

#include <math.h>

static bool infer(op_call *c) {
    if (!op_want_float(c, 1)) return false;
    int each = ((const cross_entropy_attrs *)c->attrs)->reduction == LOSS_NONE;
    const tensor_type *dloss = op_in(c, 0), *x = op_in(c, 1), *t = op_in(c, 2), *lse = op_in(c, 3);
    if (x->ndim != 2 || !dtype_is_integer(t->dtype) || t->ndim != 1 || t->shape[0] != x->shape[0] ||
        lse->ndim != 1 || lse->shape[0] != x->shape[0] || dloss->ndim != each ||
        (each && dloss->shape[0] != x->shape[0]) || dloss->dtype != dtype_accumulator(x->dtype) ||
        lse->dtype != dloss->dtype)
        return op_fail(c, WEFT_SHAPE, "dloss %s, logits %s, target %s, lse %s do not belong together",
                       TYPE(dloss), TYPE(x), TYPE(t), TYPE(lse));
    c->out[0] = *x;
    return true;
}

/* dloss / rows, or dloss, as [N, 1] or [], 0 in ignored rows. */
static weft_value *row_factors(weft_node *n, weft_value *dloss) {
    const cross_entropy_attrs *a = n->attrs;
    weft_value *target = n->in[2], *counts = NULL;
    weft_dtype dtype = target->type.dtype;
    if (constant_fits(dtype, (double)a->ignore_index)) { /* else no target is ignored */
        weft_value *never = weft_constant(n->graph, dtype, 0, NULL, (double)a->ignore_index);
        counts = weft_cast(weft_not_equal(target, never), dloss->type.dtype);
    }
    if (a->reduction == LOSS_MEAN && counts) dloss = weft_div(dloss, weft_sum(counts, 0, NULL, false));
    if (a->reduction == LOSS_MEAN && !counts) dloss = weft_scale(dloss, 1 / (double)target->type.shape[0]);
    if (counts) dloss = weft_mul(counts, dloss);
    return dloss && dloss->type.ndim ? weft_unsqueeze(dloss, 1) : dloss;
}

static void gradient(weft_node *n, weft_value *const *dout, const bool *wanted, weft_value **din) {
    weft_value *dloss = n->in[0], *x = n->in[1], *lse = n->in[3];
    weft_value *p = cross_entropy_softmax(x, lse), *a = weft_cast(dout[0], lse->type.dtype);
    weft_value *factors = row_factors(n, dloss), *ap = weft_mul(a, p), *fap = weft_mul(factors, ap);
    if (wanted[1]) din[1] = fap;
    if (wanted[3]) din[3] = weft_neg(weft_sum(fap, 1, (int64_t[]){1}, false));
    if (!wanted[0]) return;
    const tensor_type *like = &dloss->type;
    weft_value *one = weft_constant(n->graph, like->dtype, like->ndim, like->shape, 1);
    weft_value *in[] = {one, x, n->in[2], lse};
    weft_value *slope = node_value(n->graph, &weft_op_cross_entropy_backward, 4, in, n->attrs);
    weft_value *each = weft_mul(a, weft_cast(slope, lse->type.dtype));
    din[0] = like->ndim ? weft_sum(each, 1, (int64_t[]){1}, false) : weft_sum(each, 0, NULL, false);
}

static weft_status reference(const kernel_call *c) {
    const tensor *x = &c->in[1], *target = &c->in[2];
    const cross_entropy_attrs *attrs = c->attrs;
    int64_t rows, at[2] = {0};
    weft_status status = cross_entropy_targets(c, target, x->type.shape[1], &rows);
    if (status) return status;
    do {
        int64_t t = element_int(target, at);
        double p = exp(element_get(x, at) - element_get(&c->in[3], at));
        double factor = element_get(&c->in[0], attrs->reduction == LOSS_NONE ? at : NULL);
        if (attrs->reduction == LOSS_MEAN) factor /= (double)rows;
        element_set(&c->out[0], at, t == attrs->ignore_index ? 0 : factor * (p - (t == at[1])));
    } while (index_next(&x->type, at));
    return WEFT_OK;
}

const weft_op weft_op_cross_entropy_backward = {
    .name = "cross_entropy_backward",
    .summary = "gradient of cross_entropy by the logits",
    .min_in = 4,
    OP_ATTRS(cross_entropy_attrs, cross_entropy_attr_table),
    .precision = PRECISION_FOLLOWS,
    /* Operand 1 (logits) and dlogits are reduced; dloss and lse are f32. */
    .f32_in = 1 | 1 << 2 | 1 << 3,
    .infer = infer,
    .gradient = gradient,
    .reference = reference,
    .samples =
        (const op_sample[]){
            {"f32[], f32[5,4], i64[5], f32[5]", "ignore_index=-100", .out = "f32[5,4]"},
            {"f32[], f32[5,4], i32[5], f32[5]", "ignore_index=2"},
            {"f32[], f32[5,4], u8[5], f32[5]", "ignore_index=-100"},
            {"f32[], f32[5,4], i64[5], f32[5]", "ignore_index=1 reduction=sum"},
            {"f32[5], f32[5,4], i64[5], f32[5]", "ignore_index=1 reduction=none"},
            {"f32[5], f32[5,4], u8[5], f32[5]", "ignore_index=-1 reduction=none"},
            {"f32[300], f32[300,1003], i32[300], f32[300]", "ignore_index=-100 reduction=none", .below = 1003,
             .no_gradient = true},
            {"f32[], f32[5,4], i64[5], f32[5]", "reduction=none", .error = "do not belong together"},
            {"f32[], f32[300,1003], i32[300], f32[300]", "ignore_index=-100", .below = 1003,
             .no_gradient = true},
            {"f32[], f32[5,4], i64[5], f32[4]", .error = "do not belong together"},
            {0}},
};
