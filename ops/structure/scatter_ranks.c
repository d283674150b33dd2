/* scatter_ranks.c - the sum, or the mean, of x over the ranks of a process group, of which each rank gets its
 * part of axis 0: x[w n, ...] becomes y[n, ...], on rank r rows r n to (r + 1) n of the sum.
 *
 * Gradient: row i of x on any rank reaches y on the rank that has row i, so d/dx is all ranks' d/dy, gathered
 * (gather_ranks.c). */
#include "ops/structure/ranks.h"

static const op_attr attrs[] = {RANKS_GROUP_ROW, {"mean", ATTR_BOOL, offsetof(ranks_attrs, mean)}, {0}};

static bool infer(op_call *c) {
    int n;
    if (!infer_ranks_sum(c) || !infer_ranks_cut(c, &n)) return false;
    if (c->out[0].shape[0] % n)
        return op_fail(c, WEFT_SHAPE, "axis 0 of %s cannot be cut into equal parts for %d ranks",
                       TYPE(op_in(c, 0)), n);
    c->out[0].shape[0] /= n;
    return true;
}

/* The plan's world is bound when gradients are made. */
static void gradient(weft_node *n, weft_value *const *dout, const bool *wanted, weft_value **din) {
    const ranks_attrs *a = n->attrs;
    double ranks = (double)n->in[0]->type.shape[0] / (double)n->out[0].type.shape[0];
    if (!wanted[0]) return;
    din[0] = node_value(n->graph, &weft_op_gather_ranks, 1, dout, &(ranks_attrs){.group = a->group});
    if (a->mean) din[0] = weft_scale(din[0], 1 / ranks);
}

const weft_op weft_op_scatter_ranks = {
    .name = "scatter_ranks",
    .summary = "this rank's part of the sum over the ranks of a process group",
    .torch = "torch.distributed.nn.functional.reduce_scatter",
    .min_in = 1,
    OP_ATTRS(ranks_attrs, attrs),
    .infer = infer,
    .gradient = gradient,
    .simplify = simplify_one_rank,
    .reference = reference_copy,
    .samples = (const op_sample[]){{"f32[4,2]", .out = "f32[4,2]"},
                                   {"f32[4]", "group=\"0-1;2-3\" mean=1", .out = "f32[4]"},
                                   {"i32[4]", .error = "must be floating point"},
                                   {"f32[]", .error = "no axis that ranks share"},
                                   {0}},
};
