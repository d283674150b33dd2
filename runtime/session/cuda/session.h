/* session.h - the GPU side of a session, shared by the files of this folder: device.c is the memory;
 * session.c opens, feeds, fetches and closes; walk.c runs a program's launches, comm_stream.c its
 * collectives; watch.c waits; captures.c keeps captures apart from what breaks them. */
#ifndef WEFT_RUNTIME_SESSION_CUDA_SESSION_H
#define WEFT_RUNTIME_SESSION_CUDA_SESSION_H

#include "ops/cuda/cuda.h"
#include "runtime/session/state.h"

#include <cuda_runtime_api.h>

/* One launch of the plan, ready to start. */
typedef struct cuda_launch {
    /* Its nodes that have work, in order. */
    int n_steps;
    step **steps;
    cudaEvent_t ended;    /* only for launches that record an event; else NULL */
    cudaGraphExec_t exec; /* its captured graph, from the second run on */
    bool has_run;         /* all its nodes have run once, so it may be captured */
} cuda_launch;

/* Memory for the inputs of one run. There are two: while one run reads a slot, the host fills the other. */
typedef struct cuda_slot {
    char *device; /* part of the session's memory on the GPU */
    char *host;   /* pinned; NULL until a feed needs it that is not pinned itself */
    size_t bytes;
    bool lends; /* the last run's copies read the caller's memory */
    /* The copy to the GPU has ended; the last reader of the inputs has. */
    cudaEvent_t arrived, read;
} cuda_slot;

/* A collective by way of the host, for communicators that cannot use GPU memory. */
typedef struct cuda_stage {
    const step *step;  /* the step that starts it */
    bool is_in_flight; /* it outlasts its run */
    uint64_t ticket;   /* ticket + 1 of the collective in flight; 0: none */
    /* In the host's memory: a pinned copy of the buffer, and scratch. */
    char *buffer, *scratch;
    size_t bytes, scratch_bytes;
} cuda_stage;

/* A run barrier that has started and is not known to have ended. */
enum { CUDA_CALLS = 16 };
typedef struct cuda_call {
    weft_comm *group;
    uint64_t ticket;
} cuda_call;

struct cuda_session {
    cuda_context context;
    cudaStream_t compute, communication, copy;
    device_work work; /* these streams and the GPU's number, as the store knows them */
    cuda_slot slots[2];
    int next_slot;
    cuda_launch **launches; /* by program */
    cuda_stage **stages;    /* by program and the collective's order; NULL: collectives need none */
    /* by program and subgraph: whether the program has collectives in its process group; NULL: no run
     * barriers */
    bool **meets;
    cuda_call calls[CUDA_CALLS]; /* a ring: n_calls of them from first_call on */
    int first_call, n_calls;
    /* whether the present run captures collectives: equal on all ranks, whatever one of them profiles */
    bool captures_collectives;
    cudaEvent_t *arrived; /* by index of a bucket: the event of its gather in flight, made on first use */
    cudaEvent_t step_began, step_ended; /* of the step that is timed; NULL: none has been */
};

weft_status cuda_fail(weft_error *error, cudaError_t result, const char *doing);
/* Returns an error from the enclosing function if the call fails. */
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
/* Puts a collective on the communication stream. Only for communicators that can. */
weft_status cuda_enqueue(weft_session *s, bound_program *r, const step *st, weft_error *error);
/* After cuda_enqueue: records the event of a collective that outlasts its run. */
weft_status cuda_leave_in_flight(weft_session *s, const step *st, weft_error *error);
/* The other way: starts it by way of the host, after all work on the communication stream. */
weft_status cuda_stage_collective(weft_session *s, bound_program *r, const step *st, weft_error *error);
/* Makes the compute stream wait for a sum of this run (`ended`: its launch's event). cuda_arrive: for an
 * earlier run's gather. */
weft_status cuda_await(weft_session *s, bound_program *r, const weft_node *start, cudaEvent_t ended,
                       weft_error *error);
weft_status cuda_arrive(weft_session *s, const weft_variable *bucket, weft_error *error);
void cuda_drain(weft_session *s, bound_program *r);

/* ---- cuda/watch.c ---- */
/* Whether collectives are put on a stream and there are other ranks, so that waits must watch these. */
bool cuda_is_enqueued(const weft_session *s);
weft_status cuda_prepare_watch(weft_session *s, weft_error *error);
/* Announces to the ranks of r's process groups that this one runs r; does not wait. */
weft_status cuda_run_barrier(weft_session *s, const bound_program *r, weft_error *error);
/* Waits until all ranks have begun the announced runs; or returns the error that ended the communicator. */
weft_status cuda_await_calls(weft_session *s, weft_error *error);
/* Waits until the stream is idle or, if not NULL, the event is reached. If the communicator ends meanwhile:
 * its error, once the streams have ended. */
weft_status cuda_wait(weft_session *s, cudaStream_t stream, cudaEvent_t event, const char *doing,
                      weft_error *error);

/* ---- cuda/captures.c ---- */
/* Around a capture on the GPU of this number: several threads may be in one. */
void cuda_capture_enter(int device);
void cuda_capture_leave(int device);
/* Around calls that wait for the whole GPU, or for a stream of a session in another thread: waits until no
 * thread captures there, and lets none begin. */
void cuda_captures_hold(int device);
void cuda_captures_release(int device);

/* ---- cuda/session.c ---- */
weft_status cuda_feed(weft_session *s, bound_program *r, weft_error *error);
/* Waits until the feeds of the last cuda_feed may change. */
weft_status cuda_return_feeds(weft_session *s, const bound_program *r, weft_error *error);
/* What kernels have recorded: WEFT_DATA with the node and the rule that a value broke. The stream must be
 * idle. */
weft_status cuda_check_data(weft_session *s, weft_error *error);

/* ---- begin.cu ---- */
/* Writes *from to `to`, and the program's index to *running, in the order of the stream. */
cudaError_t cuda_begin_run(cudaStream_t stream, run_state *to, const run_state *from, int *running,
                           int program);
cudaError_t cuda_put_number(cudaStream_t stream, double *to, double value);

#endif
