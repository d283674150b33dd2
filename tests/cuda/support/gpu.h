/* gpu.h - a GPU for tests of single kernels: a context such as a session has, and operands that are copied
 * there and back. The same for the emulated GPU and for a real one. */
#ifndef WEFT_TEST_GPU_H
#define WEFT_TEST_GPU_H

#include "ops/cuda/cuda.h"
#include "support/kernel_check.h"
#include "support/test.h"

typedef struct gpu {
    cuda_context context;
    run_state *run; /* in the GPU's memory */
    kernel_env env;
    bool expects_work; /* gpu_run checks on the emulated GPU that a node launches what node_work_of says */
} gpu;

/* Returns NULL when there is no GPU, after a failed check with the reason. Free with gpu_close. */
gpu *gpu_open(void);
void gpu_close(gpu *g);

/* A kernel_runner (support/kernel_check.h): copies operands to the GPU, runs the kernel, copies everything
 * back. Operands that the op does not write must come back unchanged. env->cuda is the context of a gpu. */
weft_status gpu_run(weft_node *n, const weft_kernel *kernel, const kernel_env *env, const tensor *in,
                    const tensor *out, weft_error *error);

#endif
