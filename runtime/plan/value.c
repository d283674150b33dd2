/* value.c - answers from the structure of nodes and values alone; see value.h. */
#include "runtime/plan/value.h"

#include "ops/structure/collective.h"

/* A view without a base was made a copy, which is work. */
bool node_is_silent(const weft_node *n) {
    if (n->op == &weft_op_input || n->op == &weft_op_constant_tensor) return true;
    if (n->op->flags & OP_IS_VARIABLE) return !(n->op->flags & OP_WRITES);
    return n->op->flags & OP_VIEW && n->out[0].base;
}

bool node_starts_collective(const weft_node *n) {
    return n->op->flags & OP_COMMUNICATES && n->op != &weft_op_wait;
}

weft_collective_kind collective_kind(const weft_op *op) {
    if (op == &weft_op_all_reduce) return WEFT_COLLECTIVE_ALL_REDUCE;
    if (op == &weft_op_broadcast) return WEFT_COLLECTIVE_BROADCAST;
    return op == &weft_op_reduce_scatter || op == &weft_op_reduce_scatter_values
               ? WEFT_COLLECTIVE_REDUCE_SCATTER
               : WEFT_COLLECTIVE_ALL_GATHER;
}

bool op_is_over_ranks(const weft_op *op) {
    static const weft_op *const ops[] = {
        &weft_op_sum_ranks, &weft_op_gather_ranks, &weft_op_scatter_ranks, &weft_op_broadcast_ranks,
        &weft_op_rank,      &weft_op_world,        &weft_op_rank_rows};
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
        if (op == ops[i]) return true;
    return false;
}

const weft_node *graph_over_ranks(const weft_graph *g) {
    const weft_node *n = g->first;
    while (n && !(op_is_over_ranks(n->op) && n->n_in)) n = n->next;
    return n;
}

const weft_variable *node_written(const weft_node *n) {
    if (n->op->flags & OP_WRITES) return n->variable;
    return n->op->writes ? n->in[0]->variable : NULL;
}

size_t type_room(const tensor_type *t) {
    return size_align(type_bytes(t), MEM_ALIGN);
}

const weft_value *node_value_at(const weft_node *n, int i) {
    return i < n->n_in ? n->in[i] : &n->out[i - n->n_in];
}

const weft_value *value_root(const weft_value *v) {
    while (v->base) v = v->base;
    return v;
}

bool value_is_arenas(const weft_value *v) {
    return !v->base && !v->variable && v->node->op != &weft_op_input;
}

/* Parameters and shards are parts of their bucket's memory. */
const weft_variable *value_owner(const weft_value *v) {
    const weft_variable *root = value_root(v)->variable;
    if (!root || variable_is_sessions(root)) return NULL;
    return variable_is_part(root) ? root->bucket : root;
}

int64_t value_offset(const weft_value *v) {
    int64_t bytes = 0;
    for (; v->base; v = v->base) bytes += v->base_offset * (int64_t)dtype_bytes(v->type.dtype);
    return bytes;
}

/* Strides are never negative, so the last element is the one with the largest index on every axis. */
size_t value_span(const weft_value *v) {
    int64_t last = 0;
    for (int i = 0; i < v->type.ndim; i++) last += (v->type.shape[i] - 1) * v->stride[i];
    return (size_t)(last + 1) * dtype_bytes(v->type.dtype);
}

/* Walks down from an update or a view, always to the operand that the schedule runs last, until it meets a
 * node with work that is not an update: the last gradient. Passes buckets and the sums over micro-batches on
 * the way. */
const weft_node *plan_ready_after(const weft_node *n) {
    while (n->is_update || node_is_silent(n)) {
        const weft_node *latest = NULL;
        for (int i = 0; i < n->n_in; i++) {
            const weft_node *from = n->in[i] ? n->in[i]->node : NULL;
            if (from && !(from->op->flags & OP_IS_VARIABLE) && (!latest || from->order > latest->order))
                latest = from;
        }
        if (!latest) return n;
        n = latest;
    }
    return n;
}
