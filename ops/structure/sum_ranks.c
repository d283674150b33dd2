/* sum_ranks.c - the sum of a small tensor over the ranks of a process group: statistics that all ranks share. Passes
 * make it where the mathematics are (runtime/passes/distribute/sync_norm.c) and turn it into collectives once gradients are built
 * (runtime/passes/distribute/collectives.c); until then it is an op like any other, without effects, merged and dropped by the same
 * rules on all ranks, as their graphs are the same.
 *
 * Gradient: y on every rank is the sum of all x, and what is minimized is the sum of all ranks' losses, so d/dx on each
 * rank is the sum of all ranks' d/dy. One rank alone is its own sum, which is what the reference kernel computes.
 */
#include "ops/structure/sum_ranks.h"

static const op_attr attrs[] = {
    {"path", ATTR_STRING, offsetof(sum_ranks_attrs, path), 0, 0},
    {"group", ATTR_INT, offsetof(sum_ranks_attrs, group), 0, INT32_MAX},
    {0},
};

static void gradient(weft_node *n, weft_value *const *dout, const bool *wanted, weft_value **din) {
    if (wanted[0]) din[0] = node_value(n->graph, &weft_op_sum_ranks, 1, dout, n->attrs);
}

static weft_status reference(const kernel_call *c) {
    int64_t at[WEFT_MAX_NDIM] = {0};
    do element_copy(&c->out[0], at, &c->in[0], at);
    while (index_next(&c->out[0].type, at));
    return WEFT_OK;
}

const weft_op weft_op_sum_ranks = {
    .name = "sum_ranks",
    .summary = "sum over the ranks of a process group",
    .min_in = 1,
    .max_in = 1,
    .flags = OP_COMPILER,
    .attrs_bytes = sizeof(sum_ranks_attrs),
    .attrs = attrs,
    .infer = infer_same,
    .gradient = gradient,
    .reference = reference,
    .samples = (const op_sample[]){{"f32[5]", "path=\"net/bn\"", .out = "f32[5]"},
                                   {"f32[]", "path=\"net/bn\" group=2", .out = "f32[]"},
                                   {"i64[5]", "path=\"net/bn\"", .error = "must be floating point"},
                                   {0}},
};
