/* strategy.c - what a strategy does in a run: it sees the session once when that has opened, and the
 * feeds of each run. How gradients are summed is in the plan. */
#include "runtime/session/state.h"

#include <string.h>

/* "rank 1 of 2: cpu, mpi, strategy zero:stage=2" */
static void tell_rank(const weft_session *s) {
    if (s->comm)
        env_log(&s->env, "rank %d of %d: %s, %s, strategy %.150s", s->comm->rank, s->comm->world,
                s->device->name, s->comm->kind, s->plan->strategy.text);
}

static bool make_feeds(weft_session *s) {
    for (int i = 0; i < s->plan->n_programs; i++)
        if (s->programs[i].n_inputs > s->n_feeds) s->n_feeds = s->programs[i].n_inputs;
    s->feeds = arena_new_array(&s->arena, s->n_feeds, sizeof *s->feeds);
    return s->feeds != NULL;
}

/* The strategy's own setup of optimizers, if it has one. */
static weft_status set_up(weft_session *s, weft_error *error) {
    const weft_strategy *runs = &s->plan->strategy.runs;
    weft_error own = {0};
    if (runs->before_forward && !make_feeds(s)) return error_memory(error, "session");
    if (!runs->after_setup_optimizers || !plan_trains(s->plan)) return WEFT_OK;
    weft_status status = runs->after_setup_optimizers(runs->context, s, s->store, &own);
    if (!status) return WEFT_OK;
    return error_set(error, status, "strategy %s: %s", runs->name,
                     *own.text ? own.text : "after_setup_optimizers failed");
}

/* An error of one rank ends the opening on all. */
bool strategy_begin(weft_session *s, weft_error *error) {
    const weft_strategy *runs = &s->plan->strategy.runs;
    weft_error own = {0};
    tell_rank(s);
    if (!runs->before_forward && !runs->after_setup_optimizers) return true;
    if (!error) error = &own;
    return !comm_settle(s->comm, &s->env, "strategy", set_up(s, error), error);
}

/* Too many feeds are the run's error, for which it needs no list. */
weft_status strategy_before_forward(weft_session *s, const char *graph, const weft_feed **feeds, int n_feeds,
                                    weft_error *error) {
    const weft_strategy *runs = &s->plan->strategy.runs;
    weft_error own = {0};
    if (!runs->before_forward || n_feeds > s->n_feeds) return WEFT_OK;
    if (n_feeds) memcpy(s->feeds, *feeds, (size_t)n_feeds * sizeof *s->feeds);
    *feeds = s->feeds;
    weft_status status = runs->before_forward(runs->context, s, graph, s->feeds, n_feeds, &own);
    if (!status) return WEFT_OK;
    return error_set(error, status, "strategy %s: graph %s: %s", runs->name, graph,
                     *own.text ? own.text : "before_forward failed");
}

weft_comm *weft_session_group(const weft_session *s, const char *path) {
    if (!s || !s->comm || !path) return NULL;
    for (int i = 0; i < s->plan->n_subgraphs; i++) {
        const subgraph *g = &s->plan->subgraphs[i];
        if (strcmp(g->path, strcmp(path, "/") ? path : "") == 0) return s->groups[i] ? s->groups[i] : s->comm;
    }
    const weft_variable *v = variable_find(s->plan->model, path);
    if (!v || v->kind != VARIABLE_PARAMETER) return NULL;
    weft_comm *group = s->groups[v->subgraph];
    return group ? group : s->comm;
}
