/* walk.c - runs a program's launches on their streams. A launch goes node by node in its first run, is
 * captured as a CUDA graph in the second, and is one call from then on. The same holds for collectives where
 * the communicator puts them on a stream: NCCL connects in the first run, and afterwards all ranks start the
 * same captured ones in the same order. */
#include "runtime/session/cuda/session.h"

#include <string.h>

/* ---- preparing ---- */

/* The steps of a launch: nodes of its kind among its places in the schedule. */
static weft_status prepare_launch(weft_session *s, bound_program *r, const launch_entry *l, cuda_launch *to,
                                  weft_error *error) {
    to->steps = arena_new_array(&s->arena, (size_t)l->n_nodes + 1, sizeof *to->steps);
    if (!to->steps) return error_memory(error, "session");
    for (int i = 0; i < r->n_steps; i++) {
        launch_kind kind;
        const weft_node *n = r->steps[i].node;
        if (n->order < l->first || n->order > l->last || !launch_kind_of(n, &kind) || kind != l->kind)
            continue;
        to->steps[to->n_steps++] = &r->steps[i];
    }
    if (l->records)
        CUDA_TRY(cudaEventCreateWithFlags(&to->ended, cudaEventDisableTiming), "creating an event");
    return WEFT_OK;
}

/* Events are made here too, so that runs allocate nothing. */
weft_status cuda_prepare_launches(weft_session *s, weft_error *error) {
    weft_status status = WEFT_OK;
    for (int i = 0; i < s->plan->n_programs && !status; i++) {
        const program *p = &s->plan->programs[i];
        cuda_launch *list = arena_new_array(&s->arena, (size_t)p->n_launches + 1, sizeof *list);
        if (!list) return error_memory(error, "session");
        s->cuda->launches[i] = list;
        for (int k = 0; k < p->n_launches && !status; k++)
            status = prepare_launch(s, &s->programs[i], &p->launches[k], &list[k], error);
    }
    return status;
}

void cuda_forget_launches(weft_session *s) {
    for (int i = 0; i < s->plan->n_programs; i++)
        for (int k = 0; s->cuda->launches[i] && k < s->plan->programs[i].n_launches; k++) {
            cuda_launch *l = &s->cuda->launches[i][k];
            if (l->exec) cudaGraphExecDestroy(l->exec);
            if (l->ended) cudaEventDestroy(l->ended);
        }
}

/* ---- one launch ---- */

/* A profiler, tracer, check or bad step that runs again looks at each node, so launches go node by node. */
static bool is_watched(const weft_session *s) {
    return s->profiles || s->event || s->checks || s->no_capture || s->examines;
}

/* A derived value whose parameter has changed; other nodes always run. */
static bool is_stale(const step *st) {
    return !st->version || *st->version != *st->packed;
}

/* Notes the time of a step that has ended: that between its events on the stream, without what the host and
 * the wait cost. */
static weft_status note_elapsed(weft_session *s, bound_program *r, step *st, uint64_t began,
                                weft_error *error) {
    float ms;
    CUDA_TRY(cudaEventElapsedTime(&ms, s->cuda->step_began, s->cuda->step_ended), "timing a node");
    note_time(s, r, st, began, began + (uint64_t)((double)ms * 1e6));
    return WEFT_OK;
}

/* Records an event that can be timed, which is made on first use. */
static weft_status record_time(weft_session *s, cudaEvent_t *event, weft_error *error) {
    if (!*event) CUDA_TRY(cudaEventCreateWithFlags(event, cudaEventDefault), "creating an event");
    CUDA_TRY(cudaEventRecord(*event, s->cuda->compute), "timing a node");
    return WEFT_OK;
}

/* Keeps the flags of the step so far for its next micro-batch. */
static weft_status carry_flags(weft_session *s, const bound_program *r, const step *st, weft_error *error) {
    if (!guard_carries(r, st)) return WEFT_OK;
    CUDA_TRY(cudaMemcpyAsync(r->of->carried, st->out[0].data, type_bytes(&st->out[0].type),
                             cudaMemcpyDeviceToDevice, s->cuda->compute),
             "copying the flags of losses");
    return WEFT_OK;
}

