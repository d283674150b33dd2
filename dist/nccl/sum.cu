/* sum.cu - see nccl/sum.h. One thread per element: memory is the limit, and the tree's stack is small. */
#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include "ops/cuda/kit/start.cuh"

extern "C" {
#include "dist/nccl/sum.h"
}

/* THREADS per block; at most BLOCKS, which loop over the rest; DEPTH of the stack: up to 2^23 ranks */
enum { THREADS = 256, BLOCKS = 1024, DEPTH = 24 };

/* Rounds x to bf16, as if it had travelled. */
__device__ static inline float through_bf16(float x) {
    return __bfloat162float(__float2bfloat16_rn(x));
}

/* To and from the type of the sum: f32 for bf16, else the element's own type. */
__device__ static inline float wide(float x) {
    return x;
}
__device__ static inline double wide(double x) {
    return x;
}
__device__ static inline float wide(__nv_bfloat16 x) {
    return __bfloat162float(x);
}
__device__ static inline void narrow(float x, float *to) {
    *to = x;
}
__device__ static inline void narrow(double x, double *to) {
    *to = x;
}
__device__ static inline void narrow(float x, __nv_bfloat16 *to) {
    *to = __float2bfloat16_rn(x);
}

/* Leaves are pushed on a stack. Leaf number r is added to as many partial sums as r + 1 has trailing zero
 * bits (a binary counter), and the rest is joined from the right at the end. A is the type of the sum, W that
 * of the others' contributions; rounds_own: the wire is bf16. */
template <class T, class W, class A>
static __global__ void sum_tree(T *into, const W *from, size_t stride, size_t count, int world, int own, int rounds_own) {
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < count; i += (size_t)gridDim.x * blockDim.x) {
        A stack[DEPTH];
        int depth = 0;
        for (int r = 0; r < world; r++) {
            A leaf = r == own ? (A)wide(into[i]) : (A)wide(from[(size_t)r * stride + i]);
            if (r == own && rounds_own) leaf = through_bf16((float)leaf);
            for (int pairs = r + 1; pairs % 2 == 0; pairs /= 2) leaf = stack[--depth] + leaf;
            stack[depth++] = leaf;
        }
        A sum = stack[--depth];
        while (depth) sum = stack[--depth] + sum;
        if (rounds_own) sum = through_bf16((float)sum);
        narrow(sum, &into[i]);
    }
}

static __global__ void to_bf16(__nv_bfloat16 *to, const float *from, size_t count) {
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < count; i += (size_t)gridDim.x * blockDim.x)
        to[i] = __float2bfloat16_rn(from[i]);
}

static __global__ void from_bf16(float *to, const __nv_bfloat16 *from, size_t count) {
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < count; i += (size_t)gridDim.x * blockDim.x)
        to[i] = __bfloat162float(from[i]);
}

template <class... P, class... A>
/* Launches a kernel over `count` elements. */
static cudaError_t start(cudaStream_t stream, size_t count, void (*kernel)(P...), A... args) {
    size_t blocks = (count + THREADS - 1) / THREADS;
    if (count == 0) return cudaSuccess;
    dim3 grid((unsigned)(blocks < (size_t)BLOCKS ? blocks : (size_t)BLOCKS));
    return cuda_start(stream, kernel, grid, dim3(THREADS), 0, args...);
}

extern "C" cudaError_t nccl_sum(cudaStream_t stream, weft_dtype dtype, weft_dtype wire, void *into, const void *from,
                                size_t stride, size_t count, int world, int own) {
    typedef __nv_bfloat16 low;
    if (wire == WEFT_BF16)
        return start(stream, count, sum_tree<float, low, float>, (float *)into, (const low *)from, stride, count, world,
                     own, 1);
    if (dtype == WEFT_F64)
        return start(stream, count, sum_tree<double, double, double>, (double *)into, (const double *)from, stride, count,
                     world, own, 0);
    if (dtype == WEFT_BF16)
        return start(stream, count, sum_tree<low, low, float>, (low *)into, (const low *)from, stride, count, world, own,
                     0);
    return start(stream, count, sum_tree<float, float, float>, (float *)into, (const float *)from, stride, count, world,
                 own, 0);
}

extern "C" cudaError_t nccl_to_bf16(cudaStream_t stream, void *to, const float *from, size_t count) {
    return start(stream, count, to_bf16, (__nv_bfloat16 *)to, from, count);
}

extern "C" cudaError_t nccl_from_bf16(cudaStream_t stream, float *to, const void *from, size_t count) {
    return start(stream, count, from_bf16, to, (const __nv_bfloat16 *)from, count);
}
