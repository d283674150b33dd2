/* begin.cu - writes a few bytes from the host to the GPU in the order of a stream. They travel as arguments
 * of a kernel, so no host memory must stay valid until they arrive. */
#include "ops/cuda/kit/kernel.cuh"

extern "C" {
#include "runtime/session/cuda/session.h"
}

static __global__ void set_run(run_state *to, run_state from, int *running, int program) {
    *to = from;
    *running = program;
}

static __global__ void set_number(double *to, double value) {
    *to = value;
}

extern "C" cudaError_t cuda_begin_run(cudaStream_t stream, run_state *to, const run_state *from, int *running,
                                      int program) {
    return cuda_start(stream, set_run, dim3(1), dim3(1), 0, to, *from, running, program);
}

extern "C" cudaError_t cuda_put_number(cudaStream_t stream, double *to, double value) {
    return cuda_start(stream, set_number, dim3(1), dim3(1), 0, to, value);
}
