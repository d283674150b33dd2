/* rank_states.c - notes state that makes a training of several ranks differ from one rank's: what a loss
 * reads and micro-batches renew, such as the vectors of spectral norm or a center of outputs. One rank renews
 * it once for each of its micro-batches, one after the other; of w ranks each renews its own by its own.
 * Running statistics of batch norm, which only an eval graph reads, are no such state. */
#include "runtime/passes/passes.h"

#include <stdio.h>
#include <string.h>

/* Whether a loss of the graph depends on what v holds. on: by node id. */
static bool loss_reads(const weft_graph *g, const weft_variable *v, unsigned char *on) {
    for (const weft_node *n = g->first; n; n = n->next) {
        on[n->id] = n->variable == v && !(n->op->flags & OP_WRITES);
        for (int i = 0; i < n->n_in; i++)
            if (n->in[i]) on[n->id] |= on[n->in[i]->node->id];
        if (n->op == &weft_op_minimize && on[n->id]) return true;
    }
    return false;
}

/* Whether what n assigns depends on the batch, or on random numbers. */
static bool is_of_batch(const weft_node *n, unsigned char *on) {
    for (const weft_node *k = n->graph->first; k != n; k = k->next) {
        on[k->id] = k->op == &weft_op_input || k->op->flags & OP_RANDOM;
        for (int i = 0; i < k->n_in; i++)
            if (k->in[i]) on[k->id] |= on[k->in[i]->node->id];
    }
    return on[n->in[0]->node->id];
}

/* The training graph of the flow whose loss reads what n assigns, or NULL. In another graph than
 * the reader's a state that no batch goes into is the same on all ranks, and renewed once a step. */
static const weft_graph *reader_of(const weft_plan *plan, const weft_node *n, unsigned char *on) {
    for (int i = 0; i < plan->n_flow; i++) {
        const weft_graph *g = graph_find(plan->source, plan->flow[i].graph);
        if (loss_reads(g, n->variable, on) && (g == n->graph || is_of_batch(n, on))) return g;
    }
    return NULL;
}

static size_t most_ids(const weft_model *m) {
    size_t most = 0;
    for (const weft_graph *g = m->graphs; g; g = g->next)
        if ((size_t)g->next_id > most) most = (size_t)g->next_id;
    return most + 1;
}

bool rank_states_note(weft_plan *plan) {
    enum { NAMED = 3 };
    char named[700] = "", more[40] = "", text[1000];
    int found = 0, world = plan->options.world;
    unsigned char *on = world > 1 ? arena_new_array(&plan->model->arena, most_ids(plan->source), 1) : NULL;
    if (world > 1 && !on) return model_fail(plan->model, NULL, WEFT_MEMORY, "compile: out of memory");
    for (int i = 0; world > 1 && i < plan->n_flow; i++)
        for (const weft_node *n = graph_find(plan->source, plan->flow[i].graph)->first; n; n = n->next) {
            const weft_graph *reader = n->op == &weft_op_assign ? reader_of(plan, n, on) : NULL;
            if (!reader || found++ >= NAMED) continue;
            size_t at = strlen(named);
            snprintf(named + at, sizeof named - at, "%s%.150s (read by %.60s)", at ? ", " : "",
                     n->variable->path, reader->name);
        }
    if (!found) return true;
    if (found > NAMED) snprintf(more, sizeof more, " and %d more", found - NAMED);
    snprintf(text, sizeof text,
             "differs from one rank: %s%s: each rank renews it by its own micro-batches, so %d ranks do not "
             "train to "
             "the bits of one",
             named, more, world);
    return plan_add_note(plan, text);
}