/* A step that runs again has ended. */
static weft_status look_at(weft_session *s, const bound_program *r, const step *st, weft_error *error) {
    weft_error met = {0};
    weft_status status = st->kernel->data_rule ? cuda_check_data(s, &met) : WEFT_OK;
    if (status == WEFT_DATA) examine_broken(s->examines, r, st, &met);
    examine_after(s->examines, r, st);
    if (!status || status == WEFT_DATA) return WEFT_OK;
    *error = met;
    return status;
}

/* Where nodes are watched, each is waited for, so that times and values are its own. */
static weft_status run_step(weft_session *s, bound_program *r, step *st, bool is_capturing,
                            weft_error *error) {
    bool is_timed = (s->profiles || s->event) && !is_capturing;
    uint64_t began = is_timed ? weft_clock_ns() : 0;
    weft_status status = is_timed ? record_time(s, &s->cuda->step_began, error) : WEFT_OK;
    st->call.error = error;
    if (s->examines) examine_before(s->examines, r, st);
    if (!status) status = st->kernel->run(st->state, &st->call);
    if (!status) status = carry_flags(s, r, st, error);
    if (status || is_capturing || !is_watched(s)) return status;
    if (is_timed) status = record_time(s, &s->cuda->step_ended, error);
    if (!status) status = cuda_wait(s, s->cuda->compute, NULL, st->node->op->name, error);
    if (!status && is_timed) status = note_elapsed(s, r, st, began, error);
    if (!status && s->examines) status = look_at(s, r, st, error);
    if (status) return status;
    return s->checks ? session_check_results(s, r, st, error) : WEFT_OK;
}

/* A derived value that is not stale does nothing, nor does an update of a bad step. */
static weft_status run_steps(weft_session *s, bound_program *r, cuda_launch *l, bool is_capturing,
                             weft_error *error) {
    weft_status status = WEFT_OK;
    for (int i = 0; i < l->n_steps && !status; i++)
        if (is_stale(l->steps[i]) && !(l->steps[i]->is_gated && r->skips))
            status = run_step(s, r, l->steps[i], is_capturing, error);
    if (!status && !r->skips) l->has_run = true;
    return status;
}

/* Uploads, refreshes and kernels share the compute stream. */
static cudaStream_t stream_of(const weft_session *s, launch_kind kind) {
    return kind == LAUNCH_COLLECTIVE ? s->cuda->communication : s->cuda->compute;
}

/* Puts the work of a launch on its stream, to run or to be captured. */
static weft_status put_launch(weft_session *s, bound_program *r, launch_kind kind, cuda_launch *l,
                              bool is_capturing, weft_error *error) {
    if (kind != LAUNCH_COLLECTIVE) return run_steps(s, r, l, is_capturing, error);
    weft_status status = cuda_enqueue(s, r, l->steps[0], error);
    if (!status) l->has_run = true;
    return status;
}

/* Puts the work of a launch into *graph. Thread-local: what this thread must not call now, others may
 * (memory, modules), as they have no part in what is captured. Calls that no mode allows: captures.c. The
 * stream's capture ends also after an error. */
static weft_status capture_work(weft_session *s, bound_program *r, launch_kind kind, cuda_launch *l,
                                cudaGraph_t *graph, weft_error *error) {
    cudaStream_t stream = stream_of(s, kind);
    CUDA_TRY(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "beginning a capture");
    weft_status status = put_launch(s, r, kind, l, true, error);
    cudaError_t result = cudaStreamEndCapture(stream, graph);
    return !status && result != cudaSuccess ? cuda_fail(error, result, "ending a capture") : status;
}

