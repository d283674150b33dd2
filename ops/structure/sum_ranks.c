/* sum_ranks.c - the sum, or the mean, of a value over the ranks of a process group. Users build it by
 * weft_all_reduce; passes make it for statistics that ranks share (runtime/passes/distribute/sync_norm.c) and
 * for the sums of a strategy (sums.c there).
 *
 * Gradient: y on every rank is the sum of all x, and the ranks together minimize the sum of their losses.
 * So d/dx on each rank is the sum of all ranks' d/dy. With one rank the sum is the operand, which is what
 * the reference kernel computes. */
#include "ops/structure/ranks.h"

static const op_attr attrs[] = {
    RANKS_GROUP_ROW,
    {"path", ATTR_STRING, offsetof(ranks_attrs, path), .by_passes = true},
    {"mean", ATTR_BOOL, offsetof(ranks_attrs, mean)},
    {0},
};

static void gradient(weft_node *n, weft_value *const *dout, const bool *wanted, weft_value **din) {
    if (wanted[0]) din[0] = node_value(n->graph, &weft_op_sum_ranks, 1, dout, n->attrs);
}

const weft_op weft_op_sum_ranks = {
    .name = "sum_ranks",
    .summary = "sum over the ranks of a process group",
    .torch = "torch.distributed.nn.functional.all_reduce",
    .min_in = 1,
    OP_ATTRS(ranks_attrs, attrs),
    .infer = infer_ranks_sum,
    .gradient = gradient,
    .simplify = simplify_one_rank,
    .reference = reference_copy,
    .samples = (const op_sample[]){{"f32[5]", .out = "f32[5]"},
                                   {"f32[]", "group=\"0-1;2\" mean=1", .out = "f32[]"},
                                   {"i64[5]", .error = "must be floating point"},
                                   {"f16[5]", .error = "ranks do not add f16"},
                                   {"f32[5]", "group=\"0-\"", .error = "group '0-': a group is"},
                                   {0}},
};
