/* programs.c - the programs of a plan: each graph once for each phase of a step, as a private copy that the
 * later passes change. */
#include "runtime/passes/passes.h"

#include "graph/settings/minimize.h"
#include "runtime/plan/value.h"

#include <stdio.h>
#include <string.h>

enum { MOST_PHASES = 4 /* of a graph */ };

/* list[MOST_PHASES] receives the phases of a graph; returns how many. */
static int phases_of(const weft_plan *plan, const weft_graph *g, program_phase *list) {
    bool adds = accumulate_of(plan, g->name) > 1, is_manual = plan->options.manual;
    int n = 0;
    list[0] = PHASE_WHOLE;
    if ((!adds && !is_manual) || !graph_trains(g)) return 1;
    list[n++] = PHASE_FIRST;
    if (adds) list[n++] = PHASE_ADD;
    list[n++] = is_manual ? PHASE_UPDATE : PHASE_LAST;
    if (is_manual) list[n++] = PHASE_LOSS;
    return n;
}

static bool is_output(const weft_value *v) {
    for (const graph_output *o = v->node->graph->outputs; o; o = o->next)
        if (o->value == v) return true;
    return false;
}

/* What is minimized can be fetched, too: a loss that is not an output becomes "loss", or, where the graph has
 * an output of this name, "loss_2" ...; but what a moving mean minimizes is 0. */
static void show_losses(weft_graph *g) {
    char name[16] = "loss";
    int number = 1;
    for (const weft_node *n = g->first; n; n = n->next) {
        if (n->op != &weft_op_minimize || is_output(n->in[0]) || minimize_follows(n)) continue;
        while (table_find(&g->by_name, name)) snprintf(name, sizeof name, "loss_%d", ++number);
        weft_output(n->in[0], name);
    }
}

/* A moving mean that is frozen stays as it is, and the loss alone needs no gradients but those that the model
 * itself asks for. */
static void forget_minimizes(weft_graph *g, bool all) {
    for (weft_node *n = g->first, *next; n; n = next) {
        next = n->next;
        if (n->op == &weft_op_minimize && (all || minimize_is_still(n))) node_remove(n);
    }
}

/* "gather_ranks (clip.c:31)" */
static const char *place_of(weft_model *m, const weft_node *n) {
    return n->file ? arena_printf(&m->arena, "%s (%s:%d)", n->op->name, n->file, n->line)
                   : arena_copy(&m->arena, n->op->name);
}

/* Replays the builder calls of the source at the plan's batch size; phases are told apart by the graph's
 * suffix. */
static bool make(weft_plan *plan, const weft_graph *source, program_phase phase) {
    static const char *const suffix[] = {"", ".first", ".add", ".last", ".update", ".loss"};
    char name[240];
    program *p = &plan->programs[plan->n_programs++];
    snprintf(name, sizeof name, "%.200s%s", source->name, suffix[phase]);
    int accumulate = graph_trains(source) ? accumulate_of(plan, source->name) : 1;
    *p = (program){.plan = plan, .source = source, .phase = phase, .accumulate = accumulate};
    p->name = arena_copy(&plan->model->arena, source->name);
    p->graph = graph_replay(source, plan->model, name);
    if (!p->name || !p->graph) return false;
    const weft_node *n = graph_over_ranks(source);
    if (n && !(p->over_ranks = place_of(plan->model, n))) return false;
    show_losses(p->graph);
    forget_minimizes(p->graph, phase == PHASE_LOSS);
    return true;
}

/* With options.graph or options.flow only what they name is compiled. */
static bool is_compiled(const weft_plan *plan, const weft_graph *g) {
    if (plan->options.graph && strcmp(plan->options.graph, g->name)) return false;
    return !plan->options.flow || flow_has(plan, g->name);
}

bool programs_make(weft_plan *plan) {
    int count = MOST_PHASES * weft_graph_count(plan->source);
    plan->programs = model_array(plan->model, count, sizeof *plan->programs);
    if (!plan->programs) return false;
    for (const weft_graph *g = plan->source->graphs; g; g = g->next) {
        program_phase phases[MOST_PHASES];
        if (!is_compiled(plan, g)) continue;
        int n = phases_of(plan, g, phases);
        for (int i = 0; i < n; i++)
            if (!make(plan, g, phases[i])) return false;
    }
    return true;
}
