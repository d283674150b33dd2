/* cuda.h - what rows (.c) and kernels (.cu) of this folder share, in C without a word of CUDA: rows are compiled on any
 * machine, so that a plan for a GPU needs neither GPU nor toolkit. */
#ifndef WEFT_OPS_CUDA_CUDA_H
#define WEFT_OPS_CUDA_CUDA_H

#include "graph/core/kernel.h"
#include "ops/kit/op_kit.h"

/* The first value that broke its kernel's rule; in the GPU's memory, read when the host next waits. */
typedef struct cuda_failure {
    int order;     /* of the node in the schedule, plus 1; 0: none */
    int program;   /* whose schedule: what `running` was */
    int running;   /* set as each run begins */
    int64_t value; /* the offending one */
} cuda_failure;

/* What a session holds on its GPU. */
typedef struct cuda_context {
    void *stream;     /* cudaStream_t of the compute stream: all kernels' work goes there */
    void *blas, *dnn; /* cublasLtHandle_t, cudnnHandle_t, set to that stream */
    int multiprocessors;
    int capability;        /* 90: compute capability 9.0 */
    cuda_failure *failure; /* in the GPU's memory */
    struct cuda_programs *programs; /* compiled pointwise kernels; NULL: each node has its own */
} cuda_context;

/* Pointwise kernels that NVRTC compiled, by content: one list a session. */
struct cuda_programs *cuda_programs_new(const weft_env *env);
void cuda_programs_free(struct cuda_programs *list);

/* Bytes that a library call may use as scratch, at most: what plans set aside for each goes by its size up to that,
 * algorithms are picked under it. */
enum { CUDA_BLAS_WORKSPACE = 32 << 20, CUDA_DNN_WORKSPACE = 256 << 20 };

#define RUN(name)                                                                                            \
    extern const weft_kernel cuda_##name;                                                                    \
    weft_status cuda_##name##_run(void *state, const kernel_call *c);
#define OPEN(name)                                                                                           \
    RUN(name)                                                                                                \
    weft_status cuda_##name##_open(const weft_node *n, const kernel_env *env, void **state,                  \
                                   weft_error *error);                                                       \
    void cuda_##name##_close(void *state);
#include "ops/cuda/list.h"
#undef RUN
#undef OPEN

/* In a row: its run (and open, close), where this build has CUDA. */
#ifdef WEFT_HAS_CUDA
#define CUDA_RUN(name)  .run = cuda_##name##_run
#define CUDA_OPEN(name) .open = cuda_##name##_open, .run = cuda_##name##_run, .close = cuda_##name##_close
#else
#define CUDA_RUN(name)  .run = NULL
#define CUDA_OPEN(name) .open = NULL, .run = NULL, .close = NULL
#endif

#endif
