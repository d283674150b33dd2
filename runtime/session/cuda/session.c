/* session.c - opens, feeds, fetches and closes a session on a GPU. Three streams: compute, communication,
 * and copies of inputs, none of which waits for CUDA's default stream. Nothing here uses that one or waits
 * for the whole device: a session in another thread may be capturing (captures.c). */
#include "runtime/session/cuda/session.h"

#include <cublasLt.h>
#include <cudnn.h>
#include <string.h>

/* ---- opening ---- */

/* Non-blocking: these streams do not wait for the default stream, nor it for them. */
static weft_status open_streams(struct cuda_session *c, weft_error *error) {
    cudaStream_t *const streams[] = {&c->compute, &c->communication, &c->copy};
    for (int i = 0; i < 3; i++)
        CUDA_TRY(cudaStreamCreateWithFlags(streams[i], cudaStreamNonBlocking), "creating a stream");
    for (int i = 0; i < 3; i++) c->work.queues[i] = *streams[i];
    return WEFT_OK;
}

/* Finds the GPU, and opens cuBLASLt, cuDNN and the cache of compiled programs, which kernels find in
 * kernel_env.cuda. */
static weft_status open_context(weft_session *s, weft_error *error) {
    struct cuda_session *c = s->cuda;
    struct cudaDeviceProp about;
    CUDA_TRY(cudaGetDeviceProperties(&about, c->work.index), "asking for its properties");
    c->context.multiprocessors = about.multiProcessorCount;
    c->context.roof = roof_of_device(about.name);
    c->context.capability = about.major * 10 + about.minor;
    c->context.stream = c->compute;
    /* One handle of each library for a session: all its kernels run on one compute stream. */
    cublasLtHandle_t blas;
    if (cublasLtCreate(&blas) != CUBLAS_STATUS_SUCCESS)
        return error_set(error, WEFT_DEVICE, "the GPU: cuBLASLt could not be opened");
    c->context.blas = blas;
    cudnnHandle_t dnn;
    cudnnStatus_t made = cudnnCreate(&dnn);
    if (made != CUDNN_STATUS_SUCCESS)
        return error_set(error, WEFT_DEVICE, "the GPU: cuDNN could not be opened: %s",
                         cudnnGetErrorString(made));
    c->context.dnn = dnn;
    if (cudnnSetStream(dnn, c->compute) != CUDNN_STATUS_SUCCESS)
        return error_set(error, WEFT_DEVICE, "the GPU: cuDNN does not take the stream");
    c->context.programs = cuda_programs_new(&s->env);
    if (!c->context.programs) return error_memory(error, "session");
    s->kernels.cuda = &c->context;
    return WEFT_OK;
}

/* In the session's memory, before what a guard keeps: what a run passes to its kernels (CUDA_RUN_BYTES), then
 * two slots for inputs. */
static weft_status open_slots(weft_session *s, weft_error *error) {
    struct cuda_session *c = s->cuda;
    char *at = s->memory + session_bytes(s->plan) - s->plan->memory.guard - s->plan->memory.inputs;
    size_t bytes = (s->plan->memory.inputs - CUDA_RUN_BYTES) / 2;
    s->cuda_run = (run_state *)at;
    c->context.failure = (cuda_failure *)(at + CUDA_RUN_BYTES / 2);
    CUDA_TRY(cudaMemsetAsync(at, 0, CUDA_RUN_BYTES, c->compute), "clearing");
    CUDA_TRY(cudaStreamSynchronize(c->compute), "clearing");
    for (int i = 0; i < 2; i++) {
        cuda_slot *slot = &c->slots[i];
        slot->device = at + CUDA_RUN_BYTES + (size_t)i * bytes;
        slot->bytes = bytes;
        CUDA_TRY(cudaEventCreateWithFlags(&slot->arrived, cudaEventDisableTiming), "creating an event");
        CUDA_TRY(cudaEventCreateWithFlags(&slot->read, cudaEventDisableTiming), "creating an event");
    }
    return WEFT_OK;
}

/* On an error the session is closed, which frees what was opened. */
static weft_status open_cuda(weft_session *s, weft_error *error) {
    size_t programs = (size_t)s->plan->n_programs + 1, variables = (size_t)s->plan->model->n_variables + 1;
    struct cuda_session *c = s->cuda = arena_new(&s->arena, sizeof *c);
    if (!c) return error_memory(error, "session");
    c->launches = arena_new_array(&s->arena, programs, sizeof *c->launches);
    c->stages = arena_new_array(&s->arena, programs, sizeof *c->stages);
    c->meets = arena_new_array(&s->arena, programs, sizeof *c->meets);
    c->arrived = arena_new_array(&s->arena, variables, sizeof *c->arrived);
    if (!c->launches || !c->stages || !c->meets || !c->arrived) return error_memory(error, "session");
    CUDA_TRY(cudaGetDevice(&c->work.index), "asking for its number");
    weft_status status = open_streams(c, error);
    if (!status) store_add_work(s->store, &c->work);
    if (!status) status = open_context(s, error);
    return status ? status : open_slots(s, error);
}

