/* guard.c - the part of the optimizer pass by which a bad step changes nothing (weft_compile_options.guard):
 *      flags = guard(losses...)            after the forward; where the step continues, this is all of it
 *      flags = wait(all_reduce(flags))     among the ranks of the world; overlaps the backward
 *      gate(flags)                         or gate(flags, norms of all gradients...)
 *      loss_mean = assign(guard_mean(flags, loss_mean))      for spikes
 * Edges put every update after the gate (runtime/passes/clean.c), and a session that finds a flag there skips
 * them (session/bad_step.c). So an update has no operand more, and the gate is one for every optimizer. */
#include "runtime/passes/distribute/collectives.h"
#include "runtime/passes/distribute/reduction.h"

#include "ops/kit/ops.h"
#include "ops/optimizer/update.h"

#include <string.h>

/* The mean of the loss that a call minimizes. Two calls of one graph have different optimizers. */
static weft_variable *mean_of(const program *p, const weft_node *minimize) {
    const char *optimizer = ((const minimize_attrs *)minimize->attrs)->name;
    for (int i = 0; i < p->plan->n_trainings; i++) {
        const training *t = &p->plan->trainings[i];
        if (strcmp(t->name, p->name) == 0 && strcmp(t->optimizer, optimizer) == 0) return t->loss_mean;
    }
    return NULL;
}

static guard_attrs attrs_of(const program *p) {
    guard_attrs a = {.factor = p->plan->options.guard_factor};
    for (const weft_node *n = p->graph->first; n; n = n->next) a.count += n->op == &weft_op_minimize;
    if (p->phase != PHASE_UPDATE) a.losses = a.count;
    return a;
}

/* The node that makes the last of the losses. */
static weft_node *last_loss(const program *p) {
    weft_graph *g = p->graph;
    weft_node *last = NULL;
    graph_number(g);
    for (const weft_node *n = g->first; n && p->phase != PHASE_UPDATE; n = n->next)
        if (n->op == &weft_op_minimize && (!last || n->in[0]->node->mark > last->mark)) last = n->in[0]->node;
    return last ? last : g->cursor;
}

/* Losses, then the means of their sizes. */
static weft_value **operands_of(const program *p, const guard_attrs *a) {
    weft_graph *g = p->graph;
    weft_value **in = scratch_array(g->model, 2 * a->losses, sizeof *in);
    int64_t i = 0;
    for (const weft_node *n = g->first; n && in && a->losses; n = n->next) {
        if (n->op != &weft_op_minimize) continue;
        weft_value *mean = a->factor > 0 ? variable_value(g, mean_of(p, n)) : NULL;
        in[i] = n->in[0];
        in[a->losses + i++] = mean;
    }
    return in;
}

/* The flags of this rank, made and sent off as soon as all losses are known. */
static weft_value *flags_start(program *p, const guard_attrs *a) {
    weft_graph *g = p->graph;
    weft_value *flags = NULL;
    build_place at;
    build_begin(&at, g, scope_intern(g->model, ""), last_loss(p));
    g->building_update = true;
    weft_value **in = operands_of(p, a);
    if (in) flags = node_value(g, &weft_op_guard, (int)(a->losses * (a->factor > 0 ? 2 : 1)), in, a);
    if (flags && program_ends_step(p) && p->plan->options.world > 1)
        flags = collective_start(p, &weft_op_all_reduce, flags, &p->plan->subgraphs[p->plan->n_subgraphs],
                                 GUARD_PATH, false);
    build_end(&at);
    return flags;
}

static bool means_move(program *p, const guard_attrs *a, weft_value *flags) {
    weft_graph *g = p->graph;
    int64_t i = 0, parts = (int64_t)p->accumulate * p->plan->options.world;
    for (const weft_node *n = g->first; n && a->factor > 0; n = n->next) {
        if (n->op != &weft_op_minimize) continue;
        weft_variable *mean = mean_of(p, n);
        weft_value *in[] = {flags, variable_value(g, mean)};
        weft_value *next =
            node_value(g, &weft_op_guard_mean, 2, in, &(guard_mean_attrs){a->count + i++, parts});
        if (!variable_assign(g, mean, next)) return false;
    }
    return true;
}

bool guard_begin(program *p, guarding *into) {
    *into = (guarding){.attrs = attrs_of(p)};
    if (!p->plan->options.guard || !into->attrs.count) return true;
    into->norms = scratch_array(p->graph->model, into->attrs.count + 1, sizeof *into->norms);
    if (!into->norms) return false;
    weft_value *flags = flags_start(p, &into->attrs);
    if (!flags || !program_ends_step(p)) return flags != NULL;
    if (p->plan->options.world > 1) flags = collective_wait(flags);
    into->norms[0] = flags;
    return flags && (p->plan->options.guard == WEFT_GUARD_GRAD || guard_end(p, into));
}

bool guard_norm(guarding *guard, weft_value *norm) {
    if (norm) guard->norms[++guard->n_norms] = norm;
    return norm != NULL;
}

bool guard_end(program *p, guarding *guard) {
    guard_attrs a = {.count = guard->attrs.count};
    if (!guard->norms || !program_ends_step(p)) return true;
    return node_new(p->graph, &weft_op_gate, 1 + guard->n_norms, guard->norms, &a) &&
           means_move(p, &guard->attrs, guard->norms[0]);
}
