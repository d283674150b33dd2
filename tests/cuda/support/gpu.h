/* gpu.h - a GPU for tests of single kernels: a context such as a session has, and operands that are copied
 * there and back. The same for the emulated GPU and for a real one; GPU_SUITE is for suites that run on
 * both. */
#ifndef WEFT_TEST_GPU_H
#define WEFT_TEST_GPU_H

#include "ops/cuda/cuda.h"
#include "support/kernels/kernel_check.h"
#include "support/test.h"

/* SUITE for a program that is built for both (CMakeLists.txt of tests/cuda_host). */
#define GPU_SUITE(title, ...)                                                                                \
    int main(int argc, char **argv) {                                                                        \
        static const test_case cases[] = __VA_ARGS__;                                                        \
        int missing = gpu_missing();                                                                         \
        return missing ? missing : test_main(title, cases, (int)(sizeof cases / sizeof *cases), argc, argv); \
    }

/* 0 if there is a GPU (the emulated one always is); else the exit status, with the reason on stderr: 77,
 * which ctest shows as skipped, or 1 where WEFT_NEEDS_GPU is set, as tools/gpu.sh does. */
int gpu_missing(void);

typedef struct gpu {
    cuda_context context;
    run_state *run; /* in the GPU's memory */
    kernel_env env;
    bool expects_work; /* gpu_run checks on the emulated GPU that a node launches what node_work_of says */
} gpu;

/* Returns NULL when there is no GPU, after a failed check with the reason. Free with gpu_close. */
gpu *gpu_open(void);
void gpu_close(gpu *g);

/* A kernel_runner (support/kernels/kernel_check.h): copies operands to the GPU, runs the kernel, copies
 * everything back. Operands that the op does not write must come back unchanged. env->cuda is the context
 * of a gpu. */
weft_status gpu_run(weft_node *n, const weft_kernel *kernel, const kernel_env *env, const tensor *in,
                    const tensor *out, weft_error *error);

#endif
