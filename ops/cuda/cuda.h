/* cuda.h - what rows (.c) and kernels (.cu) of this folder share, in plain C without CUDA's headers: rows are
 * compiled on any machine, so that planning for a GPU needs neither GPU nor toolkit. */
#ifndef WEFT_OPS_CUDA_CUDA_H
#define WEFT_OPS_CUDA_CUDA_H

#include "graph/core/kernel.h"
#include "ops/kit/op_kit.h"
#include "ops/roof.h"

/* The first value that broke its kernel's rule. In the GPU's memory; the host reads it when it next waits for
 * the GPU. */
typedef struct cuda_failure {
    int order;     /* position of the node in the schedule, plus 1; 0: no failure */
    int program;   /* whose schedule: the value of `running` at the failure */
    int running;   /* the program that runs now; set as each run begins */
    int64_t value; /* the offending value */
    int64_t place; /* its number in its tensor, in row-major order; -1: unknown */
} cuda_failure;

/* What a session holds for its GPU. */
typedef struct cuda_context {
    void *stream;     /* cudaStream_t of the compute stream: all kernels are launched on it */
    void *blas, *dnn; /* cublasLtHandle_t, cudnnHandle_t, set to that stream */
    int multiprocessors;
    const roof *roof;               /* its peaks (ops/roof.h); NULL: not in the table */
    int capability;                 /* 10 major + minor: 90 is compute capability 9.0 */
    cuda_failure *failure;          /* in the GPU's memory */
    struct cuda_programs *programs; /* compiled pointwise kernels; NULL: each node compiles its own */
} cuda_context;

/* The pointwise kernels that NVRTC compiled, found by their source: one list for each session. */
struct cuda_programs *cuda_programs_new(const weft_env *env);
void cuda_programs_free(struct cuda_programs *list);

/* Most bytes that a library call may use as scratch. A plan reserves less for small problems; the algorithms
 * are chosen under what it reserved. */
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

/* The function pointers of a row: NULL in a build without CUDA, which can plan for a GPU but not run on
 * it. */
#ifdef WEFT_HAS_CUDA
#define CUDA_RUN(name)  .run = cuda_##name##_run
#define CUDA_OPEN(name) .open = cuda_##name##_open, .run = cuda_##name##_run, .close = cuda_##name##_close
#else
#define CUDA_RUN(name)  .run = NULL
#define CUDA_OPEN(name) .open = NULL, .run = NULL, .close = NULL
#endif

/* The row of our kernel NAME of op OF; its other fields come last, with its run. */
#define CUDA_KERNEL_OF(NAME, OF, ...)                                                                        \
    const weft_kernel cuda_##NAME = {.name = "cuda", .op = &weft_op_##OF, __VA_ARGS__}
/* The same for a kernel with the name of its op, and its own run. */
#define CUDA_KERNEL(OF, ...) CUDA_KERNEL_OF(OF, OF, CUDA_RUN(OF), __VA_ARGS__)

#endif
