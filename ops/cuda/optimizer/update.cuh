/* update.cuh - one pass over flat buffers. A STEP has
 *     real                    the buffers' type
 *     prepare()               numbers that all elements share, computed once for each block
 *     run<N>(numbers, i)      elements [i, i + N)
 */
#ifndef WEFT_OPS_CUDA_OPTIMIZER_UPDATE_CUH
#define WEFT_OPS_CUDA_OPTIMIZER_UPDATE_CUH

#include "ops/cuda/kit/vectors.cuh"

extern "C" {
#include "ops/optimizer/update.h"
}

enum { UPDATE_THREADS = 256, UPDATE_WAVES = 16 };

/* N elements to a thread; the n % N elements at the end go one by one to the first threads. */
template <class STEP, int N>
__global__ void __launch_bounds__(UPDATE_THREADS) update_elements(STEP step, int64_t n) {
    SHARED_ARRAY(typename STEP::numbers, shared, [1]);
    int64_t first = (int64_t)blockIdx.x * UPDATE_THREADS + threadIdx.x,
            stride = (int64_t)gridDim.x * UPDATE_THREADS;
    if (threadIdx.x == 0) shared[0] = step.prepare();
    __syncthreads();
    typename STEP::numbers s = shared[0];
    for (int64_t i = first; i < n / N; i += stride) step.template run<N>(s, i * N);
    if (N > 1 && first < n % N) step.template run<1>(s, n / N * N + first);
}

/* Launches `step` over all elements, with vectors of 16 bytes where all of `buffers` are aligned for them. */
template <class STEP>
static weft_status update_launch(const kernel_call *c, STEP step, const void *const *buffers, int count) {
    constexpr int V = vector_width<typename STEP::real>;
    int64_t n = type_elements(&c->in[0].type);
    bool vectored = true;
    for (int i = 0; i < count; i++) vectored = vectored && is_vectored<typename STEP::real>(buffers[i], 0);
    if (!vectored)
        return launch(c, update_elements<STEP, 1>, dim3(blocks_for(c, n, UPDATE_THREADS, UPDATE_WAVES)),
                      dim3(UPDATE_THREADS), 0, step, n);
    return launch(c, update_elements<STEP, V>,
                  dim3(blocks_for(c, (n + V - 1) / V, UPDATE_THREADS, UPDATE_WAVES)), dim3(UPDATE_THREADS), 0,
                  step, n);
}

/* Calls f(R()) where R is the type of the buffers. */
template <class F> static weft_status with_real(const kernel_call *c, F f) {
    return c->in[0].type.dtype == WEFT_F64 ? f(double()) : f(float());
}

template <class R> static R *flat(const tensor *t) {
    return static_cast<R *>(t->data);
}

/* An f64[] operand in the GPU's memory; NULL where it is left out. */
static inline const double *scalar_at(const kernel_call *c, int i) {
    return i < c->n_in ? static_cast<const double *>(c->in[i].data) : NULL;
}

__device__ static inline float root(float x) {
    return sqrtf(x);
}
__device__ static inline double root(double x) {
    return sqrt(x);
}

#endif
