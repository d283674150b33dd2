/* gather_ranks.c - the values of all ranks of a process group, one after the other along axis 0:
 * x[n, ...] of each of w ranks becomes y[w n, ...], equal on all; stacked, x[...] becomes y[w, ...].
 *
 * Gradient: rank r's x is rows r n to (r + 1) n of y on every rank, so d/dx is the sum over all ranks of
 * these rows of d/dy: a reduce_scatter (scatter_ranks.c), whose gradient is this op again. */
#include "ops/structure/ranks.h"

static const op_attr attrs[] = {RANKS_GROUP_ROW, {"stacked", ATTR_BOOL, offsetof(ranks_attrs, stacked)}, {0}};

/* A new axis in front, of the ranks. */
static bool infer_stacked(op_call *c) {
    const tensor_type *x = op_in(c, 0);
    int n = ranks_of_call(c, true);
    if (!n) return false;
    if (x->ndim == WEFT_MAX_NDIM)
        return op_fail(c, WEFT_SHAPE, "%s has as many axes as there can be, and needs one for the ranks",
                       TYPE(x));
    c->graph->model->needs_world |= n > 1;
    c->out[0].ndim = x->ndim + 1;
    c->out[0].shape[0] = n;
    for (int i = 0; i < x->ndim; i++) c->out[0].shape[i + 1] = x->shape[i];
    return true;
}

static bool infer(op_call *c) {
    const int64_t most = (int64_t)1 << 46;
    int n;
    if (((const ranks_attrs *)c->attrs)->stacked) return infer_stacked(c);
    if (!infer_ranks_cut(c, &n)) return false;
    if (c->out[0].shape[0] > most / n)
        return op_fail(c, WEFT_SHAPE, "%s of %d ranks is too long", TYPE(op_in(c, 0)), n);
    c->out[0].shape[0] *= n;
    return true;
}

static void gradient(weft_node *n, weft_value *const *dout, const bool *wanted, weft_value **din) {
    const ranks_attrs *a = n->attrs;
    const tensor_type *x = &n->in[0]->type;
    if (!wanted[0]) return;
    din[0] = node_value(n->graph, &weft_op_scatter_ranks, 1, dout, &(ranks_attrs){.group = a->group});
    if (a->stacked) din[0] = weft_reshape(din[0], x->ndim, x->shape);
}

/* One rank: the operand, in a shape that is bound. */
static weft_value *simplify(weft_node *n) {
    const tensor_type *y = &n->out[0].type;
    if (!((const ranks_attrs *)n->attrs)->stacked) return simplify_one_rank(n);
    return n->graph->model->world == 1 ? weft_reshape(n->in[0], y->ndim, y->shape) : NULL;
}

const weft_op weft_op_gather_ranks = {
    .name = "gather_ranks",
    .summary = "the values of all ranks of a process group along axis 0",
    .torch = "torch.distributed.nn.functional.all_gather",
    .min_in = 1,
    OP_ATTRS(ranks_attrs, attrs),
    .precision = PRECISION_FOLLOWS,
    .infer = infer,
    .gradient = gradient,
    .simplify = simplify,
    .reference = reference_reshape,
    .samples = (const op_sample[]){{"f32[3,2]", .out = "f32[3,2]"},
                                   {"i64[5]", "group=\"0-1;2-3\"", .out = "i64[5]"},
                                   {"f32[3,2]", "stacked=1", .out = "f32[1,3,2]"},
                                   {"f32[]", "stacked=1", .out = "f32[1]"},
                                   {"f32[]", .error = "no axis that ranks share"},
                                   {"f32[2]", "group=\"0,0\"", .error = "a rank is named twice"},
                                   {0}},
};
