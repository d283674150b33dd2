/* sum_ranks.c - the sum of a small tensor over the ranks of a process group: statistics that all ranks
 * share. Passes make it for the mathematics (runtime/passes/distribute/sync_norm.c), and strategies for
 * the sums of their buckets (sums.c there); later it becomes a collective (sum_ranks.c there).
 * Until then it is an op without effects, which is merged and dropped by the same rules on all ranks,
 * since their graphs are the same.
 *
 * Gradient: y on every rank is the sum of all x, and the ranks together minimize the sum of their losses.
 * So d/dx on each rank is the sum of all ranks' d/dy. With one rank the sum is the operand, which is what
 * the reference kernel computes. */
#include "ops/structure/sum_ranks.h"

#include "weft/strategy.h"

static const op_attr attrs[] = {
    {"path", ATTR_STRING, offsetof(sum_ranks_attrs, path)},
    {"group", ATTR_INT, offsetof(sum_ranks_attrs, group), 0, INT32_MAX},
    {0},
};

static void gradient(weft_node *n, weft_value *const *dout, const bool *wanted, weft_value **din) {
    if (wanted[0]) din[0] = node_value(n->graph, &weft_op_sum_ranks, 1, dout, n->attrs);
}

const weft_op weft_op_sum_ranks = {
    .name = "sum_ranks",
    .summary = "sum over the ranks of a process group",
    .min_in = 1,
    /* Only passes make it; model.bin cannot hold it. */
    .flags = OP_COMPILER,
    OP_ATTRS(sum_ranks_attrs, attrs),
    .infer = infer_same,
    .gradient = gradient,
    .reference = reference_copy,
    .samples = (const op_sample[]){{"f32[5]", "path=\"net/bn\"", .out = "f32[5]"},
                                   {"f32[]", "path=\"net/bn\" group=2", .out = "f32[]"},
                                   {"i64[5]", "path=\"net/bn\"", .error = "must be floating point"},
                                   {0}},
};

/* The pass sums gives it the bucket and the group. */
weft_value *weft_sum_ranks(weft_value *x) {
    weft_graph *g = x ? x->node->graph : NULL;
    if (!g || g->sums_ranks)
        return g ? node_value(g, &weft_op_sum_ranks, 1, &x, &(sum_ranks_attrs){0}) : NULL;
    return model_fail(g->model, g, WEFT_ORDER,
                      "sum_ranks: only weft_distribution.gradient may call it, for the gradient of a bucket");
}
