/* session.h - what a session has on its GPU, shared by the files of this folder: cuda/device.c is the memory,
 * cuda/session.c opens, feeds, fetches and closes, cuda/walk.c runs a program's launches, cuda/comm_stream.c its collectives,
 * cuda/watch.c waits. */
#ifndef WEFT_RUNTIME_SESSION_CUDA_SESSION_H
#define WEFT_RUNTIME_SESSION_CUDA_SESSION_H

#include "ops/cuda/cuda.h"
#include "runtime/session/state.h"

#include <cuda_runtime_api.h>

/* One launch, ready to go. */
typedef struct cuda_launch {
    int n_steps;
    step **steps;
    cudaEvent_t ended;    /* for those that record; else NULL */
    cudaGraphExec_t exec; /* from the second run on */
    bool has_run;
} cuda_launch;

/* A place for what is fed: while one run reads it, the host fills the other. */
typedef struct cuda_slot {
    char *host, *device; /* pinned; in the session's memory */
    cudaEvent_t arrived, read;
} cuda_slot;

/* A collective by way of the host, for communicators that know nothing of GPUs. */
typedef struct cuda_stage {
    const step *step; /* that starts it */
    bool is_in_flight; /* it outlasts its run */
    uint64_t ticket;  /* of a collective that is under way in it, plus 1; 0: none */
    char *buffer, *scratch;
    size_t bytes, scratch_bytes;
} cuda_stage;

/* A run barrier that has not been seen to end. */
enum { CUDA_CALLS = 16 };
typedef struct cuda_call {
    weft_comm *group;
    uint64_t ticket;
} cuda_call;

struct cuda_session {
    cuda_context context;
    cudaStream_t compute, communication, copy;
    cuda_slot slots[2];
    int next_slot;
    cuda_launch **launches; /* by program */
    cuda_stage **stages;    /* by program and the collective's order; NULL: collectives need none */
    bool **meets; /* by program and subgraph: whose process groups it meets; NULL: they are not asked */
    cuda_call calls[CUDA_CALLS]; /* n of them, from the first on, round and round */
    int first_call, n_calls;
    bool captures_collectives; /* the run under way: the same on all ranks, whatever is watched on one */
    cudaEvent_t *arrived;      /* of gathers in flight, by the bucket's index; made with the first */
    size_t pinned_bytes;
};

weft_status cuda_fail(weft_error *error, cudaError_t result, const char *doing);
/* Returns from the enclosing function unless the call went well. */
#define CUDA_TRY(call, doing)                                                                                \
    do {                                                                                                     \
        cudaError_t cuda_result_ = (call);                                                                   \
        if (cuda_result_ != cudaSuccess) return cuda_fail(error, cuda_result_, doing);                       \
    } while (0)

/* ---- cuda/walk.c ---- */
weft_status cuda_prepare_launches(weft_session *s, weft_error *error); /* once kernels are built */
void cuda_forget_launches(weft_session *s);
weft_status cuda_walk(weft_session *s, bound_program *r, int *reached, weft_error *error);

/* ---- cuda/comm_stream.c ---- */
weft_status cuda_comm_stream_prepare(weft_session *s, weft_error *error);
void cuda_comm_stream_forget(weft_session *s);
/* Puts a collective on the communication stream, where the communicator can. */
weft_status cuda_enqueue(weft_session *s, bound_program *r, const step *st, weft_error *error);
/* Behind that: what outlasts its run is noted. */
weft_status cuda_leave_in_flight(weft_session *s, const step *st, weft_error *error);
/* Where it cannot: begins it by way of the host, behind all that is on the communication stream. */
weft_status cuda_stage_collective(weft_session *s, bound_program *r, const step *st, weft_error *error);
/* The compute stream goes on when a sum of this run is there (`ended`: its launch's event), or a gather of an earlier one. */
weft_status cuda_await(weft_session *s, bound_program *r, const weft_node *start, cudaEvent_t ended,
                       weft_error *error);
weft_status cuda_arrive(weft_session *s, const weft_variable *bucket, weft_error *error);
void cuda_drain(weft_session *s, bound_program *r);

/* ---- cuda/watch.c ---- */
/* Collectives are put on a stream, and there are other ranks. */
bool cuda_is_enqueued(const weft_session *s);
weft_status cuda_prepare_watch(weft_session *s, weft_error *error);
/* Tells the ranks that this one runs r, and waits for none. */
weft_status cuda_run_barrier(weft_session *s, const bound_program *r, weft_error *error);
/* All ranks have begun the runs that were called, or the error that ended the communicator. */
weft_status cuda_await_calls(weft_session *s, weft_error *error);
/* The stream is idle, or (not NULL) the event reached; or the error that ended the communicator meanwhile: then streams have
 * come to their ends. */
weft_status cuda_wait(weft_session *s, cudaStream_t stream, cudaEvent_t event, const char *doing,
                      weft_error *error);

/* ---- cuda/session.c ---- */
weft_status cuda_feed(weft_session *s, bound_program *r, weft_error *error);
/* What kernels have noted: WEFT_DATA with the node and its rule. The stream must be idle. */
weft_status cuda_check_data(weft_session *s, weft_error *error);

/* ---- begin.cu ---- */
/* `running`: the place in the GPU's memory that says which program runs. */
cudaError_t cuda_begin_run(cudaStream_t stream, run_state *to, const run_state *from, int *running,
                           int program);
cudaError_t cuda_put_number(cudaStream_t stream, double *to, double value);

#endif
