/* flow_states.c - refuses a flow in which one graph reads a state that another one overwrites anew in each of
 * several micro-batches: it would see what the last micro-batch left, for all of its own. A state that is
 * renewed from what it was (running statistics, a queue, a moving average) has all of them in it. */
#include "graph/core/flow.h"

#include "runtime/passes/passes.h"

#include <stdlib.h>
#include <string.h>

/* What a value depends on. */
enum { ON_BATCH = 1, ON_STATE = 2 };

/* The nodes of a graph by id, which grows in the order of the list. */
typedef struct dependence {
    const weft_node **nodes;
    unsigned char *on; /* [count] */
    int count;
} dependence;

static int by_id(const void *id, const void *node) {
    int wanted = *(const int *)id, has = (*(const weft_node *const *)node)->id;
    return (wanted > has) - (wanted < has);
}

static unsigned of_value(const dependence *d, const weft_value *v) {
    const weft_node **at =
        v ? bsearch(&v->node->id, d->nodes, (size_t)d->count, sizeof *d->nodes, by_id) : NULL;
    return at ? d->on[at - d->nodes] : 0;
}

/* Whether the value that n assigns is of the batch alone, and not of what the state was. */
static bool overwrites(dependence *d, const weft_node *n) {
    for (int i = 0; i < d->count; i++) {
        const weft_node *k = d->nodes[i];
        bool draws = k->op == &weft_op_input || k->op->flags & OP_RANDOM;
        bool reads = k->variable == n->variable && !(k->op->flags & OP_WRITES);
        unsigned on = (draws ? ON_BATCH : 0) | (reads ? ON_STATE : 0);
        for (int operand = 0; operand < k->n_in; operand++) on |= of_value(d, k->in[operand]);
        d->on[i] = (unsigned char)on;
    }
    return of_value(d, n->in[0]) == ON_BATCH;
}

static bool reads(const weft_graph *g, const weft_variable *v) {
    for (const weft_node *n = g->first; n; n = n->next)
        if (n->variable == v && !(n->op->flags & OP_WRITES)) return true;
    return false;
}

/* The graph of another step that reads it; NULL: there is none. */
static const weft_graph *reader_of(const weft_plan *plan, const weft_graph *writer, const weft_variable *v) {
    for (int i = 0; i < plan->n_flow; i++) {
        const weft_graph *g = graph_find(plan->source, plan->flow[i].graph);
        if (g != writer && reads(g, v)) return g;
    }
    return NULL;
}

static bool list_nodes(weft_plan *plan, const weft_graph *g, dependence *d) {
    arena *memory = &plan->model->arena;
    size_t room = (size_t)graph_node_count(g) + 1;
    d->nodes = arena_new_array(memory, room, sizeof *d->nodes);
    d->on = arena_new_array(memory, room, sizeof *d->on);
    if (!d->nodes || !d->on) return model_fail(plan->model, NULL, WEFT_MEMORY, "compile: out of memory");
    for (const weft_node *n = g->first; n; n = n->next) d->nodes[d->count++] = n;
    return true;
}

static bool check_writer(weft_plan *plan, const weft_flow_step *s) {
    dependence d = {0};
    const weft_graph *g = graph_find(plan->source, s->graph);
    for (const weft_node *n = s->accumulate > 1 ? g->first : NULL; n; n = n->next) {
        const weft_graph *reader = n->op == &weft_op_assign ? reader_of(plan, g, n->variable) : NULL;
        if (!reader) continue;
        if (!d.nodes && !list_nodes(plan, g, &d)) return false;
        if (!overwrites(&d, n)) continue;
        return model_fail(
            plan->model, NULL, WEFT_ORDER,
            "compile: flow %s: graph %s overwrites %s in each of its %d micro-batches, and graph %s "
            "would see what the last one left: let accumulate be 1, or compute both in one graph",
            plan->flow_name, g->name, n->variable->path, s->accumulate, reader->name);
    }
    return true;
}

bool flow_check_states(weft_plan *plan) {
    for (int i = 0; i < plan->n_flow; i++)
        if (!check_writer(plan, &plan->flow[i])) return false;
    return true;
}
