/* in_flight.c - what outlasts a run: gathers of updated parameters (ZeRO; collectives.c), and the deferred
 * part of a program, its last waits and updates (passes/deferred.c says which). A step that needs their
 * results waits for them first; until then their variables count as arriving in the store. A deferred part
 * runs as far as the next step needs, in its own order, with the number of its own run. */
#include "runtime/session/state.h"

#include "ops/structure/collective.h"

#include <omp.h>

/* ---- deferred parts: what they touch ---- */

/* Fills r->owners, and r->needs[v] with the number of steps up to the last one that touches v. */
static bool note_deferred(weft_session *s, bound_program *r) {
    size_t variables = (size_t)s->plan->model->n_variables + 1;
    r->needs = arena_new_array(&s->arena, variables, sizeof *r->needs);
    r->owners = arena_new_array(&s->arena, variables, sizeof *r->owners);
    if (!r->needs || !r->owners) return false;
    for (int i = r->deferred; i < r->n_steps; i++) {
        r->deferred_sends |= node_starts_collective(r->steps[i].node);
        for (int k = 0; k < r->steps[i].n_touched; k++) {
            const weft_variable *v = r->steps[i].touched[k];
            if (!r->needs[v->index]) r->owners[r->n_owners++] = store_owner(s->store, v);
            r->needs[v->index] = i + 1;
        }
    }
    return true;
}

/* The first deferred step is the first whose node the plan defers. */
bool deferred_open(weft_session *s, weft_error *error) {
    for (int i = 0; i < s->plan->n_programs; i++) {
        bound_program *r = &s->programs[i];
        while (r->deferred < r->n_steps && r->steps[r->deferred].node->order < r->p->deferred) r->deferred++;
        if (r->deferred < r->n_steps && !note_deferred(s, r)) return !error_memory(error, "session");
    }
    return true;
}

int deferred_needed_by(const bound_program *r, const step *st) {
    int until = st->ends_deferred ? r->n_steps : 0;
    for (int k = 0; k < st->n_touched; k++)
        if (r->needs[st->touched[k]->index] > until) until = r->needs[st->touched[k]->index];
    return until;
}

int deferred_needed_by_outputs(const bound_program *r, const bound_program *next) {
    int until = 0;
    for (int i = 0; i < next->n_outputs; i++) {
        const weft_variable *owner = next->outputs[i].owner;
        if (owner && r->needs[owner->index] > until) until = r->needs[owner->index];
    }
    return until;
}

/* ---- deferred parts: running them ---- */

/* Makes r's deferred part pending. Its variables count as arriving. */
static void leave(weft_session *s, bound_program *r) {
    s->deferred = (pending){.r = r, .next = r->deferred, .run = s->run};
    for (int i = 0; i < r->n_owners; i++) store_note_arriving(s->store, r->owners[i], 1);
}

/* No deferred part is pending any more. */
static void forget(weft_session *s) {
    for (int i = 0; i < s->deferred.r->n_owners; i++)
        store_note_arriving(s->store, s->deferred.r->owners[i], -1);
    s->deferred = (pending){0};
}

/* Runs the pending deferred part up to step `until`. The session's run number is that of the deferred part
 * meanwhile, so that its collectives match those of the other ranks. */
static weft_status run_until(weft_session *s, int until, weft_error *error) {
    bound_program *r = s->deferred.r;
    uint64_t run = s->run;
    weft_status status = WEFT_OK;
    if (s->deferred.next >= until) return status;
    s->run = s->deferred.run;
    while (s->deferred.next < until && !status)
        status = session_step(s, r, &r->steps[s->deferred.next++], error);
    s->run = run;
    if (status) collectives_drain(s, r, s->deferred.next);
    if (status || s->deferred.next == r->n_steps) forget(s);
    return status;
}

/* Whether the next deferred step would run without waiting. */
static bool is_ready(const weft_session *s) {
    const weft_node *n = s->deferred.r->steps[s->deferred.next].node;
    bool is_done = true;
    if (n->op != &weft_op_wait) return true;
    const collective_attrs *a = n->in[0]->node->attrs;
    return !weft_comm_test(s->groups[a->group], s->deferred.r->tickets[a->order], &is_done, NULL) && is_done;
}

/* A deferred part that starts collectives continues as soon as it can, so that these overlap the rest of the
 * forward. */
weft_status deferred_before(weft_session *s, const step *st, weft_error *error) {
    weft_status status = run_until(s, deferred_needed_by(s->deferred.r, st), error);
    while (!status && s->deferred.r && s->deferred.r->deferred_sends && is_ready(s))
        status = run_until(s, s->deferred.next + 1, error);
    return status;
}

/* What outputs need is run whether they are fetched or not, and a deferred part that starts collectives is
 * pending for one run at most. So collectives have one order on all ranks, including those that the caller
 * starts between runs. */
weft_status deferred_at_end(weft_session *s, bound_program *r, weft_error *error) {
    weft_status status = WEFT_OK;
    if (s->deferred.r && s->deferred.r->deferred_sends) status = run_until(s, s->deferred.r->n_steps, error);
    if (!status && r->deferred < r->n_steps) leave(s, r);
    return status || !s->deferred.r ? status
                                    : run_until(s, deferred_needed_by_outputs(s->deferred.r, r), error);
}

weft_status deferred_finish(weft_session *s, weft_error *error) {
    int threads = omp_get_max_threads();
    if (!s->deferred.r) return WEFT_OK;
    omp_set_num_threads(s->plan->kernels.threads);
    weft_status status = run_until(s, s->deferred.r->n_steps, error);
    omp_set_num_threads(threads);
    return status;
}

/* ---- both ---- */

/* After it, nothing of this session is in flight. The first error is returned, but everything is waited for.
 */
weft_status weft_sync(weft_session *s, weft_error *error) {
    if (!s) return error_set(error, WEFT_ARGUMENT, "sync: there is no session");
    weft_status status = deferred_finish(s, error);
    for (const weft_variable *v = s->plan->model->variables; s->n_in_flight && v; v = v->next) {
        weft_status one = s->device->executor->arrive(
            s, v, status ? NULL : error); /* all of them, so that none writes to a store that is gone */
        if (!status) status = one;
    }
    weft_status one = s->device->executor->settle(s, status ? NULL : error);
    return status ? status : one;
}
