/* kernel.cuh - what the .cu files of this folder include first: launching, elements of any type as float,
 * sums over a block in a fixed order.
 *
 * The same sources are compiled by nvcc for GPUs and by a plain C++ compiler for the tests, where
 * tests/cuda_host emulates the GPU (one thread of a block after the other, with barriers and shuffles). So
 * there is no inline PTX without a plain C++ version, and sources use SHARED_MEMORY for dynamic shared memory
 * and launch() for launches. */
#ifndef WEFT_OPS_CUDA_KIT_KERNEL_CUH
#define WEFT_OPS_CUDA_KIT_KERNEL_CUH

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include "ops/cuda/kit/start.cuh"

extern "C" {
#include "ops/cuda/cuda.h"
}

/* Declares `type *name` as the block's dynamic shared memory, aligned to 16 bytes. tests/cuda_host has its
 * own version. */
#ifndef SHARED_MEMORY
#define SHARED_MEMORY(type, name)                                                                            \
    extern __shared__ __align__(16) unsigned char dynamic_shared_memory[];                                   \
    type *name = reinterpret_cast<type *>(dynamic_shared_memory)
#endif
/* SHARED_ARRAY(type, name, [4][32]) declares `type name[4][32]` in shared memory. */
#ifndef SHARED_ARRAY
#define SHARED_ARRAY(type, name, dimensions) __shared__ type name dimensions
#endif

/* ---- launching ---- */

/* An error of the runtime as ours, with the graph and the node. */
static inline weft_status cuda_check(const kernel_call *c, cudaError_t result) {
    if (result == cudaSuccess) return WEFT_OK;
    char node[200];
    return error_set(c->error, WEFT_DEVICE, "graph %s: %s: %s", c->node->graph->name,
                     node_show(c->node, node), cudaGetErrorString(result));
}

/* kernel<<<grid, block, shared>>>(args...) on the call's stream; `shared` is bytes of dynamic shared memory.
 * A kernel gets more than 48 KiB only after cudaFuncSetAttribute. */
template <class... P, class... A>
static weft_status launch(const kernel_call *c, void (*kernel)(P...), dim3 grid, dim3 block, size_t shared,
                          A... args) {
    /* nothing to do is not an error, but an empty grid would be */
    if (grid.x == 0 || grid.y == 0 || grid.z == 0) return WEFT_OK;
    if (shared > 48 << 10) {
        cudaError_t result =
            cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared);
        if (result != cudaSuccess) return cuda_check(c, result);
    }
    return cuda_check(
        c, cuda_start(static_cast<cudaStream_t>(c->cuda->stream), kernel, grid, block, shared, args...));
}

/* Blocks for `count` items, `threads` to a block; at most `waves` for each multiprocessor, so kernels loop
 * with the grid as stride. */
static inline unsigned blocks_for(const kernel_call *c, int64_t count, int threads, int waves = 32) {
    int64_t blocks = (count + threads - 1) / threads, most = (int64_t)c->cuda->multiprocessors * waves;
    return (unsigned)(blocks < most ? blocks : most);
}

/* ---- elements ---- */

/* f32, bf16 and f16 are computed as f32; from_float rounds to the nearest, ties to even. */
template <class T> __device__ static inline float to_float(T x) {
    return static_cast<float>(x);
}
template <> __device__ inline float to_float(__nv_bfloat16 x) {
    return __bfloat162float(x);
}
template <> __device__ inline float to_float(__half x) {
    return __half2float(x);
}

template <class T> __device__ static inline T from_float(float x) {
    return static_cast<T>(x);
}
template <> __device__ inline __nv_bfloat16 from_float(float x) {
    return __float2bfloat16_rn(x);
}
template <> __device__ inline __half from_float(float x) {
    return __float2half_rn(x);
}

/* Calls f(T()) where T is the C++ type of a floating dtype; f takes `auto` and uses decltype. All kernels
 * switch on types here. */
template <class F> static weft_status with_float(const kernel_call *c, weft_dtype dtype, F f) {
    switch (dtype) {
    case WEFT_F32:
        return f(float());
    case WEFT_BF16:
        return f(__nv_bfloat16());
    case WEFT_F16:
        return f(__half());
    default:
        return kernel_fail(c, "%s on a GPU: its type is not f32, bf16 or f16", c->node->op->name);
    }
}

/* ---- sums in a fixed order, hence the same bits on every run; all lanes of the warp take part ---- */

/* A butterfly: every lane gets the sum, added in the same order. */
__device__ static inline float warp_sum(float x) {
    for (int step = 16; step > 0; step /= 2) x += __shfl_xor_sync(0xffffffffu, x, step);
    return x;
}

__device__ static inline float warp_max(float x) {
    for (int step = 16; step > 0; step /= 2) x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, step));
    return x;
}

/* The sum over a block of 32 k threads; every thread gets it. `scratch` is 32 floats of shared memory. */
__device__ static inline float block_sum(float x, float *scratch) {
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = (blockDim.x + 31) / 32;
    x = warp_sum(x);
    /* scratch may still be read from the call before */
    __syncthreads();
    if (lane == 0) scratch[warp] = x;
    __syncthreads();
    return warp_sum(lane < warps ? scratch[lane] : 0.0f);
}

__device__ static inline float block_max(float x, float *scratch) {
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = (blockDim.x + 31) / 32;
    x = warp_max(x);
    __syncthreads();
    if (lane == 0) scratch[warp] = x;
    __syncthreads();
    /* lanes past the last warp repeat the first value, which does not change a maximum */
    return warp_max(lane < warps ? scratch[lane] : scratch[0]);
}

/* The first thread that finds a bad value records it. The run continues with garbage, and the session reports
 * the error at its end. */
__device__ static inline void note_failure(cuda_failure *failure, int order, int64_t value,
                                           int64_t place) {
    if (atomicCAS(&failure->order, 0, order + 1) != 0) return;
    failure->value = value;
    failure->place = place;
    failure->program = failure->running;
}

#endif
