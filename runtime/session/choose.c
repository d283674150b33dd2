/* choose.c - which program of a graph a run is, by the call and by the graph's place in its step: of several
 * micro-batches, and with options.manual of calls for gradients and update. */
#include "runtime/session/state.h"

#include <string.h>

bound_program *session_program(const weft_session *s, const char *graph, program_phase phase) {
    for (int i = 0; i < s->plan->n_programs; i++)
        if (s->programs[i].p->phase == phase && strcmp(s->programs[i].p->name, graph) == 0)
            return &s->programs[i];
    return NULL;
}

/* A program of the graph that adds to its gradient buffers; a step of one micro-batch has only the update. */
static bound_program *find_adding(const weft_session *s, const char *graph) {
    bound_program *add = session_program(s, graph, PHASE_ADD);
    return add ? add : session_program(s, graph, PHASE_UPDATE);
}

/* ---- gradients that runs leave to others ---- */

/* Versions only grow, so their sum does. */
uint64_t session_sums_version(const bound_program *add) {
    uint64_t sum = 0;
    for (int i = 0; i < add->n_sums; i++) sum += *add->sums[i];
    return sum;
}

/* Whether both programs add to one gradient buffer. */
static bool shares_sums(const bound_program *a, const bound_program *b) {
    for (int i = 0; i < a->n_sums; i++)
        for (int k = 0; k < b->n_sums; k++)
            if (a->sums[i] == b->sums[k]) return true;
    return false;
}

void session_forget_step(bound_program *head) {
    head->micro = 0;
    head->ends_next = false;
}

/* Graphs that train the same parameters add to the same buffers, so two open steps would lose gradients. And
 * another session may have used the buffers since. */
weft_status session_check_sums(weft_session *s, const chosen *c, weft_error *error) {
    const char *graph = c->head->p->name;
    for (int i = 0; c->head->micro == 0 && i < s->plan->n_programs; i++) {
        const bound_program *other = &s->programs[i];
        if (other->p->phase != PHASE_FIRST || other->micro == 0 ||
            !shares_sums(c->add, find_adding(s, other->p->name)))
            continue;
        return error_set(
            error, WEFT_ORDER,
            "run: graph %s cannot begin a step: graph %s trains the same parameters and has added "
            "%jd micro-batches of a step that must end first",
            graph, other->p->name, other->micro);
    }
    if (c->head->micro == 0 || session_sums_version(c->add) == c->head->sums_version) return WEFT_OK;
    session_forget_step(c->head);
    return error_set(error, WEFT_ORDER,
                     "run: the gradients that graph %s has accumulated are lost, because another session "
                     "used the store in the middle of its step: the step begins again",
                     graph);
}

/* ---- what a call may be for a graph ---- */

/* WEFT_OK, or why the graph cannot run without sync now. */
static weft_status check_no_sync(const chosen *c, weft_error *error) {
    const char *graph = c->head->p->name;
    int of = c->head->p->accumulate;
    if (!c->head->p->trains)
        return error_set(error, WEFT_ORDER, "run: graph %s adds no gradients: use weft_run", graph);
    if (of == 1)
        return error_set(
            error, WEFT_ORDER,
            "run: graph %s cannot run without sync: its plan has one micro-batch a step; compile "
            "with options.accumulate",
            graph);
    if (c->head->micro < of - 1) return WEFT_OK;
    return error_set(
        error, WEFT_ORDER,
        "run: graph %s cannot run without sync: micro-batch %d of %d ends the step (use weft_run, or "
        "compile with a larger options.accumulate)",
        graph, of, of);
}

/* WEFT_OK, or why this call is not allowed under options.manual, where gradients are added until an
 * update. */
static weft_status check_manual(const chosen *c, run_kind kind, weft_error *error) {
    const char *graph = c->head->p->name;
    int of = c->head->p->accumulate;
    if (kind == RUN_NO_SYNC)
        return error_set(error, WEFT_ORDER,
                         "run: graph %s has a manual plan, where weft_run adds gradients without sync: use "
                         "weft_run, and weft_run_update once they are all added",
                         graph);
    if (kind != RUN_WHOLE || c->head->micro < of) return WEFT_OK;
    return error_set(error, WEFT_ORDER,
                     "run: graph %s has added its %d micro-batch%s: call weft_run_update or "
                     "weft_zero_gradients, or compile with a larger options.accumulate",
                     graph, of, of > 1 ? "es" : "");
}

/* WEFT_OK, or why the graph's loss or update cannot be had alone. */
static weft_status check_alone(const chosen *c, bool is_manual, run_kind kind, weft_error *error) {
    const char *graph = c->head->p->name, *what = kind == RUN_LOSS ? "loss" : "update";
    if (is_manual || (kind != RUN_LOSS && kind != RUN_UPDATE)) return WEFT_OK;
    if (!c->head->p->trains)
        return error_set(error, WEFT_ORDER,
                         "run: graph %s trains nothing, so it has no %s alone: use weft_run", graph, what);
    return error_set(error, WEFT_ORDER,
                     "run: graph %s has no %s alone: its plan is not manual; compile with options.manual",
                     graph, what);
}

weft_status session_find(weft_session *s, const char *graph, chosen *c, weft_error *error) {
    bound_program *whole = session_program(s, graph, PHASE_WHOLE);
    *c = (chosen){.head = whole ? whole : session_program(s, graph, PHASE_FIRST)};
    if (!whole) c->add = find_adding(s, graph);
    c->now = c->head;
    return c->head ? WEFT_OK : error_set(error, WEFT_NAME, "run: the plan has no graph '%s'", SHOW(graph));
}

/* ---- the choice ---- */

/* With options.manual, every run adds. */
static bound_program *choose_manual(const weft_session *s, const chosen *c, run_kind kind) {
    if (kind == RUN_WHOLE) return c->head->micro ? c->add : c->head;
    return session_program(s, c->head->p->name, kind == RUN_LOSS ? PHASE_LOSS : PHASE_UPDATE);
}

/* By the micro-batches so far: the step ends at the last one, or at the first weft_run after a
 * weft_run_no_sync. */
static bound_program *choose_counted(const weft_session *s, const chosen *c, run_kind kind) {
    int64_t micro = c->head->micro;
    bool is_last = kind != RUN_NO_SYNC && (c->head->ends_next || micro == c->head->p->accumulate - 1);
    if (!micro) return c->head;
    return is_last ? session_program(s, c->head->p->name, PHASE_LAST) : c->add;
}

weft_status session_choose(weft_session *s, const char *graph, run_kind kind, chosen *c, weft_error *error) {
    weft_status status = session_find(s, graph, c, error);
    if (status) return status;
    bool is_manual = s->plan->options.manual && c->add;
    if ((status = check_alone(c, is_manual, kind, error))) return status;
    if (is_manual)
        status = check_manual(c, kind, error);
    else if (kind == RUN_NO_SYNC)
        status = check_no_sync(c, error);
    if (!status && c->add && kind != RUN_LOSS) status = session_check_sums(s, c, error);
    if (!status && c->add) c->now = is_manual ? choose_manual(s, c, kind) : choose_counted(s, c, kind);
    return status;
}
