/* comm_stream.c - collectives of a session on a GPU. Where the communicator can enqueue (NCCL) they run on
 * the communication stream; else they go by way of the host. So any communicator works, but the second kind
 * makes the host wait. */
#include "runtime/session/cuda/session.h"

#include "ops/structure/collective.h"

/* The process group of a collective's subgraph. */
static weft_comm *group_of(const weft_session *s, const weft_node *n) {
    return s->groups[((const collective_attrs *)n->attrs)->group];
}

static cuda_stage *stage_of(const weft_session *s, const bound_program *r, const weft_node *n) {
    return &s->cuda->stages[r - s->programs][((const collective_attrs *)n->attrs)->order];
}

/* ---- copies in the host's memory ---- */

/* Takes pinned memory for a collective's buffer, and host memory for its scratch. */
static weft_status make_stage(weft_session *s, bound_program *r, const step *st, weft_error *error) {
    const weft_node *n = st->node;
    cuda_stage *stage = stage_of(s, r, n);
    stage->step = st;
    stage->is_in_flight = collective_outlasts_run(s, n);
    stage->bytes = type_bytes(&st->out[0].type);
    stage->scratch_bytes = n->n_out > 1 ? (size_t)((const collective_attrs *)n->attrs)->scratch : 0;
    CUDA_TRY(cudaMallocHost((void **)&stage->buffer, stage->bytes),
             "allocating pinned memory for a collective");
    stage->scratch = mem_raw(&s->env, stage->scratch_bytes);
    return stage->scratch || !stage->scratch_bytes ? WEFT_OK : error_memory(error, "session");
}

/* Only for communicators that cannot enqueue. */
weft_status cuda_comm_stream_prepare(weft_session *s, weft_error *error) {
    weft_status status = WEFT_OK;
    if (!s->comm || s->comm->world == 1 || cuda_is_enqueued(s)) return WEFT_OK;
    for (int i = 0; i < s->plan->n_programs; i++) {
        bound_program *r = &s->programs[i];
        size_t count = (size_t)r->p->n_collectives + 1;
        if (!(s->cuda->stages[i] = arena_new_array(&s->arena, count, sizeof **s->cuda->stages)))
            return error_memory(error, "session");
        for (int k = 0; k < r->n_steps && !status; k++)
            if (node_starts_collective(r->steps[k].node)) status = make_stage(s, r, &r->steps[k], error);
    }
    return status;
}

/* Also after a failed prepare, so any stage may be missing. */
void cuda_comm_stream_forget(weft_session *s) {
    for (int i = 0; i < s->plan->n_programs; i++)
        for (int k = 0; s->cuda->stages[i] && k < s->plan->programs[i].n_collectives; k++) {
            cuda_stage *stage = &s->cuda->stages[i][k];
            if (stage->buffer) cudaFreeHost(stage->buffer);
            mem_free(&s->env, stage->scratch, stage->scratch_bytes);
        }
}

/* ---- starting ---- */

/* The buffers are the step's own, in GPU memory. */
weft_status cuda_enqueue(weft_session *s, bound_program *r, const step *st, weft_error *error) {
    weft_comm *group = group_of(s, st->node);
    weft_collective collective = session_collective(s, r, st);
    return group->calls->enqueue(group, &collective, s->cuda->communication, error);
}

/* The ticket is unused here: the event says when the gather has ended. */
weft_status cuda_leave_in_flight(weft_session *s, const step *st, weft_error *error) {
    const weft_node *n = st->node;
    if (!collective_outlasts_run(s, n)) return WEFT_OK;
    cudaEvent_t *arrived = &s->cuda->arrived[n->variable->index];
    if (!*arrived) CUDA_TRY(cudaEventCreateWithFlags(arrived, cudaEventDisableTiming), "creating an event");
    CUDA_TRY(cudaEventRecord(*arrived, s->cuda->communication), "ordering a gather");
    in_flight_add(s, n, 0);
    return WEFT_OK;
}

/* Waits for the communication stream, which has waited for the nodes before it, then starts the collective on
 * the host. */