static weft_status prepare_cuda(weft_session *s, weft_error *error) {
    weft_status status = cuda_prepare_launches(s, error);
    if (!status) status = cuda_prepare_watch(s, error);
    return status ? status : cuda_comm_stream_prepare(s, error);
}

static void destroy_event(cudaEvent_t event) {
    if (event) cudaEventDestroy(event);
}

/* Freeing handles waits for the device, and so may unloading programs. */
static void close_libraries(struct cuda_session *c) {
    cuda_captures_hold(c->work.index);
    cuda_programs_free(c->context.programs);
    if (c->context.dnn) cudnnDestroy(c->context.dnn);
    if (c->context.blas) cublasLtDestroy(c->context.blas);
    cuda_captures_release(c->work.index);
}

/* Everything may be missing, since a failed open ends here too. Waits for the session's streams before it
 * frees anything. */
static void close_cuda(weft_session *s) {
    struct cuda_session *c = s->cuda;
    cudaStream_t const streams[] = {c ? c->compute : NULL, c ? c->communication : NULL, c ? c->copy : NULL};
    if (!c) return;
    for (int i = 0; i < 3; i++)
        if (streams[i]) cudaStreamSynchronize(streams[i]);
    store_remove_work(s->store, &c->work);
    if (c->launches) cuda_forget_launches(s);
    if (c->stages) cuda_comm_stream_forget(s);
    for (int i = 0; i < 2; i++) {
        if (c->slots[i].host) cudaFreeHost(c->slots[i].host);
        destroy_event(c->slots[i].arrived);
        destroy_event(c->slots[i].read);
    }
    destroy_event(c->step_began);
    destroy_event(c->step_ended);
    for (int i = 0; c->arrived && i < s->plan->model->n_variables; i++) destroy_event(c->arrived[i]);
    close_libraries(c);
    for (int i = 0; i < 3; i++)
        if (streams[i]) cudaStreamDestroy(streams[i]);
    s->cuda = NULL;
}

/* ---- feeding ---- */

static weft_status copy_there(weft_session *s, void *to, const void *from, size_t bytes, weft_error *error) {
    CUDA_TRY(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, s->cuda->compute), "copying");
    return WEFT_OK;
}

/* Those of the slot that was fed last, where they lie as they are kept. */
static weft_status keep_inputs(weft_session *s, const bound_program *r, char *to, weft_error *error) {
    const char *from = s->cuda->slots[s->cuda->next_slot ^ 1].device;
    return r->n_inputs ? copy_there(s, to, from, r->input_bytes, error) : WEFT_OK;
}

static weft_status copy_from_pinned(weft_session *s, char *to, const char *from, size_t bytes,
                                    weft_error *error) {
    CUDA_TRY(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, s->cuda->copy), "copying inputs");
    return WEFT_OK;
}

/* By way of the slot's pinned memory, which is made on first use. In pieces, so that the GPU copies one while
 * the host writes the next. */
static weft_status copy_from_pageable(weft_session *s, cuda_slot *slot, size_t at, const char *from,
                                      size_t bytes, weft_error *error) {
    enum { PIECE = 4 << 20 };
    weft_status status = WEFT_OK;
    if (!slot->host)
        CUDA_TRY(cudaMallocHost((void **)&slot->host, slot->bytes), "allocating pinned memory for inputs");
    for (size_t done = 0; done < bytes && !status; done += PIECE) {
        size_t n = bytes - done < PIECE ? bytes - done : PIECE;
        memcpy(slot->host + at + done, from + done, n);
        status = copy_from_pinned(s, slot->device + at + done, slot->host + at + done, n, error);
    }
    return status;
}

/* CUDA answers for any memory; what it does not know has another type. */
static weft_status find_pinned(const void *memory, bool *is_pinned, weft_error *error) {
    struct cudaPointerAttributes about;
    CUDA_TRY(cudaPointerGetAttributes(&about, memory), "asking where an input lies");
    *is_pinned = about.type == cudaMemoryTypeHost;
    return WEFT_OK;
}

static weft_status copy_input(weft_session *s, cuda_slot *slot, size_t at, const input_binding *input,
                              weft_error *error) {
    bool is_pinned = false;
    weft_status status = find_pinned(input->data, &is_pinned, error);
    if (status) return status;
    slot->lends = slot->lends || is_pinned;
    return is_pinned ? copy_from_pinned(s, slot->device + at, input->data, input->bytes, error)
                     : copy_from_pageable(s, slot, at, input->data, input->bytes, error);
}

/* Copies the feeds to the free slot, on the copy stream: the run before may still be working. The compute
 * stream waits for the copy. */
