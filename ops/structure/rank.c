/* rank.c - the place of this rank in its process group, the number of its ranks, and the places of this
 * rank's rows among those of all: numbers that the compiler knows. `world` is the same on all ranks, and
 * is a constant when the plan is simplified. The others are not: if they were, one rank could merge or
 * drop a collective that another keeps. So they stay ops until collectives are starts and waits
 * (runtime/passes/distribute/collectives.c). */
#include "ops/structure/ranks.h"

#include "ops/shape/arange.h"

static const op_attr attrs[] = {RANKS_GROUP_ROW, {0}};

static bool infer(op_call *c) {
    c->n_out = 1;
    c->out[0] = type_scalar(WEFT_I64);
    return ranks_of_call(c, c->op == &weft_op_world) > 0;
}

static weft_value *world_simplify(weft_node *n) {
    const char *why = NULL, *group = ((const ranks_attrs *)n->attrs)->group;
    return weft_constant(n->graph, WEFT_I64, 0, NULL, ranks_in(n->graph->model, group, true, &why));
}

/* One rank alone: of a larger world they are constants. */
static weft_status rank_reference(const kernel_call *c) {
    element_set_int(&c->out[0], NULL, 0);
    return WEFT_OK;
}

static weft_status world_reference(const kernel_call *c) {
    element_set_int(&c->out[0], NULL, 1);
    return WEFT_OK;
}

static const op_sample samples[] = {{"", .out = "i64[]"},
                                    {"", "group=\"0-1;2-3\"", .out = "i64[]"},
                                    {"", "group=\"x\"", .error = "group 'x': a group is"},
                                    {0}};

const weft_op weft_op_rank = {
    .name = "rank",
    .summary = "the place of this rank in its process group",
    .torch = "torch.distributed.get_rank",
    .flags = OP_NO_GRADIENT,
    OP_ATTRS(ranks_attrs, attrs),
    .infer = infer,
    .reference = rank_reference,
    .samples = samples,
};

/* Of rank 0: row i is i. */
static weft_status rows_reference(const kernel_call *c) {
    for (int64_t i = 0; i < c->out[0].type.shape[0]; i++) element_set_int(&c->out[0], &i, i);
    return WEFT_OK;
}

static bool rows_infer(op_call *c) {
    int n;
    if (!infer_ranks_cut(c, &n)) return false;
    c->out[0] = type_of(WEFT_I64, 1, op_in(c, 0)->shape);
    return true;
}

weft_value *rank_rows_value(weft_node *n, int rank) {
    int64_t length = n->out[0].type.shape[0];
    arange_attrs a = {.dtype = WEFT_I64, .shape = {1, {length}}, .begin = (double)(rank * length), .step = 1};
    return node_value(n->graph, &weft_op_arange, 0, NULL, &a);
}

static weft_value *rows_simplify(weft_node *n) {
    return n->graph->model->world == 1 ? rank_rows_value(n, 0) : NULL;
}

const weft_op weft_op_rank_rows = {
    .name = "rank_rows",
    .summary = "the places of this rank's rows among those of its process group",
    .min_in = 1,
    .flags = OP_NO_GRADIENT,
    OP_ATTRS(ranks_attrs, attrs),
    .infer = rows_infer,
    .simplify = rows_simplify,
    .reference = rows_reference,
    .samples = (const op_sample[]){{"f32[5,2]", .out = "i64[5]"},
                                   {"i32[3]", "group=\"0-1;2-3\"", .out = "i64[3]"},
                                   {"f32[]", .error = "no axis that ranks share"},
                                   {0}},
};

const weft_op weft_op_world = {
    .name = "world",
    .summary = "the number of ranks of its process group",
    .torch = "torch.distributed.get_world_size",
    .flags = OP_NO_GRADIENT,
    OP_ATTRS(ranks_attrs, attrs),
    .infer = infer,
    .simplify = world_simplify,
    .reference = world_reference,
    .samples = samples,
};
