/* sum_ranks.c - each sum_ranks node becomes a copy of its operand (sums work in place),
 * the start of an all_reduce on the communication stream, and a wait that its readers read. The new nodes
 * take its place in the list, which is the same on all ranks, so that all ranks number their collectives
 * alike. */
#include "runtime/passes/distribute/collectives.h"

#include "ops/structure/collective.h"
#include "ops/structure/sum_ranks.h"

/* Declares that a result is in its operand's own memory; a variable's memory says so already. */
static weft_value *same_memory(weft_node *n) {
    if (!n) return NULL;
    if (!n->in[0]->variable) n->out[0].base = n->in[0];
    return &n->out[0];
}

static weft_collective_kind kind_of(const weft_op *op) {
    return op == &weft_op_broadcast        ? WEFT_COLLECTIVE_BROADCAST
           : op == &weft_op_reduce_scatter ? WEFT_COLLECTIVE_REDUCE_SCATTER
                                           : WEFT_COLLECTIVE_ALL_REDUCE;
}

/* Scratch is at least MEM_ALIGN bytes, so that result 1 is never empty. */
weft_value *collective_start(program *p, const weft_op *op, weft_value *buffer, const subgraph *group,
                             const char *path, bool is_gradient) {
    if (!buffer) return NULL;
    bool bf16 = is_gradient && group->ddp.bf16_wire;
    size_t bytes = weft_collective_scratch(kind_of(op), buffer->type.dtype, bf16 ? WEFT_BF16 : (weft_dtype)0,
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

/* The copy, the sum over the subgraph's process group, and its wait; returns the sum. */
static weft_value *sum(program *p, weft_node *n) {
    const sum_ranks_attrs *a = n->attrs;
    const subgraph *group = &p->plan->subgraphs[a->group];
    weft_value *copy = node_value(p->graph, &weft_op_reorder, 1, n->in, NULL);
    return collective_wait(collective_start(p, &weft_op_all_reduce, copy, group, a->path, false));
}

/* Readers of a sum_ranks are replaced on the way (mapped), which costs one walk for all of them. */
bool lower_sum_ranks(program *p) {
    weft_graph *g = p->graph;
    graph_clear_mapped(g);
    for (weft_node *n = g->first, *next; n; n = next) {
        next = n->next;
        node_replace_mapped(n);
        if (n->op != &weft_op_sum_ranks) continue;
        build_place at;
        build_begin(&at, g, n->scope, n);
        g->building_backward = n->is_backward;
        g->building_update = n->is_update;
        weft_value *whole = sum(p, n);
        build_end(&at);
        if (!whole) return false;
        n->out[0].mapped = whole;
        node_remove(n);
    }
    graph_replace_mapped(g);
    return true;
}
