/* cross_entropy.c - the mean of -log softmax(logits)[target] over the rows that are not ignored, or its sum;
 * torch.nn.functional.cross_entropy.
 *     logits [N, C], target [N] of an integer type  ->  loss [] (reduction none: [N]), lse [N]
 * lse, the log of the sum of e^logits of each row, is for the backward op, which gives dlogits. If all rows
 * are ignored the loss is NaN, as in PyTorch. A target outside of [0, C) that is not ignored fails the
 * run. */
#include "ops/norm_loss/norm.h"

#include <math.h>

static bool infer(op_call *c) {
    if (!op_want_float(c, 0)) return false;
    const tensor_type *x = op_in(c, 0), *t = op_in(c, 1);
    if (x->ndim != 2) return op_fail(c, WEFT_SHAPE, "logits are %s: they must be [rows, classes]", TYPE(x));
    if (!dtype_is_integer(t->dtype))
        return op_fail(c, WEFT_TYPE, "target is %s: it must be integer", TYPE(t));
    if (t->ndim != 1 || t->shape[0] != x->shape[0])
        return op_fail(c, WEFT_SHAPE, "logits %s and target %s: one target a row", TYPE(x), TYPE(t));
    if (x->shape[0] && !x->shape[1]) return op_fail(c, WEFT_SHAPE, "logits are %s: no classes", TYPE(x));
    c->n_out = 2;
    c->out[0] = c->out[1] = type_of(dtype_accumulator(x->dtype), 1, x->shape);
    if (((const cross_entropy_attrs *)c->attrs)->reduction != LOSS_NONE)
        c->out[0] = type_scalar(c->out[1].dtype);
    return true;
}

static void gradient(weft_node *n, weft_value *const *dout, const bool *wanted, weft_value **din) {
    weft_value *in[] = {dout[0], n->in[0], n->in[1], &n->out[1]};
    if (!wanted[0]) return;
    if (dout[0]) din[0] = node_value(n->graph, &weft_op_cross_entropy_backward, 4, in, n->attrs);
    if (!dout[1]) return;
    /* lse has a gradient where cross_entropy_backward is differentiated: softmax times dlse */
    weft_value *more = weft_mul(cross_entropy_softmax(in[1], in[3]), weft_unsqueeze(dout[1], 1));
    din[0] = din[0] ? weft_add(din[0], weft_cast(more, in[1]->type.dtype)) : more;
}

static weft_status reference(const kernel_call *c) {
    const tensor *x = &c->in[0], *target = &c->in[1];
    const cross_entropy_attrs *a = c->attrs;
    int64_t classes = x->type.shape[1], rows;
    weft_status status = cross_entropy_targets(c, target, classes, &rows);
    if (status) return status;
    double loss = 0;
    for (int64_t i = 0; i < x->type.shape[0]; i++) {
        /* The row's maximum is subtracted, so that e^x does not overflow. */
        double most = -INFINITY, sum = 0;
        for (int64_t k = 0; k < classes; k++) most = fmax(most, element_get(x, (int64_t[]){i, k}));
        for (int64_t k = 0; k < classes; k++) sum += exp(element_get(x, (int64_t[]){i, k}) - most);
        double lse = most + log(sum);
        element_set(&c->out[1], &i, lse);
        int64_t t = element_int(target, &i);
        double own = t == a->ignore_index ? 0 : lse - element_get(x, (int64_t[]){i, t});
        loss += own;
        if (a->reduction == LOSS_NONE) element_set(&c->out[0], &i, own);
    }
    if (a->reduction != LOSS_NONE)
        element_set(&c->out[0], NULL, a->reduction == LOSS_MEAN ? loss / (double)rows : loss);
    return WEFT_OK;
}

const weft_op weft_op_cross_entropy = {
    .name = "cross_entropy",
    .summary = "mean, sum or each of -log softmax(logits)[target] of rows",
    .torch = "torch.nn.functional.cross_entropy",
    .min_in = 2,
    .of_nothing = EMPTY_MEAN, /* of no rows */
    OP_ATTRS(cross_entropy_attrs, cross_entropy_attr_table),
    .precision = PRECISION_FOLLOWS,
    /* Only the logits are reduced; loss and lse are f32. */
    .f32_out = 1 | 1 << 1,
    .infer = infer,
    .gradient = gradient,
    .reference = reference,
    .samples =
        (const op_sample[]){
            {"f32[5,4], i64[5]", "ignore_index=-100", .out = "f32[], f32[5]"},
            {"f32[5,4], i32[5]", "ignore_index=2", .out = "f32[], f32[5]"},
            {"f32[70,65], u8[70]", "ignore_index=-100", .below = 65, .low = -9, .high = 9},
            {"f32[300,1003], i32[300]", "ignore_index=-100", .below = 1003,
             .no_gradient = true}, /* large: fast kernels */
            {"f32[5,4], i64[5]", "ignore_index=1 reduction=sum", .out = "f32[], f32[5]"},
            {"f32[5,4], i64[5]", "ignore_index=1 reduction=none", .out = "f32[5], f32[5]"},
            {"f32[300,1003], i32[300]", "ignore_index=7 reduction=none", .below = 1003, .no_gradient = true},
            {"f32[5,4], f32[5]", .error = "it must be integer"},
            {"f32[5,4], i64[4]", .error = "one target a row"},
            {"f32[5], i64[5]", .error = "must be [rows, classes]"},
            {0}},
};
