/* collectives.c - ops over ranks (ops/structure/ranks.h) become nodes of the communication stream: a
 * copy of the operand, since collectives work in place, a start, and a wait that its readers read. The
 * new nodes take the op's place in the list, which is the same on all ranks, so that all ranks number
 * their collectives alike. Numbers that belong to a rank, like the place of its part, are constants of
 * these nodes. */
#include "runtime/passes/distribute/collectives.h"

#include "ops/kit/basic_attrs.h"
#include "ops/structure/collective.h"
#include "ops/structure/ranks.h"
#include "runtime/plan/value.h"

#include <string.h>

/* Declares that a result is in its operand's own memory; a variable's memory says so already. */
static weft_value *same_memory(weft_node *n) {
    if (!n) return NULL;
    if (!n->in[0]->variable) n->out[0].base = n->in[0];
    return &n->out[0];
}

/* Scratch is at least MEM_ALIGN bytes, so that result 1 is never empty. */
weft_value *collective_start(program *p, const weft_op *op, weft_value *buffer, const subgraph *group,
                             const char *path, bool is_gradient) {
    if (!buffer) return NULL;
    bool bf16 = is_gradient && group->ddp.bf16_wire;
    size_t bytes =
        weft_collective_scratch(collective_kind(op), buffer->type.dtype, bf16 ? WEFT_BF16 : (weft_dtype)0,
                                (size_t)type_elements(&buffer->type), group->n_ranks);
    collective_attrs a = {.path = path,
                          .scratch = (int64_t)(bytes ? bytes : MEM_ALIGN),
                          .group = group - p->plan->subgraphs,
                          .bf16 = bf16,
                          .unordered = is_gradient && p->plan->options.reduce == WEFT_REDUCE_FAST};
    p->n_collectives++; /* gets its number when the schedule is fixed */
    return same_memory(node_new(p->graph, op, 1, &buffer, &a));
}

/* A wait reads the buffer and the scratch, which keeps both alive until then. */
weft_value *collective_wait(weft_value *started) {
    if (!started) return NULL;
    weft_value *both[] = {started, &started->node->out[1]};
    return same_memory(node_new(started->node->graph, &weft_op_wait, 2, both, NULL));
}

/* ---- which ranks ---- */

/* The process groups that ops name follow the subgraphs and the world. */
static const subgraph *group_named(const weft_plan *plan, const char *text) {
    const subgraph *world = &plan->subgraphs[plan->n_subgraphs], *g = world;
    if (!text || !*text) return world;
    while (++g < plan->subgraphs + plan->n_groups)
        if (strcmp(g->ddp.process_group, text) == 0) return g;
    return world;
}

/* A pass's node names a bucket, or the scope of a subgraph or in one. */
static const subgraph *group_of(const weft_plan *plan, const ranks_attrs *a) {
    if (!a->path || !*a->path) return group_named(plan, a->group);
    const weft_variable *v = variable_find(plan->model, a->path);
    if (v && v->kind == VARIABLE_BUCKET) return &plan->subgraphs[v->subgraph];
    const subgraph *g = subgraph_of(plan, strcmp(a->path, plan->whole) ? a->path : "");
    return g ? g : group_named(plan, a->group);
}

/* ---- the nodes ---- */

static weft_value *copy_of(const weft_node *n) {
    return node_value(n->graph, &weft_op_reorder, 1, n->in, NULL);
}

/* The operand in this rank's part of a buffer for all. */
static weft_value *own_part(const weft_node *n, const subgraph *g) {
    bool stacked = ((const ranks_attrs *)n->attrs)->stacked;
    weft_value *x = stacked ? weft_unsqueeze(n->in[0], 0) : n->in[0];
    if (!x) return NULL;
    int64_t length = x->type.shape[0];
    pad_attrs around = {.before = length * g->rank, .after = length * (g->n_ranks - 1 - g->rank)};
    return node_value(n->graph, &weft_op_pad, 1, &x, &around);
}

static weft_value *collective(program *p, weft_node *n, const subgraph *g) {
    const ranks_attrs *a = n->attrs;
    const char *path = a->path && *a->path ? a->path : *n->scope ? n->scope : p->plan->whole;
    if (n->op == &weft_op_rank) return weft_constant(p->graph, WEFT_I64, 0, NULL, g->rank);
    if (n->op == &weft_op_world) return weft_constant(p->graph, WEFT_I64, 0, NULL, g->n_ranks);
    if (n->op == &weft_op_rank_rows) return rank_rows_value(n, g->rank);
    if (p->plan->options.world == 1)
        return a->stacked ? weft_reshape(n->in[0], n->out[0].type.ndim, n->out[0].type.shape) : n->in[0];
    const weft_op *op = n->op == &weft_op_sum_ranks       ? &weft_op_all_reduce
                        : n->op == &weft_op_gather_ranks  ? &weft_op_all_gather_values
                        : n->op == &weft_op_scatter_ranks ? &weft_op_reduce_scatter_values
                                                          : &weft_op_broadcast;
    weft_value *buffer = op == &weft_op_all_gather_values ? own_part(n, g) : copy_of(n);
    weft_value *y = collective_start(p, op, buffer, g, path, false);
    if (!y) return NULL;
    collective_attrs *of_start = y->node->attrs;
    of_start->root = a->root;
    if (!a->path || !*a->path)
        of_start->over = a->group && *a->group ? arena_copy(&p->graph->model->arena, a->group) : "world";
    y = collective_wait(y);
    int64_t length = n->out[0].type.shape[0];
    if (op == &weft_op_reduce_scatter_values) y = weft_slice(y, 0, length * g->rank, length * (g->rank + 1));
    return a->mean ? weft_scale(y, 1.0 / g->n_ranks) : y;
}

/* Readers of such an op are replaced on the way (mapped), which costs one walk for all of them. */
bool lower_collectives(program *p) {
    weft_graph *g = p->graph;
    bool is_any = false;
    graph_clear_mapped(g);
    for (weft_node *n = g->first, *next; n; n = next) {
        next = n->next;
        node_replace_mapped(n);
        if (!op_is_over_ranks(n->op)) continue;
        is_any = true;
        build_place at;
        build_begin(&at, g, n->scope, n);
        g->building_backward = n->is_backward;
        g->building_update = n->is_update;
        weft_value *whole = collective(p, n, group_of(p->plan, n->attrs));
        build_end(&at);
        if (!whole) return false;
        n->out[0].mapped = whole;
        node_remove(n);
    }
    graph_replace_mapped(g);
    return !is_any || graph_order_edges(g); /* what read a variable was replaced */
}
