/* program.cuh - kernels that are compiled when a session opens: text by NVRTC for the session's GPU, found again by
 * content, in the session and on disk (program_cache.h). */
#ifndef WEFT_OPS_CUDA_DNN_PROGRAM_CUH
#define WEFT_OPS_CUDA_DNN_PROGRAM_CUH

#include "ops/cuda/kit/kernel.cuh"

/* A text's two kernels (fuse.h). */
struct cuda_program {
    struct cuda_program *next;
    cudaLibrary_t library;
    cudaKernel_t vectors, narrow;
    const weft_env *env;
    uint64_t key[2];
    bool is_shared; /* belongs to the session; else to who asked for it */
};

weft_status cuda_program_open(const kernel_env *env, const char *source, cuda_program **program,
                              weft_error *error);
void cuda_program_close(cuda_program *program);

#endif
