/* ranks.c - what ops over ranks share, and their builders. */
#include "ops/structure/ranks.h"

#include "graph/settings/ddp.h"
#include "weft/collectives.h"

int ranks_in(const weft_model *m, const char *group, bool alike, const char **why) {
    if (m->is_twin) return m->world; /* of any group: it is apart from a batch */
    return m->world == 1 ? 1 : process_group_size(group, m->world, m->rank, alike, why);
}

int ranks_of_call(const op_call *c, bool alike) {
    const ranks_attrs *a = c->attrs;
    const weft_model *m = c->graph->model;
    const char *why = NULL;
    weft_status status = process_group_check(&m->env, a->group, &why);
    c->graph->model->names_ranks = true;
    int n = status ? 0 : ranks_in(m, a->group, alike, &why);
    if (!why) return n;
    op_fail(c, status ? status : WEFT_ARGUMENT, "group '%s': %s", SHOW(a->group), why);
    return 0;
}

bool infer_ranks_sum(op_call *c) {
    if (!op_want_float(c, 0)) return false;
    if (op_in(c, 0)->dtype == WEFT_F16) return op_fail(c, WEFT_TYPE, "ranks do not add f16: cast it to f32");
    return ranks_of_call(c, false) > 0;
}

bool infer_ranks_cut(op_call *c, int *n) {
    if (!op_in(c, 0)->ndim) return op_fail(c, WEFT_SHAPE, "the operand has no axis that ranks share");
    *n = ranks_of_call(c, true);
    c->graph->model->needs_world |= *n > 1;
    return *n > 0;
}

weft_value *simplify_one_rank(weft_node *n) {
    return n->graph->model->world == 1 ? n->in[0] : NULL;
}

/* ---- builders ---- */

static weft_value *fail_ranks(const weft_value *x, const char *builder, const char *why) {
    weft_graph *g = x->node->graph;
    return model_fail(g->model, g, WEFT_ARGUMENT, "%s: %s", builder, why);
}

/* A node of x, whose axis becomes its first one and takes its place again. */
static weft_value *along(weft_value *x, const weft_op *op, int axis, const ranks_attrs *a) {
    int64_t at = axis, to_front[WEFT_MAX_NDIM], back[WEFT_MAX_NDIM];
    int ndim = x->type.ndim;
    if (!axis_resolve(&at, ndim)) return fail_ranks(x, op->name, "there is no such axis");
    for (int i = 0; i < ndim; i++) {
        to_front[i] = i == 0 ? at : i - (i <= at);
        back[i] = i == at ? 0 : i + (i < at);
    }
    weft_value *y =
        node_value(x->node->graph, op, 1, (weft_value *[]){at ? weft_permute(x, to_front) : x}, a);
    return at ? weft_permute(y, back) : y;
}

/* Values of all ranks along a new first axis, over which `how` reduces them. */
static weft_value *reduce_gathered(weft_value *x, weft_over_ranks how, const ranks_attrs *a) {
    const ranks_attrs stacked = {.group = a->group, .stacked = true};
    weft_value *all = node_value(x->node->graph, &weft_op_gather_ranks, 1, &x, &stacked);
    int64_t axis = 0;
    weft_value *y = how == WEFT_RANKS_MAX   ? weft_amax(all, 1, &axis, false)
                    : how == WEFT_RANKS_MIN ? weft_amin(all, 1, &axis, false)
                                            : weft_sum(all, 1, &axis, false);
    return y && y->type.dtype != x->type.dtype ? weft_cast(y, x->type.dtype) : y;
}

/* Ranks add f16 in f32. */
static weft_value *sum_of(weft_value *x, const weft_op *op, int axis, const ranks_attrs *a) {
    bool is_half = x->type.dtype == WEFT_F16;
    weft_value *own = is_half ? weft_cast(x, WEFT_F32) : x, *y = NULL;
    if (own && axis < 0) y = node_value(own->node->graph, op, 1, &own, a);
    if (own && axis >= 0) y = along(own, op, axis, a);
    return is_half && y ? weft_cast(y, WEFT_F16) : y;
}

weft_value *weft_all_reduce(weft_value *x, weft_over_ranks how, const char *group) {
    if (!x) return NULL;
    const ranks_attrs a = {.group = group, .mean = how == WEFT_RANKS_MEAN};
    if ((unsigned)how > WEFT_RANKS_MIN) return fail_ranks(x, "all_reduce", "no such weft_over_ranks");
    bool adds = how <= WEFT_RANKS_MEAN, is_whole = !dtype_is_float(x->type.dtype);
    if (how == WEFT_RANKS_MEAN && is_whole)
        return fail_ranks(x, "all_reduce", "integers have no mean: cast them to f32");
    return adds && !is_whole ? sum_of(x, &weft_op_sum_ranks, -1, &a) : reduce_gathered(x, how, &a);
}

weft_value *weft_all_gather(weft_value *x, int axis, const char *group) {
    if (x && !x->type.ndim && (axis == 0 || axis == -1)) x = weft_unsqueeze(x, 0);
    return x ? along(x, &weft_op_gather_ranks, axis, &(ranks_attrs){.group = group}) : NULL;
}

weft_value *weft_reduce_scatter(weft_value *x, int axis, weft_over_ranks how, const char *group) {
    if (!x) return NULL;
    int64_t at = axis;
    if (how != WEFT_RANKS_SUM && how != WEFT_RANKS_MEAN)
        return fail_ranks(x, "reduce_scatter", "it takes sums and means: WEFT_RANKS_SUM, WEFT_RANKS_MEAN");
    if (!axis_resolve(&at, x->type.ndim)) return fail_ranks(x, "reduce_scatter", "there is no such axis");
    return sum_of(x, &weft_op_scatter_ranks, (int)at,
                  &(ranks_attrs){.group = group, .mean = how == WEFT_RANKS_MEAN});
}

weft_value *weft_broadcast(weft_value *x, int root, const char *group) {
    return op_value(&weft_op_broadcast_ranks, 1, &x, &(ranks_attrs){.group = group, .root = root});
}

weft_value *weft_rank(weft_graph *g, const char *group) {
    return node_value(g, &weft_op_rank, 0, NULL, &(ranks_attrs){.group = group});
}

weft_value *weft_rank_rows(weft_value *x, const char *group) {
    return op_value(&weft_op_rank_rows, 1, &x, &(ranks_attrs){.group = group});
}

weft_value *weft_world(weft_graph *g, const char *group) {
    return node_value(g, &weft_op_world, 0, NULL, &(ranks_attrs){.group = group});
}