weft_status cuda_stage_collective(weft_session *s, bound_program *r, const step *st, weft_error *error) {
    struct cuda_session *c = s->cuda;
    const weft_node *n = st->node;
    cuda_stage *stage = stage_of(s, r, n);
    uint64_t ticket;
    weft_collective collective = session_collective(s, r, st);
    CUDA_TRY(cudaMemcpyAsync(stage->buffer, st->out[0].data, stage->bytes, cudaMemcpyDeviceToHost,
                             c->communication),
             "bringing a collective's buffer to the host");
    CUDA_TRY(cudaStreamSynchronize(c->communication), "running");
    collective.buffer = stage->buffer;
    collective.scratch = stage->scratch;
    weft_status status = weft_comm_start(group_of(s, n), &collective, &ticket, error);
    if (status) return status;
    stage->ticket = ticket + 1;
    if (stage->is_in_flight) in_flight_add(s, n, ticket);
    return WEFT_OK;
}

/* ---- waiting ---- */

/* Waits for a staged collective, and copies its result back on the compute stream, before the nodes that need
 * it. */
static weft_status finish_stage(weft_session *s, cuda_stage *stage, weft_error *error) {
    if (!stage->ticket) return WEFT_OK;
    const step *st = stage->step;
    weft_status status = weft_comm_wait(group_of(s, st->node), stage->ticket - 1, error);
    stage->ticket = 0;
    if (status) return status;
    CUDA_TRY(cudaMemcpyAsync(st->out[0].data, stage->buffer, stage->bytes, cudaMemcpyHostToDevice,
                             s->cuda->compute),
             "bringing a collective's result back");
    return WEFT_OK;
}

/* Finishes all staged sums up to `start`: a launch waits only for the last of several, which implies the
 * earlier. */
static weft_status await_staged(weft_session *s, bound_program *r, const weft_node *start,
                                weft_error *error) {
    cuda_stage *stages = s->cuda->stages[r - s->programs];
    weft_status status = WEFT_OK;
    for (int i = 0; i < r->p->n_collectives && !status; i++) {
        if (!stages[i].is_in_flight) status = finish_stage(s, &stages[i], error);
        if (stages[i].step->node == start) break;
    }
    return status;
}

/* An event for collectives on a stream; a staged one makes the host wait. */
weft_status cuda_await(weft_session *s, bound_program *r, const weft_node *start, cudaEvent_t ended,
                       weft_error *error) {
    if (!cuda_is_enqueued(s)) return await_staged(s, r, start, error);
    CUDA_TRY(cudaStreamWaitEvent(s->cuda->compute, ended, 0), "ordering work after a collective");
    return WEFT_OK;
}

/* Finishes the staged gathers of a bucket in the order in which they started, so that the last one's values
 * remain. */
static weft_status finish_gathers(weft_session *s, const weft_variable *bucket, weft_error *error) {
    weft_status status = WEFT_OK;
    for (int i = 0; i < s->plan->n_programs; i++)
        for (int k = 0; k < s->plan->programs[i].n_collectives && !status; k++) {
            cuda_stage *stage = &s->cuda->stages[i][k];
            if (stage->is_in_flight && stage->step->node->variable == bucket)
                status = finish_stage(s, stage, error);
        }
    return status;
}

/* The compute stream, or the host, waits; afterwards the gather counts as arrived. */
weft_status cuda_arrive(weft_session *s, const weft_variable *bucket, weft_error *error) {
    weft_status status = WEFT_OK;
    if (!s->in_flight[bucket->index]) return WEFT_OK;
    if (cuda_is_enqueued(s))
        CUDA_TRY(cudaStreamWaitEvent(s->cuda->compute, s->cuda->arrived[bucket->index], 0),
                 "ordering work after a gather");
    else
        status = finish_gathers(s, bucket, error);
    in_flight_remove(s, bucket);
    return status;
}

/* After a failure: waits for all that still works on the session's memory. */
void cuda_drain(weft_session *s, bound_program *r) {
    if (cuda_is_enqueued(s)) {
        cuda_wait(s, s->cuda->communication, NULL, "running", NULL);
        return;
    }
    cuda_stage *stages = s->cuda->stages[r - s->programs];
    for (int i = 0; stages && i < r->p->n_collectives; i++)
        if (!stages[i].is_in_flight) finish_stage(s, &stages[i], NULL);
}
