/* flow.c - the flow that a plan is for: the model's, or each training graph once; and by it how many
 * micro-batches each graph has in a step. */
#include "graph/settings/flow.h"

#include "runtime/passes/passes.h"

#include <string.h>

static const weft_flow_step *step_of(const weft_plan *plan, const char *graph) {
    for (int i = 0; i < plan->n_flow; i++)
        if (strcmp(plan->flow[i].graph, graph) == 0) return &plan->flow[i];
    return NULL;
}

int accumulate_of(const weft_plan *plan, const char *graph) {
    const weft_flow_step *s = step_of(plan, graph);
    return s ? s->accumulate : plan->options.accumulate;
}

bool flow_has(const weft_plan *plan, const char *graph) {
    return step_of(plan, graph);
}

/* Micro-batches of a graph by any of its steps, else by the options. */
static int accumulate_said(const weft_plan *plan, const weft_graph *g) {
    for (int i = 0; i < plan->n_flow; i++)
        if (plan->flow[i].accumulate && strcmp(plan->flow[i].graph, g->name) == 0)
            return plan->flow[i].accumulate;
    return graph_accumulates(g) ? plan->options.accumulate : 1;
}

/* What the steps leave open: the number of micro-batches, and that a graph without inputs takes no batch. */
static void fill_in(weft_plan *plan) {
    for (int i = 0; i < plan->n_flow; i++) {
        weft_flow_step *s = &plan->flow[i];
        const weft_graph *g = graph_find(plan->source, s->graph);
        s->accumulate = accumulate_said(plan, g);
        if (!graph_takes_batches(g)) s->batch = WEFT_FLOW_SAME;
        if (s->accumulate > plan->accumulate_most) plan->accumulate_most = s->accumulate;
    }
}

/* Without a flow in the model: each training graph once, in order, from the first iteration on. */
static bool flow_make(weft_plan *plan) {
    const weft_model *m = plan->source;
    plan->flow_name = FLOW_DEFAULT;
    plan->flow = model_array(plan->model, weft_graph_count(m), sizeof *plan->flow);
    for (const weft_graph *g = m->graphs; plan->flow && g; g = g->next) {
        if (g->mode != WEFT_TRAIN) continue;
        weft_flow_step *s = &plan->flow[plan->n_flow++];
        *s = (weft_flow_step){arena_copy(&plan->model->arena, g->name), 1, 0, WEFT_FLOW_AUTO, 0, INT64_MAX};
        if (!s->graph) return false;
    }
    return plan->flow != NULL;
}

static bool flow_copy(weft_plan *plan, const flow_entry *e) {
    plan->flow_name = e->name;
    plan->n_flow = e->n;
    plan->flow = model_array(plan->model, e->n, sizeof *plan->flow);
    for (int i = 0; plan->flow && i < e->n; i++) plan->flow[i] = e->steps[i];
    return plan->flow != NULL;
}

/* Steps that run on the micro-batches of another: their number divides, so that any world gives each of
 * them the same ones. */
static bool check_shares(weft_plan *plan, int64_t iteration) {
    const weft_flow_step *taker = NULL;
    for (int i = 0; i < plan->n_flow; i++) {
        const weft_flow_step *s = &plan->flow[i];
        if (!flow_runs_in(s, iteration) || !graph_takes_batches(graph_find(plan->source, s->graph))) continue;
        if (flow_batch(plan->flow, i, iteration) == WEFT_FLOW_NEXT) taker = s;
        if (taker && taker->accumulate % s->accumulate == 0) continue;
        if (!taker)
            return model_fail(plan->model, NULL, WEFT_ARGUMENT,
                              "compile: flow %s: %s runs on the batches of the step before it, but no step "
                              "before it in iteration %jd takes any",
                              plan->flow_name, s->graph, iteration);
        return model_fail(
            plan->model, NULL, WEFT_ARGUMENT,
            "compile: flow %s: %s runs on the batches of %s, of whose %d micro-batches it cannot "
            "take %d evenly: let its accumulate divide %d, or say batch=next",
            plan->flow_name, s->graph, taker->graph, taker->accumulate, s->accumulate, taker->accumulate);
    }
    return true;
}

static bool check_flow(weft_plan *plan) {
    for (int64_t i = 0; i < INT64_MAX; i = flow_change(plan->n_flow, plan->flow, i))
        if (!check_shares(plan, i)) return false;
    return flow_check_states(plan);
}

/* The pass. The names have been checked (options.c). */
bool flow_choose(weft_plan *plan) {
    const char *name = plan->options.flow ? plan->options.flow : FLOW_DEFAULT;
    const flow_entry *e = flow_find(plan->model, name);
    if (!(e ? flow_copy(plan, e) : flow_make(plan))) return false;
    plan->accumulate_most = plan->options.accumulate;
    fill_in(plan);
    /* a plan of one graph that names no flow runs none: an evaluation takes no micro-batches of it */
    return (plan->options.graph && !plan->options.flow) || check_flow(plan);
}