/* Captures a launch into l->exec. */
static weft_status capture(weft_session *s, bound_program *r, launch_kind kind, cuda_launch *l,
                           weft_error *error) {
    cudaGraph_t graph = NULL;
    cudaError_t result;
    cuda_capture_enter(s->cuda->work.index);
    weft_status status = capture_work(s, r, kind, l, &graph, error);
    cuda_capture_leave(s->cuda->work.index);
    if (!status && (result = cudaGraphInstantiate(&l->exec, graph, 0)) != cudaSuccess)
        status = cuda_fail(error, result, "instantiating a captured graph");
    if (graph) cudaGraphDestroy(graph);
    return status;
}

/* Whether the launch may run from a captured graph. A captured refresh makes all of its values: where only
 * some are stale, they go node by node. What follows the gate of a bad step does, too. */
static bool can_capture(const weft_session *s, const bound_program *r, const launch_entry *l,
                        const cuda_launch *c) {
    if (l->kind == LAUNCH_COLLECTIVE) return s->cuda->captures_collectives;
    if (!launch_is_captured(l->kind) || !c->has_run || r->skips || is_watched(s)) return false;
    for (int i = 0; i < c->n_steps; i++)
        if (!is_stale(c->steps[i])) return false;
    return true;
}

/* Captures the launch if need be, then starts it. */
static weft_status start_launch(weft_session *s, bound_program *r, const launch_entry *l, cuda_launch *c,
                                weft_error *error) {
    weft_status status = WEFT_OK;
    if (!can_capture(s, r, l, c)) return put_launch(s, r, l->kind, c, false, error);
    if (!c->exec) status = capture(s, r, l->kind, c, error);
    if (!status) CUDA_TRY(cudaGraphLaunch(c->exec, stream_of(s, l->kind)), "launching a captured graph");
    return status;
}

static weft_status start_compute(weft_session *s, bound_program *r, const launch_entry *l, cuda_launch *c,
                                 weft_error *error) {
    weft_status status = c->n_steps ? start_launch(s, r, l, c, error) : WEFT_OK;
    /* derived values are now those of their parameters' present versions */
    for (int i = 0; i < c->n_steps && !status; i++)
        if (c->steps[i]->version) *c->steps[i]->packed = *c->steps[i]->version;
    return status;
}

/* `after` is the event of the compute launch that must have ended; NULL: none. */
static weft_status start_collective(weft_session *s, bound_program *r, const launch_entry *l, cuda_launch *c,
                                    cudaEvent_t after, weft_error *error) {
    if (after) CUDA_TRY(cudaStreamWaitEvent(s->cuda->communication, after, 0), "ordering a collective");
    if (!cuda_is_enqueued(s)) return cuda_stage_collective(s, r, c->steps[0], error);
    weft_status status = start_launch(s, r, l, c, error);
    return status ? status : cuda_leave_in_flight(s, c->steps[0], error);
}

/* The compute stream waits for what the launch needs from the other stream. */
static weft_status await_others(weft_session *s, bound_program *r, const launch_entry *l, cuda_launch *list,
                                weft_error *error) {
    weft_status status = WEFT_OK;
    if (l->waits >= 0) status = cuda_await(s, r, list[l->waits].steps[0]->node, list[l->waits].ended, error);
    for (int k = 0; k < l->n_in_flight && !status; k++) status = cuda_arrive(s, l->in_flight[k], error);
    return status;
}

/* The gate has been started: waits for it, and reads whether the step is bad. */
static weft_status read_gate(weft_session *s, bound_program *r, weft_error *error) {
    const tensor *flags = &r->gate->out[0];
    cudaStream_t stream = s->cuda->compute;
    weft_status status = cuda_is_enqueued(s) ? cuda_wait(s, stream, NULL, "running", error) : WEFT_OK;
    if (status) return status;
    CUDA_TRY(
        cudaMemcpyAsync(r->of->flags, flags->data, type_bytes(&flags->type), cudaMemcpyDeviceToHost, stream),
        "reading whether the step is bad");
    CUDA_TRY(cudaStreamSynchronize(stream), "running");
    guard_judge(r);
    return WEFT_OK;
}

