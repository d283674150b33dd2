/* rank_states.c - notes what makes a training of several ranks differ from one rank's: ops over ranks,
 * which see a micro-batch of each rank; and state that a loss reads and micro-batches renew, such as the
 * vectors of spectral norm or a center of outputs. One rank renews it once for each of its
 * micro-batches, one after the other; of w ranks each renews its own by its own. Running statistics of
 * batch norm, which only an eval graph reads, are no such state. */
#include "runtime/passes/passes.h"

#include "graph/settings/flow.h"
#include "runtime/plan/value.h"

#include <stdio.h>
#include <string.h>

/* Arrays by node id and by variable->index: each graph is walked a few times, however many states it has. */
typedef struct reads {
    unsigned char *on;         /* of one graph: the node depends on the batch, or a loss on the node */
    const weft_graph **first;  /* the first graph of the flow whose loss reads the variable */
    const weft_graph **newest; /* the last one that was looked at */
    bool *is_named;
    bool is_together; /* the graph looked at last has ops over ranks */
} reads;

static void depend_on_batch(const weft_graph *g, unsigned char *on) {
    for (const weft_node *n = g->first; n; n = n->next) {
        on[n->id] = input_is_batch(n) || n->op->flags & OP_RANDOM;
        /* what all ranks have together is the same on all */
        for (int i = 0; i < n->n_in && !op_is_over_ranks(n->op); i++)
            if (n->in[i]) on[n->id] |= on[n->in[i]->node->id];
    }
}

/* From the losses to the front: operands come before their readers. A node without results makes nothing, and
 * has the id of the next one. */
static void losses_read(const weft_graph *g, reads *r) {
    memset(r->on, 0, (size_t)g->next_id + 1);
    for (const weft_node *n = g->last; n; n = n->prev) {
        bool is_on = n->op == &weft_op_minimize || (n->n_out && r->on[n->id]);
        for (int i = 0; is_on && i < n->n_in; i++)
            if (n->in[i]) r->on[n->in[i]->node->id] = 1;
        if (!is_on || !n->variable || n->op->flags & OP_WRITES) continue;
        if (!r->first[n->variable->index]) r->first[n->variable->index] = g;
        r->newest[n->variable->index] = g;
    }
}

/* The training graph of the flow whose loss reads what n, of the graph looked at last, assigns; or NULL. In
 * another graph than the reader's a state that no batch goes into is the same on all ranks, and renewed once
 * a step; beside ops over ranks too, where a micro-batch is one of all ranks. */
static const weft_graph *reader_of(const weft_node *n, const reads *r) {
    int v = n->variable->index;
    if (r->newest[v] == n->graph && (r->on[n->in[0]->node->id] || !r->is_together)) return n->graph;
    return r->on[n->in[0]->node->id] ? r->first[v] : NULL;
}

static int most_ids(const weft_model *m) {
    int most = 0;
    for (const weft_graph *g = m->graphs; g; g = g->next)
        if (g->next_id > most) most = g->next_id;
    return most + 1;
}

static bool reads_open(weft_plan *plan, reads *r) {
    int variables = plan->source->n_variables;
    r->on = scratch_array(plan->model, most_ids(plan->source), 1);
    r->first = scratch_array(plan->model, variables, sizeof *r->first);
    r->newest = scratch_array(plan->model, variables, sizeof *r->newest);
    r->is_named = scratch_array(plan->model, variables, sizeof *r->is_named);
    if (!r->on || !r->first || !r->newest || !r->is_named) return false;
    for (int i = 0; i < plan->n_flow; i++) losses_read(graph_find(plan->source, plan->flow[i].graph), r);
    return true;
}

enum { NAMED = 3 };
typedef struct found {
    char named[700];
    int count;
} found;

static void add_found(const weft_graph *g, reads *r, found *f) {
    losses_read(g, r);
    depend_on_batch(g, r->on);
    r->is_together = graph_over_ranks(g) != NULL;
    for (const weft_node *n = g->first; n; n = n->next) {
        const weft_graph *reader = n->op == &weft_op_assign ? reader_of(n, r) : NULL;
        if (!reader || r->is_named[n->variable->index]) continue; /* each use of a layer may renew it */
        r->is_named[n->variable->index] = true;
        if (f->count++ >= NAMED) continue;
        size_t at = strlen(f->named);
        snprintf(f->named + at, sizeof f->named - at, "%s%.150s (read by %.60s)", at ? ", " : "",
                 n->variable->path, reader->name);
    }
}

/* The first graph of the flow with an op over ranks: one note is enough, it says how the whole training
 * compares. */
static bool note_over_ranks(weft_plan *plan) {
    const weft_node *n = NULL;
    char text[600], where[200] = "";
    int world = plan->options.world, micros = plan->accumulate_most;
    for (int i = 0; i < plan->n_flow && !n; i++)
        n = graph_over_ranks(graph_find(plan->source, plan->flow[i].graph));
    if (!n) return true;
    if (n->file) snprintf(where, sizeof where, " (%.150s:%d)", n->file, n->line);
    if (world == 1)
        snprintf(text, sizeof text,
                 "%s in %.100s%s sees one micro-batch: a step of %d is not one of %d times the batch",
                 n->op->name, n->graph->name, where, micros, micros);
    else
        snprintf(
            text, sizeof text,
            "differs from one rank: %s in %.100s%s sees a micro-batch of each rank: %d ranks train as one "
            "rank with %d times the batch, not with %d micro-batches",
            n->op->name, n->graph->name, where, world, world, world);
    return plan_add_note(plan, text);
}

bool rank_states_note(weft_plan *plan) {
    char more[40] = "", text[1000];
    int world = plan->options.world;
    reads r;
    found f = {0};
    if ((world > 1 || plan->accumulate_most > 1) && !note_over_ranks(plan)) return false;
    if (world < 2) return true;
    if (!reads_open(plan, &r)) return false;
    for (int i = 0; i < plan->n_flow; i++) add_found(graph_find(plan->source, plan->flow[i].graph), &r, &f);
    if (!f.count) return true;
    if (f.count > NAMED) snprintf(more, sizeof more, " and %d more", f.count - NAMED);
    snprintf(text, sizeof text,
             "differs from one rank: %s%s: each rank renews it by its own micro-batches, so %d ranks do not "
             "train to the bits of one (weft_moving_mean and WEFT_SPECTRAL_NORM_IN_STEP keep state in step)",
             f.named, more, world);
    return plan_add_note(plan, text);
}
