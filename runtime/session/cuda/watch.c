/* watch.c - a session on a GPU among other ranks, where the communicator puts collectives on a stream (NCCL).
 * A stream cannot tell one program from another, nor a rank that is late from one that never comes. So each
 * run of a program with collectives is also announced by a barrier on the host's side, with a descriptor and
 * a deadline: the run barrier. No call waits for it; but whenever the host waits for the GPU it looks at the
 * run barriers and for errors in turn, and so learns why it waits. */
#include "runtime/session/cuda/session.h"

#include "ops/structure/collective.h"

#include <sched.h>
#include <time.h>

bool cuda_is_enqueued(const weft_session *s) {
    return s->comm && s->comm->world > 1 && s->comm->calls->enqueue;
}

/* ---- run barriers ---- */

/* Finds which process groups each program has collectives in. */
weft_status cuda_prepare_watch(weft_session *s, weft_error *error) {
    if (!cuda_is_enqueued(s)) return WEFT_OK;
    for (int i = 0; i < s->plan->n_programs; i++) {
        const bound_program *r = &s->programs[i];
        bool *meets = arena_new_array(&s->arena, s->plan->n_groups, sizeof *meets);
        if (!(s->cuda->meets[i] = meets)) return error_memory(error, "session");
        for (int k = 0; k < r->n_steps; k++)
            if (node_starts_collective(r->steps[k].node))
                meets[((const collective_attrs *)r->steps[k].node->attrs)->group] = true;
    }
    return WEFT_OK;
}

/* Waits for the oldest run barrier. */
static weft_status await_call(weft_session *s, weft_error *error) {
    struct cuda_session *c = s->cuda;
    cuda_call oldest = c->calls[c->first_call];
    weft_status status = weft_comm_wait(oldest.group, oldest.ticket, error);
    c->first_call = (c->first_call + 1) % CUDA_CALLS;
    c->n_calls--;
    return status;
}

/* Starts a run barrier; waits for the oldest one if CUDA_CALLS are open. */
static weft_status call_group(weft_session *s, const bound_program *r, weft_comm *group, weft_error *error) {
    struct cuda_session *c = s->cuda;
    /* The name is part of what ranks compare: NCCL requires the same of all, and a captured collective does
     * not match one that is not. */
    weft_collective call = {.kind = WEFT_COLLECTIVE_BARRIER,
                            .count = (size_t)r->p->n_collectives,
                            .run = s->run,
                            .program = r->p->name,
                            .name = c->captures_collectives ? "run barrier, captured" : "run barrier"};
    weft_status status = c->n_calls == CUDA_CALLS ? await_call(s, error) : WEFT_OK;
    cuda_call *next = &c->calls[(c->first_call + c->n_calls) % CUDA_CALLS];
    if (!status) status = weft_comm_start(group, &call, &next->ticket, error);
    if (status) return status;
    next->group = group;
    c->n_calls++;
    return WEFT_OK;
}

/* One run barrier for each process group of the program. */
weft_status cuda_run_barrier(weft_session *s, const bound_program *r, weft_error *error) {
    const bool *meets = s->cuda->meets[r - s->programs];
    weft_status status = WEFT_OK;
    for (int i = 0; i < s->plan->n_groups && !status; i++) {
        bool is_new = meets[i] && s->groups[i]->world > 1;
        for (int k = 0; k < i; k++) is_new &= !meets[k] || s->groups[k] != s->groups[i];
        if (is_new) status = call_group(s, r, s->groups[i], error);
    }
    return status;
}

/* After an error nothing on a stream waits for other ranks, so streams end, unless the GPU is at fault too:
 * at most 10 s. */
static void drain(weft_session *s) {
    const struct timespec nap = {.tv_nsec = 1000000};
    uint64_t until = weft_clock_ns() + 10000000000u;
    cudaStream_t const streams[] = {s->cuda->communication, s->cuda->compute, s->cuda->copy};
    for (int i = 0; i < 3; i++)
        while (cudaStreamQuery(streams[i]) == cudaErrorNotReady && weft_clock_ns() < until)
            nanosleep(&nap, NULL);
    cudaGetLastError();
}

weft_status cuda_await_calls(weft_session *s, weft_error *error) {
    weft_status status = WEFT_OK;
    while (s->cuda->n_calls && !status) status = await_call(s, error);
    if (status) drain(s);
    return status;
}

/* ---- waiting ---- */

/* The communicator's error, if any, then run barriers that have ended. */
static weft_status look(weft_session *s, weft_error *error) {
    const struct cuda_session *c = s->cuda;
    weft_status status = weft_comm_poll(s->comm, error);
    for (bool is_done = true; c->n_calls && is_done && !status;) {
        const cuda_call *oldest = &c->calls[c->first_call];
        status = weft_comm_test(oldest->group, oldest->ticket, &is_done, error);
        if (!status && is_done) status = await_call(s, error);
    }
    return status;
}

/* The pause between two looks: none for the first 50 us, as most waits are short, then a sixty-fourth of the
 * time waited so far, and at most 1 ms. */
static void rest(uint64_t since) {
    uint64_t now = weft_clock_ns(), nap = (now - since) / 64;
    if (now - since < 50000) {
        sched_yield();
        return;
    }
    const struct timespec t = {.tv_nsec = nap > 1000000 ? 1000000 : (long)nap};
    nanosleep(&t, NULL);
}

static weft_status wait_simply(cudaStream_t stream, cudaEvent_t event, const char *doing, weft_error *error) {
    CUDA_TRY(event ? cudaEventSynchronize(event) : cudaStreamSynchronize(stream), doing);
    return WEFT_OK;
}

/* Polls, because a blocking wait would not see other ranks fail. */
weft_status cuda_wait(weft_session *s, cudaStream_t stream, cudaEvent_t event, const char *doing,
                      weft_error *error) {
    if (!cuda_is_enqueued(s)) return wait_simply(stream, event, doing, error);
    for (uint64_t since = weft_clock_ns();; rest(since)) {
        weft_status status = look(s, error);
        if (status) {
            drain(s);
            return status;
        }
        cudaError_t result = event ? cudaEventQuery(event) : cudaStreamQuery(stream);
        if (result == cudaSuccess) return WEFT_OK;
        if (result != cudaErrorNotReady) return cuda_fail(error, result, doing);
        cudaGetLastError(); /* CUDA may keep "not ready" as an error */
    }
}
