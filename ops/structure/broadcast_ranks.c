/* broadcast_ranks.c - the value of one rank of a process group, on all of them.
 *
 * Gradient: the root's x is y on every rank, so its d/dx is the sum of all d/dy; what the others gave reaches
 * nothing, and theirs is 0. */
#include "ops/structure/ranks.h"

static const op_attr attrs[] = {
    RANKS_GROUP_ROW, {"root", ATTR_INT, offsetof(ranks_attrs, root), 0, INT32_MAX}, {0}};

static bool infer(op_call *c) {
    const ranks_attrs *a = c->attrs;
    int n = ranks_of_call(c, true);
    if (n && c->graph->model->world > 1 && a->root >= n)
        return op_fail(c, WEFT_ARGUMENT, "root %jd is not a place in a group of %d ranks", a->root, n);
    return n > 0;
}

static void gradient(weft_node *n, weft_value *const *dout, const bool *wanted, weft_value **din) {
    const ranks_attrs *a = n->attrs;
    const ranks_attrs group = {.group = a->group};
    if (!wanted[0]) return;
    weft_value *sum = node_value(n->graph, &weft_op_sum_ranks, 1, dout, &group);
    weft_value *rank = node_value(n->graph, &weft_op_rank, 0, NULL, &group);
    weft_value *root = weft_constant(n->graph, WEFT_I64, 0, NULL, (double)a->root);
    din[0] = weft_where(weft_equal(rank, root), sum, zeros_like(sum));
}

const weft_op weft_op_broadcast_ranks = {
    .name = "broadcast_ranks",
    .summary = "the value of one rank of a process group",
    .torch = "torch.distributed.nn.functional.broadcast",
    .min_in = 1,
    OP_ATTRS(ranks_attrs, attrs),
    .precision = PRECISION_FOLLOWS,
    .infer = infer,
    .gradient = gradient,
    .simplify = simplify_one_rank,
    .reference = reference_copy,
    .samples = (const op_sample[]){{"f32[4,2]", .out = "f32[4,2]"},
                                   {"i32[4]", "group=\"0-1;2-3\" root=1", .out = "i32[4]"},
                                   {"f32[4]", "root=-1", .error = "root"},
                                   {0}},
};