weft_status cuda_feed(weft_session *s, bound_program *r, weft_error *error) {
    struct cuda_session *c = s->cuda;
    cuda_slot *slot = &c->slots[c->next_slot];
    /* The slots take turns. */
    if (!r->n_inputs) return WEFT_OK;
    c->next_slot ^= 1;
    slot->lends = false;
    /* The slot's last copy to the GPU has ended (its host memory is free), and the copy stream waits for its
     * last reader. */
    weft_status status = cuda_wait(s, c->copy, slot->arrived, "waiting for an input buffer", error);
    if (status) return status;
    CUDA_TRY(cudaStreamWaitEvent(c->copy, slot->read, 0), "ordering inputs");
    for (int i = 0; i < r->n_inputs && !status; i++) {
        size_t at = r->inputs[i].at;
        status = copy_input(s, slot, at, &r->inputs[i], error);
        for (int k = 0; k < r->n_relocations; k++)
            if (r->relocations[k].input == i)
                r->relocations[k].operand->data = slot->device + at + r->relocations[k].offset;
    }
    CUDA_TRY(cudaEventRecord(slot->arrived, c->copy), "ordering inputs");
    CUDA_TRY(cudaStreamWaitEvent(c->compute, slot->arrived, 0), "ordering inputs");
    if (status) return status;
    return r->keep ? keep_inputs(s, r, r->keep, error) : WEFT_OK;
}

/* Pinned feeds are copied without the host, and are the caller's again when the run returns. */
weft_status cuda_return_feeds(weft_session *s, const bound_program *r, weft_error *error) {
    struct cuda_session *c = s->cuda;
    const cuda_slot *slot = &c->slots[c->next_slot ^ 1];
    if (!r->n_inputs || !slot->lends) return WEFT_OK;
    return cuda_wait(s, c->copy, slot->arrived, "copying inputs", error);
}

/* ---- fetching ---- */

/* The step at this place of the program's schedule, if its kernel has a rule for data. */
static const step *step_at(const bound_program *r, int order) {
    for (int k = 0; k < r->n_steps; k++)
        if (r->steps[k].node->order == order && r->steps[k].kernel && r->steps[k].kernel->data_rule)
            return &r->steps[k];
    return NULL;
}

/* The guard of the run that failed has seen it, too: the step is bad, and tells it by itself. */
static bool is_guarded(const weft_session *s, const bound_program *of, int order) {
    return of && of->of && of->guard && order < of->guard->node->order && !s->examines;
}

/* Clears the record, so that the next failure is seen. */
weft_status cuda_check_data(weft_session *s, weft_error *error) {
    cuda_failure met, *at = s->cuda->context.failure;
    cudaStream_t stream = s->cuda->compute;
    char node[200];
    CUDA_TRY(cudaMemcpyAsync(&met, at, sizeof met, cudaMemcpyDeviceToHost, stream),
             "reading the errors of kernels");
    CUDA_TRY(cudaStreamSynchronize(stream), "reading the errors of kernels");
    if (!met.order) return WEFT_OK;
    CUDA_TRY(cudaMemsetAsync(&at->order, 0, sizeof at->order, stream), "clearing the errors of kernels");
    bool is_known = met.program >= 0 && met.program < s->plan->n_programs;
    const bound_program *of = is_known ? &s->programs[met.program] : NULL;
    if (is_guarded(s, of, met.order - 1)) return WEFT_OK;
    s->broken = met.place;
    const step *st = of ? step_at(of, met.order - 1) : NULL;
    if (!st) return error_set(error, WEFT_DATA, "run: a value broke a kernel's rule: %jd", met.value);
    return error_set(error, WEFT_DATA, "graph %s: %s: a value is %jd; %s", of->p->name,
                     node_show(st->node, node), met.value, st->kernel->data_rule);
}

/* Copies an output after all earlier work, then reports failures that kernels have recorded. */
static weft_status fetch(weft_session *s, const bound_program *r, const fetched *from, void *into,
                         weft_error *error) {
    struct cuda_session *c = s->cuda;
    /* cuda_wait comes first: a copy to the caller's memory waits for the stream, and would not see other
     * ranks fail */
    weft_status status = cuda_is_enqueued(s) ? cuda_wait(s, c->compute, NULL, "running", error) : WEFT_OK;
    if (!status) status = cuda_await_calls(s, error);
    if (status) return status;
    CUDA_TRY(cudaMemcpyAsync(into, from->memory, from->bytes, cudaMemcpyDeviceToHost, c->compute),
             "fetching");
    CUDA_TRY(cudaStreamSynchronize(c->compute), "running");
    return cuda_check_data(s, error);
}

/* Stays in the order of the stream, so nothing is waited for. */
static weft_status put_number(weft_session *s, double *to, double value, weft_error *error) {
    CUDA_TRY(cuda_put_number(s->cuda->compute, to, value), "writing a number");
    return WEFT_OK;
}

/* All streams, then run barriers, then failures of kernels, in this order: the first error is the cause. */
static weft_status settle(weft_session *s, weft_error *error) {
    struct cuda_session *c = s->cuda;
    if (!c) return WEFT_OK; /* a failed open */
    cudaStream_t const streams[] = {c->copy, c->compute, c->communication};
    weft_status status = WEFT_OK;
    for (int i = 0; i < 3 && !status; i++) status = cuda_wait(s, streams[i], NULL, "running", error);
    if (!status) status = cuda_await_calls(s, error);
    return status ? status : cuda_check_data(s, error);
}

const executor executor_cuda = {open_cuda,  prepare_cuda, cuda_walk,   fetch,  put_number,
                                copy_there, keep_inputs,  cuda_arrive, settle, close_cuda};
