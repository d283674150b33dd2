/* gather_ranks.c - the values of all ranks of a process group, one after the other along axis 0:
 * x[n, ...] of each of w ranks becomes y[w n, ...], equal on all.
 *
 * Gradient: rank r's x is rows r n to (r + 1) n of y on every rank, so d/dx is the sum over all ranks of
 * these rows of d/dy: a reduce_scatter (scatter_ranks.c), whose gradient is this op again. */
#include "ops/structure/ranks.h"

static const op_attr attrs[] = {RANKS_GROUP_ROW, {0}};

static bool infer(op_call *c) {
    const int64_t most = (int64_t)1 << 46;
    int n;
    if (!infer_ranks_cut(c, &n)) return false;
    if (c->out[0].shape[0] > most / n)
        return op_fail(c, WEFT_SHAPE, "%s of %d ranks is too long", TYPE(op_in(c, 0)), n);
    c->out[0].shape[0] *= n;
    return true;
}

static void gradient(weft_node *n, weft_value *const *dout, const bool *wanted, weft_value **din) {
    if (wanted[0]) din[0] = node_value(n->graph, &weft_op_scatter_ranks, 1, dout, n->attrs);
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
    .simplify = simplify_one_rank,
    .reference = reference_copy,
    .samples = (const op_sample[]){{"f32[3,2]", .out = "f32[3,2]"},
                                   {"i64[5]", "group=\"0-1;2-3\"", .out = "i64[5]"},
                                   {"f32[]", .error = "no axis that ranks share"},
                                   {"f32[2]", "group=\"0,0\"", .error = "a rank is named twice"},
                                   {0}},
};
