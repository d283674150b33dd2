/* measure.c - how long nodes take: `view --profile` runs steps of the model's flow, on synthetic batches.
 * Nodes are run and waited for one by one, so they begin where the ones before them end. */
#include "tools/graphtool/view/view.h"

#include "runtime/session/state.h"
#include "tools/graphtool/training/workload.h"

#include <string.h>

enum { WARM_STEPS = 2, TIMED_STEPS = 5 };

/* Whether a program of the session is the one that the view shows. */
static bool is_shown(const view_graph *g, const weft_graph *of) {
    if (strcmp(g->name, of->name) != 0 || of->n_nodes > g->n_nodes) return false;
    for (const weft_node *n = of->first; n; n = n->next)
        if (g->nodes[n->order].step != n->order || g->nodes[n->order].kind != n->op) return false;
    return true;
}

/* Timed runs: those of the node that ran most often, as derived values are made when they are stale only. */
static double runs_of(const bound_program *r) {
    int64_t runs = 0;
    for (int i = 0; i < r->n_steps; i++)
        if (r->steps[i].runs > runs) runs = r->steps[i].runs;
    return (double)runs;
}

/* Means over the runs; nodes without work take no time. False: it did not run. */
static bool note_times(view_graph *g, const bound_program *r) {
    double now = 0, runs = runs_of(r);
    if (!runs) return false;
    for (int i = 0; i < r->n_steps; i++) {
        view_node *n = &g->nodes[r->steps[i].node->order];
        double us = r->steps[i].nanoseconds * 1e-3 / runs;
        n->begin_us = (int64_t)(now + 0.5);
        n->us = (int64_t)(now + us + 0.5) - n->begin_us;
        now += us;
    }
    g->is_measured = true;
    g->total_us = (int64_t)(now + 0.5);
    return true;
}

/* The plan that is measured has no guard, unless one is asked for: as the one that is shown. */
void view_measure(view_plan *v, weft_model *m, const options *o) {
    options own = *o;
    bool any = false;
    if (!own.guard) own.guard = "off";
    const workload w = workload_open(m, &own);
    for (int i = 0; i < WARM_STEPS; i++) workload_step(&w, NULL);
    workload_sync(&w);
    weft_session_set_profile(w.session, true);
    for (int i = 0; i < TIMED_STEPS; i++) workload_step(&w, NULL);
    workload_sync(&w);
    for (int i = 0; i < v->n_graphs; i++)
        for (int k = 0; k < w.plan->n_programs; k++)
            if (is_shown(&v->graphs[i], w.plan->programs[k].graph))
                any |= note_times(&v->graphs[i], &w.session->programs[k]);
    if (!any) tool_fail("view: --profile has no effect where the flow runs no graph of the page");
}