/* Launch number `index` of the program, after what it waits for; records its event if it has one. */
static weft_status start(weft_session *s, bound_program *r, int index, cuda_launch *list, weft_error *error) {
    const launch_entry *l = &r->p->launches[index];
    weft_status status;
    if (l->kind == LAUNCH_COLLECTIVE) {
        status = start_collective(s, r, l, &list[index], l->waits >= 0 ? list[l->waits].ended : NULL, error);
    } else {
        status = await_others(s, r, l, list, error);
        if (!status) status = start_compute(s, r, l, &list[index], error);
    }
    if (!status && list[index].ended)
        CUDA_TRY(cudaEventRecord(list[index].ended, stream_of(s, l->kind)), "recording an event");
    return !status && l->gates && !s->examines ? read_gate(s, r, error) : status;
}

/* ---- one run ---- */

/* After the last upload the slot of the inputs is free again. */
static weft_status free_slot(weft_session *s, const bound_program *r, weft_error *error) {
    if (!r->n_inputs) return WEFT_OK;
    CUDA_TRY(cudaEventRecord(s->cuda->slots[s->cuda->next_slot ^ 1].read, s->cuda->compute),
             "ordering inputs");
    return WEFT_OK;
}

/* How many steps come before this place in the schedule, for error reports. */
static int steps_before(const bound_program *r, int order) {
    int n = 0;
    while (n < r->n_steps && r->steps[n].node->order < order) n++;
    return n;
}

/* Whether NCCL has connected for all collectives of the program. */
static bool have_collectives_run(const program *p, const cuda_launch *list) {
    for (int i = 0; i < p->n_launches; i++)
        if (p->launches[i].kind == LAUNCH_COLLECTIVE && !list[i].has_run) return false;
    return true;
}

/* Announces the run to the other ranks. In a program's first run NCCL connects, which waits for all ranks
 * without a deadline, so the host waits for them first. */
static weft_status meet_others(weft_session *s, const bound_program *r, const cuda_launch *list,
                               weft_error *error) {
    if (!r->p->n_collectives || !cuda_is_enqueued(s)) return WEFT_OK;
    bool have_run = have_collectives_run(r->p, list);
    s->cuda->captures_collectives = have_run && !s->no_capture;
    weft_status status = cuda_run_barrier(s, r, error);
    return status || have_run ? status : cuda_await_calls(s, error);
}

/* All launches of the program; *reached: how many steps have been started. */
static weft_status start_all(weft_session *s, bound_program *r, int *reached, weft_error *error) {
    const program *p = r->p;
    int index = (int)(r - s->programs);
    cuda_launch *list = s->cuda->launches[index];
    weft_status status = meet_others(s, r, list, error);
    if (!status)
        CUDA_TRY(
            cuda_begin_run(s->cuda->compute, s->cuda_run, &r->run, &s->cuda->context.failure->running, index),
            "beginning a run");
    for (int i = 0; i < p->n_launches && !status; i++) {
        *reached = steps_before(r, p->launches[i].first);
        status = start(s, r, i, list, error);
        bool ends_uploads = i + 1 == p->n_launches || (p->launches[i].kind == LAUNCH_UPLOAD &&
                                                       p->launches[i + 1].kind != LAUNCH_UPLOAD);
        if (!status && ends_uploads) status = free_slot(s, r, error);
    }
    if (!status) *reached = r->n_steps;
    return status;
}

/* Starts all launches and returns; the GPU may still be working. Versions count even after an error, as the
 * run may have written; after an error of its own, what a wait says is not the cause. */
weft_status cuda_walk(weft_session *s, bound_program *r, int *reached, weft_error *error) {
    weft_error later = {0};
    *reached = 0;
    weft_status status = s->examines ? WEFT_OK : cuda_feed(s, r, error);
    if (!status) status = start_all(s, r, reached, error);
    weft_status returned = s->examines ? WEFT_OK : cuda_return_feeds(s, r, status ? &later : error);
    if (!status) status = returned;
    if (status && r->p->n_collectives) cuda_drain(s, r);
    for (int i = 0; i < r->n_written; i++) ++*r->written[i];
    return status;
}
