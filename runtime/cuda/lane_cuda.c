/* lane_cuda.c - collectives of a session on a GPU: on the communication stream where the communicator can enqueue there
 * (NCCL), else by way of the host, so that any communicator serves, at the price of waiting. */
#include "runtime/cuda/session_cuda.h"

#include "ops/collective.h"

static bool is_enqueued(const weft_session *s) {
    return s->comm && s->comm->calls->enqueue;
}

static weft_comm *group_of(const weft_session *s, const weft_node *n) {
    return s->groups[((const collective_attrs *)n->attrs)->group];
}

static cuda_stage *stage_of(const weft_session *s, const runnable *r, const weft_node *n) {
    return &s->cuda->stages[r - s->programs][((const collective_attrs *)n->attrs)->order];
}

/* ---- places in the host's memory ---- */

static weft_status make_stage(weft_session *s, runnable *r, const step *st, weft_error *error) {
    const weft_node *n = st->node;
    cuda_stage *stage = stage_of(s, r, n);
    stage->bytes = type_bytes(&st->out[0].type);
    stage->scratch_bytes = n->n_out > 1 ? (size_t)((const collective_attrs *)n->attrs)->scratch : 0;
    CUDA_TRY(cudaMallocHost((void **)&stage->buffer, stage->bytes), "taking pinned memory for a collective");
    stage->scratch = mem_raw(&s->env, stage->scratch_bytes);
    return stage->scratch || !stage->scratch_bytes ? WEFT_OK : error_memory(error, "session");
}

weft_status cuda_prepare_lane(weft_session *s, weft_error *error) {
    weft_status status = WEFT_OK;
    if (!s->comm || s->comm->world == 1 || is_enqueued(s)) return WEFT_OK;
    for (int i = 0; i < s->plan->n_programs; i++) {
        runnable *r = &s->programs[i];
        size_t count = (size_t)r->p->n_collectives + 1;
        if (!(s->cuda->stages[i] = arena_new_array(&s->arena, count, sizeof **s->cuda->stages)))
            return error_memory(error, "session");
        for (int k = 0; k < r->n_steps && !status; k++)
            if (node_starts_collective(r->steps[k].node)) status = make_stage(s, r, &r->steps[k], error);
    }
    return status;
}

void cuda_forget_lane(weft_session *s) {
    for (int i = 0; i < s->plan->n_programs; i++)
        for (int k = 0; s->cuda->stages[i] && k < s->plan->programs[i].n_collectives; k++) {
            cuda_stage *stage = &s->cuda->stages[i][k];
            if (stage->buffer) cudaFreeHost(stage->buffer);
            mem_free(&s->env, stage->scratch, stage->scratch_bytes);
        }
}

/* ---- starting ---- */

static weft_status enqueue(weft_session *s, runnable *r, const step *st, cudaEvent_t after,
                           weft_error *error) {
    struct cuda_session *c = s->cuda;
    const weft_node *n = st->node;
    weft_comm *group = group_of(s, n);
    weft_collective collective = lane_collective(s, r, st);
    if (after) CUDA_TRY(cudaStreamWaitEvent(c->communication, after, 0), "ordering a collective");
    weft_status status = group->calls->enqueue(group, &collective, c->communication, error);
    if (status || !lane_is_carried(s, n)) return status;
    cudaEvent_t *arrived = &c->arrived[n->variable->index];
    if (!*arrived) CUDA_TRY(cudaEventCreateWithFlags(arrived, cudaEventDisableTiming), "making an event");
    CUDA_TRY(cudaEventRecord(*arrived, c->communication), "ordering a gather");
    lane_carry(s, n, 0);
    return WEFT_OK;
}

