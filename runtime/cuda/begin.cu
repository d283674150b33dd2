/* begin.cu - a few bytes from the host to the GPU in the order of a stream, without memory that must stay: they travel as
 * arguments of a kernel. */
#include "ops/cuda/kernel.cuh"

extern "C" {
#include "runtime/cuda/session_cuda.h"
}

static __global__ void set_run(run_state *to, run_state from) {
    *to = from;
}

static __global__ void set_number(double *to, double value) {
    *to = value;
}

template <class... P, class... A> static cudaError_t start(cudaStream_t stream, void (*kernel)(P...), A... args) {
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(1);
    config.blockDim = dim3(1);
    config.stream = stream;
    return cudaLaunchKernelEx(&config, kernel, static_cast<P>(args)...);
}

extern "C" cudaError_t cuda_begin_run(cudaStream_t stream, run_state *to, const run_state *from) {
    return start(stream, set_run, to, *from);
}

extern "C" cudaError_t cuda_put_number(cudaStream_t stream, double *to, double value) {
    return start(stream, set_number, to, value);
}
