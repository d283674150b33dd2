/* gpu.h - a GPU for tests of single kernels: a context as a session has it, and operands that travel there
 * and back. The same on the one that the CPU emulates and on a real one. */
#ifndef WEFT_TEST_GPU_H
#define WEFT_TEST_GPU_H

#include "ops/cuda/cuda.h"
#include "support/kernel_check.h"
#include "support/test.h"

typedef struct gpu {
    cuda_context context;
    run_state *run; /* in the GPU's memory */
    kernel_env env;
} gpu;

/* NULL when there is no GPU, after noting why as a failed check. Free with gpu_close. */
gpu *gpu_open(void);
void gpu_close(gpu *g);

/* A kernel_runner: copies operands over, runs, copies everything back. Operands that the op does not write
 * must come back as they went. env->cuda says where. */
weft_status gpu_run(weft_node *n, const weft_kernel *kernel, const kernel_env *env, const tensor *in,
                    const tensor *out, weft_error *error);

#endif