static weft_status start_staged(weft_session *s, runnable *r, const step *st, cudaEvent_t after,
                                weft_error *error) {
    struct cuda_session *c = s->cuda;
    const weft_node *n = st->node;
    cuda_stage *stage = stage_of(s, r, n);
    uint64_t ticket;
    weft_collective collective = lane_collective(s, r, st);
    if (after) CUDA_TRY(cudaStreamWaitEvent(c->communication, after, 0), "ordering a collective");
    CUDA_TRY(cudaMemcpyAsync(stage->buffer, st->out[0].data, stage->bytes, cudaMemcpyDeviceToHost,
                             c->communication),
             "bringing a collective's buffer to the host");
    CUDA_TRY(cudaStreamSynchronize(c->communication), "running");
    collective.buffer = stage->buffer;
    collective.scratch = stage->scratch;
    weft_status status = weft_comm_start(group_of(s, n), &collective, &ticket, error);
    if (status) return status;
    stage->ticket = ticket + 1;
    if (lane_is_carried(s, n)) lane_carry(s, n, ticket);
    return WEFT_OK;
}

weft_status cuda_collect(weft_session *s, runnable *r, const step *st, cudaEvent_t after, weft_error *error) {
    return is_enqueued(s) ? enqueue(s, r, st, after, error) : start_staged(s, r, st, after, error);
}

/* ---- waiting ---- */

/* A staged collective ends, and its result goes back on the compute stream, in front of what needs it. */
static weft_status finish(weft_session *s, const step *st, cuda_stage *stage, weft_error *error) {
    if (!stage->ticket) return WEFT_OK;
    weft_status status = weft_comm_wait(group_of(s, st->node), stage->ticket - 1, error);
    stage->ticket = 0;
    if (status) return status;
    CUDA_TRY(cudaMemcpyAsync(st->out[0].data, stage->buffer, stage->bytes, cudaMemcpyHostToDevice,
                             s->cuda->compute),
             "bringing a collective's result back");
    return WEFT_OK;
}

/* All staged sums up to `start` have come: the compute lane waits for the last of several alone. */
static weft_status await_staged(weft_session *s, runnable *r, const weft_node *start, weft_error *error) {
    weft_status status = WEFT_OK;
    for (int i = 0; i < r->n_steps && !status; i++) {
        const step *st = &r->steps[i];
        const weft_node *n = st->node;
        if (!node_starts_collective(n) || lane_is_carried(s, n)) continue;
        status = finish(s, st, stage_of(s, r, n), error);
        if (n == start) break;
    }
    return status;
}

weft_status cuda_await(weft_session *s, runnable *r, const weft_node *start, cudaEvent_t ended,
                       weft_error *error) {
    if (!is_enqueued(s)) return await_staged(s, r, start, error);
    CUDA_TRY(cudaStreamWaitEvent(s->cuda->compute, ended, 0), "ordering behind a collective");
    return WEFT_OK;
}

/* Staged gathers of a segment that are under way, in the order in which they began: of several the last one holds. */
static weft_status finish_gathers(weft_session *s, const weft_variable *segment, weft_error *error) {
    weft_status status = WEFT_OK;
    for (int i = 0; i < s->plan->n_programs && !status; i++)
        for (int k = 0; k < s->programs[i].n_steps && !status; k++) {
            const step *st = &s->programs[i].steps[k];
            if (node_starts_collective(st->node) && st->node->variable == segment &&
                lane_is_carried(s, st->node))
                status = finish(s, st, stage_of(s, &s->programs[i], st->node), error);
        }
    return status;
}

weft_status cuda_arrive(weft_session *s, const weft_variable *segment, weft_error *error) {
    weft_status status = WEFT_OK;
    if (!s->carried[segment->index]) return WEFT_OK;
    if (is_enqueued(s))
        CUDA_TRY(cudaStreamWaitEvent(s->cuda->compute, s->cuda->arrived[segment->index], 0),
                 "ordering behind a gather");
    else
        status = finish_gathers(s, segment, error);
    lane_uncarry(s, segment);
    return status;
}

/* After a failure: what is under way works on the session's memory. */
void cuda_drain(weft_session *s, runnable *r) {
    if (is_enqueued(s)) {
        cudaStreamSynchronize(s->cuda->communication);
        return;
    }
    for (int i = 0; i < r->n_steps; i++) {
        const weft_node *n = r->steps[i].node;
        if (node_starts_collective(n) && !lane_is_carried(s, n))
            finish(s, &r->steps[i], stage_of(s, r, n), NULL);
    }
}
