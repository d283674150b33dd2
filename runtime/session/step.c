/* step.c - one step of a run, and what runs and bad steps that run again share. */
#include "runtime/session/state.h"

#include "ops/kit/op_kit.h"
#include "ops/optimizer/update.h"

#include <math.h>
#include <string.h>

size_t session_bytes(const weft_plan *plan) {
    /* the arena rounded up, so that derived values after it are aligned */
    return size_align(plan->memory.activations, MEM_ALIGN) + plan->memory.derived + plan->memory.inputs +
           plan->memory.guard;
}

weft_status session_fetch(weft_session *s, const bound_program *r, void *into, const void *from, size_t bytes,
                          weft_error *error) {
    const fetched all = {.memory = from, .input = -1, .bytes = bytes};
    return s->device->executor->fetch(s, r, &all, into, error);
}

/* Kernels draw random numbers by these: the same on any number of ranks, as micro-batches are numbered over
 * all ranks. */
void session_number(weft_session *s, bound_program *head, bound_program *r, int64_t micro) {
    int64_t rank = s->comm ? s->comm->rank : 0;
    r->run.step = r->counter ? (int64_t)head->random_step : 0;
    r->run.local = micro;
    r->run.micro = micro + rank * head->p->accumulate;
    if (r->p->n_collectives) s->run = ++s->runs;
}

void session_relocate(bound_program *r) {
    for (int i = 0; i < r->n_relocations; i++) {
        const relocation *p = &r->relocations[i];
        p->operand->data = (char *)(uintptr_t)r->inputs[p->input].data + p->offset;
    }
}

/* ---- steps of a plan with a guard ---- */

bool guard_carries(const bound_program *r, const step *st) {
    return st == r->guard && r->of && !program_ends_step(r->p);
}

/* A wrong label of one rank must not leave the others waiting in their collectives. */
bool guard_takes(const weft_session *s, const bound_program *r, const step *st) {
    if (!r->of || !r->guard || st->is_gated || s->checks) return false;
    return r->is_broken || st->node->order < r->guard->node->order;
}

void guard_take(weft_session *s, bound_program *r, const step *st, weft_error *error) {
    r->is_broken = true;
    if (s->examines) examine_broken(s->examines, r, st, error);
    *error = (weft_error){0};
    for (int k = 0; k < st->node->n_out; k++) {
        const tensor *t = &st->out[k];
        int64_t at[WEFT_MAX_NDIM] = {0};
        if (!t->data || !type_elements(&t->type)) continue;
        do element_set(t, at, dtype_is_float(t->type.dtype) ? NAN : 0);
        while (index_next(&t->type, at));
    }
}

void guard_flag(const step *guard) {
    double *flags = guard->out[0].data;
    for (int64_t i = 0; i < ((const guard_attrs *)guard->node->attrs)->count; i++) flags[i] += 1;
}

void guard_judge(bound_program *r) {
    int64_t count = type_elements(&r->gate->out[0].type);
    for (int64_t i = 0; i < count; i++) r->skips |= r->of->flags[i] != 0;
}

/* ---- the step ---- */

/* Debug and sanitizer builds check each call against its kernel's declarations (CMakeLists.txt). */
#ifdef WEFT_CHECKS_CALLS
static const bool checks_calls = true;
#else
static const bool checks_calls = false;
#endif

/* The flags are copied at once: their memory is soon another value's. */
static void note_flags(const weft_session *s, bound_program *r, const step *st) {
    size_t bytes = type_bytes(&st->out[0].type);
    if (st == r->guard && r->is_broken) guard_flag(st);
    if (guard_carries(r, st)) memcpy(r->of->carried, st->out[0].data, bytes);
    if (st != r->gate || s->examines) return;
    memcpy(r->of->flags, st->out[0].data, bytes);
    guard_judge(r);
}

/* A derived value whose parameter has not changed is skipped. Times and events are only taken when they are
 * asked for. */
weft_status session_step(weft_session *s, bound_program *r, step *st, weft_error *error) {
    bool is_timed = s->profiles || s->event;
    if (st->version && *st->version == *st->packed) return WEFT_OK;
    if (st->is_gated && r->skips) return WEFT_OK;
    if (st->place) weft_comm_place(s->comm, st->place);
    /* Gathers of earlier runs that this step touches must have arrived; a tracer sees the wait. */
    if (s->n_in_flight) {
        int before = s->n_in_flight;
        uint64_t began = s->event ? weft_clock_ns() : 0;
        weft_status status = in_flight_await_touched(s, st, error);
        if (s->event && s->n_in_flight < before) note_arrival(s, r, st, began);
        if (status) return status;
    }
    uint64_t began = is_timed ? weft_clock_ns() : 0;
    st->call.error = error;
    st->call.broken = &s->broken;
    if (s->examines) examine_before(s->examines, r, st);
    weft_status status =
        checks_calls && st->kernel ? kernel_check_call(st->kernel, &st->call, error) : WEFT_OK;
    if (!status)
        status = st->kernel ? st->kernel->run(st->state, &st->call) : collective_run(s, r, st, error);
    if (status == WEFT_DATA && st->kernel && guard_takes(s, r, st)) {
        guard_take(s, r, st, error);
        status = WEFT_OK;
    }
    if (!status && s->examines) examine_after(s->examines, r, st);
    if (!status && (st == r->guard || st == r->gate)) note_flags(s, r, st);
    if (!status && s->checks) status = session_check_results(s, r, st, error);
    if (is_timed) note_time(s, r, st, began, weft_clock_ns());
    if (st->version && !status) *st->packed = *st->version;
    return status;
}
