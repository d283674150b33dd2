/* mma.cuh - tensor cores for our own kernels: products of 16 x 8 x 16 tiles by a warp, the loads of their
 * fragments, and asynchronous copies into shared memory. Under nvcc these are instructions of the PTX ISA
 * (chapters "mma.m16n8k16", "ldmatrix", "cp.async"; all need sm_80); in plain C++ the warp of tests/cuda_host
 * does the same.
 *
 * Lane `l` of the warp holds, with row = l / 4 and column = l % 4 (each register has two elements, the lower
 * column in the low half):
 * a[0..3]  A[16][16]: rows row, row + 8, twice; columns 2 column, + 1 in a[0], a[1]; 8 more in a[2], a[3]
 * b[0..1]  B[16][8]:  rows (k) 2 column .. + 1, and 8 more; column row
 * d[0..3]  D[16][8]:  row: columns 2 column, 2 column + 1; then row + 8
 */
#ifndef WEFT_OPS_CUDA_KIT_MMA_CUH
#define WEFT_OPS_CUDA_KIT_MMA_CUH

#include "ops/cuda/kit/kernel.cuh"

#ifdef __CUDACC__

/* D += A B, with products of bf16 or f16 and sums in f32. */
__device__ static inline void mma_16816_bf16(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\n"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
__device__ static inline void mma_16816_f16(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\n"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

/* Load N 8 x 8 tiles of 2-byte elements. Lanes 8 i .. 8 i + 7 give the addresses of the rows of tile i (16
 * bytes each, aligned, in shared memory); r[i] of lane l gets elements 2 (l % 4) and the next of row l / 4.
 * `_trans`: of column l / 4. */
__device__ static inline void ldmatrix_x4(unsigned (&r)[4], const void *row) {
    unsigned at = (unsigned)__cvta_generic_to_shared(row);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\n"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(at)
                 : "memory");
}
__device__ static inline void ldmatrix_x4_trans(unsigned (&r)[4], const void *row) {
    unsigned at = (unsigned)__cvta_generic_to_shared(row);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];\n"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(at)
                 : "memory");
}
__device__ static inline void ldmatrix_x2(unsigned (&r)[2], const void *row) {
    unsigned at = (unsigned)__cvta_generic_to_shared(row);
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];\n"
                 : "=r"(r[0]), "=r"(r[1])
                 : "r"(at)
                 : "memory");
}
__device__ static inline void ldmatrix_x2_trans(unsigned (&r)[2], const void *row) {
    unsigned at = (unsigned)__cvta_generic_to_shared(row);
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];\n"
                 : "=r"(r[0]), "=r"(r[1])
                 : "r"(at)
                 : "memory");
}

/* Starts a copy of 16 (or 4) aligned bytes from global into shared memory, without passing through registers;
 * where `valid` is false it writes zeros and reads nothing. */
__device__ static inline void copy_async_16(void *shared, const void *global, bool valid = true) {
    unsigned at = (unsigned)__cvta_generic_to_shared(shared);
    int bytes = valid ? 16 : 0;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(at), "l"(global), "r"(bytes)
                 : "memory");
}
__device__ static inline void copy_async_4(void *shared, const void *global, bool valid = true) {
    unsigned at = (unsigned)__cvta_generic_to_shared(shared);
    int bytes = valid ? 4 : 0;
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;\n" ::"r"(at), "l"(global), "r"(bytes)
                 : "memory");
}
/* copy_async_commit ends a group of copies. copy_async_wait waits until all but the newest `left` groups of
 * this thread are complete; a barrier then makes them visible to the other threads. */
__device__ static inline void copy_async_commit() {
    asm volatile("cp.async.commit_group;\n" ::: "memory");
}
template <int left> __device__ static inline void copy_async_wait() {
    asm volatile("cp.async.wait_group %0;\n" ::"n"(left) : "memory");
}

/* 2^x by one instruction: off by at most 2 units in the last place; results below 2^-126 are 0. */
__device__ static inline float fast_exp2(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

#else

#include <cuda_host/mma.h>

#endif
#endif
