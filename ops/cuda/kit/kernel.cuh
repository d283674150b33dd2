/* kernel.cuh - what the .cu files of this folder begin with: launching, elements of any type as float, sums over a block
 * in a fixed order.
 *
 * The same sources are compiled by nvcc for GPUs and by a plain C++ compiler for the tests, where tests/cuda_host emulates
 * the GPU (threads of a block one after the other, barriers and shuffles included). So: no inline PTX without a plain
 * C++ twin, dynamic shared memory by SHARED_MEMORY, launches by launch().
 */
#ifndef WEFT_OPS_CUDA_KIT_KERNEL_CUH
#define WEFT_OPS_CUDA_KIT_KERNEL_CUH

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include "ops/cuda/kit/start.cuh"

extern "C" {
#include "ops/cuda/cuda.h"
}

/* `type name[]`: the block's dynamic shared memory. */
#ifndef SHARED_MEMORY /* tests/cuda_host has its own */
#define SHARED_MEMORY(type, name)                                                                            \
    extern __shared__ __align__(16) unsigned char dynamic_shared_memory[];                                   \
    type *name = reinterpret_cast<type *>(dynamic_shared_memory)
#endif
/* `type name[4][32]` in shared memory: SHARED_ARRAY(type, name, [4][32]). */
#ifndef SHARED_ARRAY
#define SHARED_ARRAY(type, name, dimensions) __shared__ type name dimensions
#endif

/* ---- launching ---- */

static inline weft_status cuda_check(const kernel_call *c, cudaError_t result) {
    if (result == cudaSuccess) return WEFT_OK;
    char node[200];
    return error_set(c->error, WEFT_DEVICE, "graph %s: %s: %s", c->node->graph->name, node_show(c->node, node),
                     cudaGetErrorString(result));
}

/* kernel<<<grid, block, shared>>>(args...) on the call's stream. More than 48 KiB of shared memory are asked for here. */
template <class... P, class... A>
static weft_status launch(const kernel_call *c, void (*kernel)(P...), dim3 grid, dim3 block, size_t shared, A... args) {
    if (grid.x == 0 || grid.y == 0 || grid.z == 0) return WEFT_OK; /* nothing to do is no error */
    if (shared > 48 << 10) {
        cudaError_t result =
            cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared);
        if (result != cudaSuccess) return cuda_check(c, result);
    }
    return cuda_check(c, cuda_start(static_cast<cudaStream_t>(c->cuda->stream), kernel, grid, block, shared, args...));
}

/* Blocks for `count` threads' worth of work, at most `waves` of the whole GPU: loops stride by the grid. */
static inline unsigned blocks_for(const kernel_call *c, int64_t count, int threads, int waves = 32) {
    int64_t blocks = (count + threads - 1) / threads, most = (int64_t)c->cuda->multiprocessors * waves;
    return (unsigned)(blocks < most ? blocks : most);
}

/* ---- elements ---- */

template <class T> __device__ static inline float to_float(T x) { return static_cast<float>(x); }
template <> __device__ inline float to_float(__nv_bfloat16 x) { return __bfloat162float(x); }
template <> __device__ inline float to_float(__half x) { return __half2float(x); }

template <class T> __device__ static inline T from_float(float x) { return static_cast<T>(x); }
template <> __device__ inline __nv_bfloat16 from_float(float x) { return __float2bfloat16_rn(x); }
template <> __device__ inline __half from_float(float x) { return __float2half_rn(x); }

/* f(T()) with T the C++ type of a floating dtype: f takes `auto` and uses decltype. One switch for all kernels. */
template <class F> static weft_status with_float(const kernel_call *c, weft_dtype dtype, F f) {
    switch (dtype) {
    case WEFT_F32: return f(float());
    case WEFT_BF16: return f(__nv_bfloat16());
    case WEFT_F16: return f(__half());
    default: return kernel_fail(c, "%s on a GPU: its type is not f32, bf16 or f16", c->node->op->name);
    }
}

/* ---- sums in a fixed order: the same bits on every run ---- */

__device__ static inline float warp_sum(float x) {
    for (int step = 16; step > 0; step /= 2) x += __shfl_xor_sync(0xffffffffu, x, step);
    return x;
}

__device__ static inline float warp_max(float x) {
    for (int step = 16; step > 0; step /= 2) x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, step));
    return x;
}

/* Over a block of 32 k threads; all threads get it. `scratch`: 32 floats of shared memory. */
__device__ static inline float block_sum(float x, float *scratch) {
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = (blockDim.x + 31) / 32;
    x = warp_sum(x);
    __syncthreads(); /* scratch may still be read from the last time */
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
    return warp_max(lane < warps ? scratch[lane] : scratch[0]);
}

/* The first thread that meets a bad value notes it; the run goes on with garbage and its end tells. */
__device__ static inline void note_failure(cuda_failure *failure, int order, int64_t value) {
    if (atomicCAS(&failure->order, 0, order + 1) != 0) return;
    failure->value = value;
    failure->program = failure->running;
}

#endif
