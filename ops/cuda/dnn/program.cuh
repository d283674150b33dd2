/* program.cuh - kernels that are compiled when a session opens: NVRTC compiles their source for the session's
 * GPU. A source that was compiled before is found again by its hash, in the session and on disk
 * (program_cache.h). */
#ifndef WEFT_OPS_CUDA_DNN_PROGRAM_CUH
#define WEFT_OPS_CUDA_DNN_PROGRAM_CUH

#include "ops/cuda/kit/kernel.cuh"

/* The two kernels of a source (fuse.h): for vectors of 16 bytes, and for operands that are not aligned so. */
struct cuda_program {
    struct cuda_program *next;
    cudaLibrary_t library;
    cudaKernel_t vectors, narrow;
    const weft_env *env;
    uint64_t key[2]; /* program_key of source and compiler */
    bool is_shared;  /* the session's list owns it; else the node that opened it */
};

/* Finds or compiles the program; cuda_program_close after use. */
weft_status cuda_program_open(const kernel_env *env, const char *source, cuda_program **program,
                              weft_error *error);
void cuda_program_close(cuda_program *program);

#endif
