/* start.cuh - the one way to launch a kernel, with a node or without; converts the arguments to the types of
 * the kernel's parameters. */
#ifndef WEFT_OPS_CUDA_KIT_START_CUH
#define WEFT_OPS_CUDA_KIT_START_CUH

#include <cuda_runtime.h>

/* kernel<<<grid, block, shared, stream>>>(args...) */
template <class... P, class... A>
static cudaError_t cuda_start(cudaStream_t stream, void (*kernel)(P...), dim3 grid, dim3 block, size_t shared,
                              A... args) {
    cudaLaunchConfig_t config = {};
    config.gridDim = grid;
    config.blockDim = block;
    config.dynamicSmemBytes = shared;
    config.stream = stream;
    return cudaLaunchKernelEx(&config, kernel, static_cast<P>(args)...);
}

#endif
