/* in_flight.c - what is under way when a run has ended: gathers of updated parameters (ZeRO), and a tail, the last waits and
 * updates of a program (passes/tails.c says which). Whoever reads what they bring waits for it first; until then it counts as
 * arriving in the store. A tail is run as far as the next step needs, in its own order, with the number of its own run. */
#include "runtime/session/state.h"

#include "ops/structure/collective.h"

#include <omp.h>

/* ---- gathers ---- */

void lane_carry(weft_session *s, const weft_node *n, uint64_t ticket) {
    uint64_t *carried = &s->carried[n->variable->index];
    if (!*carried) { /* else one of an earlier run is under way, which this one cannot overtake */
        s->n_carried++;
        store_note_arriving(s->store, store_home(s->store, n->variable), 1);
    }
    *carried = ticket + 1;
}

void lane_uncarry(weft_session *s, const weft_variable *segment) {
    uint64_t *carried = &s->carried[segment->index];
    if (!*carried) return;
    *carried = 0;
    s->n_carried--;
    store_note_arriving(s->store, store_home(s->store, segment), -1);
}

weft_status lane_await_segment(weft_session *s, const weft_variable *segment, weft_error *error) {
    uint64_t carried = s->carried[segment->index];
    if (!carried) return WEFT_OK;
    weft_status status = weft_comm_wait(s->groups[segment->subgraph], carried - 1, error);
    lane_uncarry(s, segment);
    return status;
}

weft_status lane_arrive(weft_session *s, const step *st, weft_error *error) {
    weft_status status = WEFT_OK;
    for (int k = 0; s->n_carried && k < st->n_touched && !status; k++)
        status = lane_await_segment(s, st->touched[k], error);
    return status;
}

/* ---- tails: what they touch ---- */

/* needs[v] becomes the number of steps up to the last one that touches v. */
static bool note_tail(weft_session *s, runnable *r) {
    size_t variables = (size_t)s->plan->model->n_variables + 1;
    r->needs = arena_new_array(&s->arena, variables, sizeof *r->needs);
    r->homes = arena_new_array(&s->arena, variables, sizeof *r->homes);
    if (!r->needs || !r->homes) return false;
    for (int i = r->tail; i < r->n_steps; i++) {
        r->tail_sends |= node_starts_collective(r->steps[i].node);
        for (int k = 0; k < r->steps[i].n_touched; k++) {
            const weft_variable *v = r->steps[i].touched[k];
            if (!r->needs[v->index]) r->homes[r->n_homes++] = store_home(s->store, v);
            r->needs[v->index] = i + 1;
        }
    }
    return true;
}

bool tail_open(weft_session *s, weft_error *error) {
    for (int i = 0; i < s->plan->n_programs; i++) {
        runnable *r = &s->programs[i];
        while (r->tail < r->n_steps && r->steps[r->tail].node->order < r->p->tail) r->tail++;
        if (r->tail < r->n_steps && !note_tail(s, r)) return !error_memory(error, "session");
    }
    return true;
}

int tail_needs(const runnable *r, const step *st) {
    int until = st->ends_tails ? r->n_steps : 0;
    for (int k = 0; k < st->n_touched; k++)
        if (r->needs[st->touched[k]->index] > until) until = r->needs[st->touched[k]->index];
    return until;
}

int tail_needs_for_outputs(const runnable *r, const runnable *next) {
    int until = 0;
    for (int i = 0; i < next->n_outputs; i++) {
        const weft_variable *home = next->outputs[i].home;
        if (home && r->needs[home->index] > until) until = r->needs[home->index];
    }
    return until;
}

/* ---- tails: running them ---- */

static void leave(weft_session *s, runnable *r) {
    s->tail = (pending){.r = r, .next = r->tail, .run = s->run};
    for (int i = 0; i < r->n_homes; i++) store_note_arriving(s->store, r->homes[i], 1);
}

static void forget(weft_session *s) {
    for (int i = 0; i < s->tail.r->n_homes; i++) store_note_arriving(s->store, s->tail.r->homes[i], -1);
    s->tail = (pending){0};
}

static weft_status run_until(weft_session *s, int until, weft_error *error) {
    runnable *r = s->tail.r;
    uint64_t run = s->run;
    weft_status status = WEFT_OK;
    if (s->tail.next >= until) return status;
    s->run = s->tail.run;
    while (s->tail.next < until && !status) status = session_step(s, r, &r->steps[s->tail.next++], error);
    s->run = run;
    if (status) lane_drain(s, r, s->tail.next);
    if (status || s->tail.next == r->n_steps) forget(s);
    return status;
}

/* Whether the next step would not wait. */
static bool is_ready(const weft_session *s) {
    const weft_node *n = s->tail.r->steps[s->tail.next].node;
    bool is_done = true;
    if (n->op != &weft_op_wait) return true;
    const collective_attrs *a = n->in[0]->node->attrs;
    return !weft_comm_test(s->groups[a->group], s->tail.r->tickets[a->order], &is_done, NULL) && is_done;
}

/* What its tail is to send goes out as soon as it can, to hide behind the rest of the forward. */
weft_status tail_before(weft_session *s, const step *st, weft_error *error) {
    weft_status status = run_until(s, tail_needs(s->tail.r, st), error);
    while (!status && s->tail.r && s->tail.r->tail_sends && is_ready(s))
        status = run_until(s, s->tail.next + 1, error);
    return status;
}

/* What outputs need is run whether they are fetched or not, and a tail that sends is pending for one run: so collectives
 * stand in one order on all ranks, the caller's own between runs included. */
weft_status tail_before_end(weft_session *s, runnable *r, weft_error *error) {
    weft_status status = WEFT_OK;
    if (s->tail.r && s->tail.r->tail_sends) status = run_until(s, s->tail.r->n_steps, error);
    if (!status && r->tail < r->n_steps) leave(s, r);
    return status || !s->tail.r ? status : run_until(s, tail_needs_for_outputs(s->tail.r, r), error);
}

weft_status tail_end(weft_session *s, weft_error *error) {
    int threads = omp_get_max_threads();
    if (!s->tail.r) return WEFT_OK;
    omp_set_num_threads(s->plan->kernels.threads);
    weft_status status = run_until(s, s->tail.r->n_steps, error);
    omp_set_num_threads(threads);
    return status;
}

/* ---- both ---- */

weft_status weft_sync(weft_session *s, weft_error *error) {
    if (!s) return error_set(error, WEFT_ARGUMENT, "sync: there is no session");
    weft_status status = tail_end(s, error);
    for (const weft_variable *v = s->plan->model->variables; s->n_carried && v; v = v->next) {
        weft_status one = s->device->executor->arrive(
            s, v, status ? NULL : error); /* all, so that none works on a store that is gone */
        if (!status) status = one;
    }
    weft_status one = s->device->executor->settle(s, status ? NULL : error);
    return status ? status : one;
}
