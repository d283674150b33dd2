/* timing.cuh - times the ways in which a library can do a node, for `graphtool calibrate`. Libraries propose
 * dozens of ways, and most take several times as long as the best: a way whose second call (the first loads
 * its code) takes more than DROP_ABOVE times that of the best is timed no further. The others are timed
 * ROUNDS times, of which the best counts. */
#ifndef WEFT_OPS_CUDA_KIT_TIMING_CUH
#define WEFT_OPS_CUDA_KIT_TIMING_CUH

#include <cuda_runtime_api.h>

extern "C" {
#include "graph/core/error.h"
}

constexpr double DROP_ABOVE = 1.3;
/* A single call below this many ms is timed badly, and costs little: it is never dropped. */
constexpr double TIMED_BADLY = 0.05;
/* rounds; most calls of a round, and the ms after which one has enough */
constexpr int ROUNDS = 5, CALLS = 10;
constexpr double ROUND_MS = 10;

typedef struct timing {
    cudaStream_t stream;
    cudaEvent_t begin, end;
    /* ms of one call: of the fastest way, and the least that a single call took; negative: none has run */
    double best, best_single;
    int ways, dropped; /* ways that ran; of these, those that were dropped after one timed call */
} timing;

static inline cudaError_t timing_open(timing *t, cudaStream_t stream) {
    *t = {};
    t->stream = stream;
    t->best = t->best_single = -1;
    cudaError_t result = cudaEventCreateWithFlags(&t->begin, cudaEventDefault);
    return result == cudaSuccess ? cudaEventCreateWithFlags(&t->end, cudaEventDefault) : result;
}

/* Also after a failed timing_open. */
static inline void timing_close(timing *t) {
    if (t->begin) cudaEventDestroy(t->begin);
    if (t->end) cudaEventDestroy(t->end);
}

/* ms of one of `times` calls of run(), which enqueues work on the stream; negative: it does not run. */
template <class F> static double timing_calls(timing *t, F run, int times) {
    float ms;
    if (cudaEventRecord(t->begin, t->stream) != cudaSuccess) return -1;
    for (int i = 0; i < times; i++)
        if (!run()) return -1;
    if (cudaEventRecord(t->end, t->stream) != cudaSuccess || cudaEventSynchronize(t->end) != cudaSuccess ||
        cudaEventElapsedTime(&ms, t->begin, t->end) != cudaSuccess)
        return -1;
    return (double)ms / times;
}

/* Times one way. Returns whether it is the fastest so far. */
template <class F> static bool timing_way(timing *t, F run) {
    if (!run()) return false;
    double single = timing_calls(t, run, 1), best = -1;
    if (single < 0) return false;
    t->ways++;
    bool is_slow = t->best_single >= 0 && single > TIMED_BADLY && single > t->best_single * DROP_ABOVE;
    t->dropped += is_slow;
    if (is_slow) return false;
    if (t->best_single < 0 || single < t->best_single) t->best_single = single;
    int calls = single > ROUND_MS / CALLS ? (int)(ROUND_MS / single) : CALLS;
    for (int i = 0; i < ROUNDS; i++) {
        double ms = timing_calls(t, run, calls > 0 ? calls : 1);
        if (ms < 0) return false;
        if (best < 0 || ms < best) best = ms;
    }
    bool is_best = t->best < 0 || best < t->best;
    if (is_best) t->best = best;
    return is_best;
}

/* What measuring a node came to. Only memory that is out and a lost device are WEFT_MEMORY and WEFT_DEVICE:
 * they fail the nodes after it too. Everything else that a library reports is WEFT_UNSUPPORTED. */
static inline weft_status timing_status(weft_status status, cudaStream_t stream, weft_error *error) {
    if (status == WEFT_OK || status == WEFT_MEMORY) return status;
    cudaError_t device = cudaStreamSynchronize(stream);
    if (device != cudaSuccess)
        return error_set(error, WEFT_DEVICE, "calibrate: the GPU failed: %s", cudaGetErrorString(device));
    if (error) error->status = WEFT_UNSUPPORTED;
    return WEFT_UNSUPPORTED;
}

#endif
