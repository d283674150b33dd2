/* flow_states.c - refuses a flow in which one graph reads a state that another one overwrites in each of
 * several micro-batches: it would see what the last micro-batch left, for all of its own. A state that is
 * renewed from what it was (running statistics, a queue, a moving average) has all of them in it. */

#include "runtime/passes/passes.h"

/* What a value depends on. */
enum { ON_BATCH = 1, ON_STATE = 2 };

/* Whether the value that n assigns is of the batch alone, and not of what the state was. on: by node id. */
static bool overwrites(const weft_node *n, unsigned char *on) {
    for (const weft_node *k = n->graph->first; k != n; k = k->next) {
        bool draws = k->op == &weft_op_input || k->op->flags & OP_RANDOM;
        bool reads = k->variable == n->variable && !(k->op->flags & OP_WRITES);
        on[k->id] = (unsigned char)((draws ? ON_BATCH : 0) | (reads ? ON_STATE : 0));
        for (int i = 0; i < k->n_in; i++)
            if (k->in[i]) on[k->id] |= on[k->in[i]->node->id];
    }
    return on[n->in[0]->node->id] == ON_BATCH;
}

/* The graph of another step that reads it; NULL: there is none. */
static const weft_graph *reader_of(const weft_plan *plan, const weft_graph *writer, const weft_variable *v) {
    for (int i = 0; i < plan->n_flow; i++) {
        const weft_graph *g = graph_find(plan->source, plan->flow[i].graph);
        if (g != writer && graph_reads(g, v)) return g;
    }
    return NULL;
}

static bool check_writer(weft_plan *plan, const weft_flow_step *s) {
    const weft_graph *g = graph_find(plan->source, s->graph);
    if (s->accumulate <= 1) return true;
    unsigned char *on = scratch_array(plan->model, g->next_id + 1, 1);
    if (!on) return false;
    for (const weft_node *n = g->first; n; n = n->next) {
        const weft_graph *reader = n->op == &weft_op_assign ? reader_of(plan, g, n->variable) : NULL;
        if (!reader || !overwrites(n, on)) continue;
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
