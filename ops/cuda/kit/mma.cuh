/* mma.cuh - tensor cores for own kernels: products of 16x8x16 tiles by a warp, the loads that go with them, and copies
 * into shared memory that the threads do not wait for. Under nvcc the instructions of the PTX ISA (chapters "mma.m16n8k16",
 * "ldmatrix", "cp.async"; all from sm_80 on), in plain C++ the same through the warp of tests/cuda_host.
 *
 * Lane `l` holds, with row = l / 4 and column = l % 4 (each register two elements, the lower column in the low half):
 *   a[0..3]  A[16][16]: rows row, row + 8, row, row + 8; columns 2 column .. + 1 in a[0], a[1], 8 more in a[2], a[3]
 *   b[0..1]  B[16][8]:  rows (k) 2 column .. + 1, and 8 more; column row
 *   d[0..3]  D[16][8]:  row: columns 2 column, 2 column + 1; then row + 8
 */
#ifndef WEFT_OPS_CUDA_KIT_MMA_CUH
#define WEFT_OPS_CUDA_KIT_MMA_CUH

#include "ops/cuda/kit/kernel.cuh"

#ifdef __CUDACC__

/* D += A B in f32. */
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

/* N 8x8 tiles of 2-byte elements: lanes 8 i .. 8 i + 7 give the addresses of tile i's rows (16 bytes, aligned, shared
 * memory); r[i] of lane l is elements 2 (l % 4) and the next of row l / 4. `_trans`: of column l / 4. */
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

/* 16 bytes (aligned) from the GPU's memory into shared memory; where `valid` is false, zeroes. */
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
/* Ends a group of copies; then waits until all but the newest `left` groups are there (for this thread: a barrier tells
 * the others). */
__device__ static inline void copy_async_commit() {
    asm volatile("cp.async.commit_group;\n" ::: "memory");
}
template <int left> __device__ static inline void copy_async_wait() {
    asm volatile("cp.async.wait_group %0;\n" ::"n"(left) : "memory");
}

/* 2^x by one instruction: 2 units of the last place off at most, results below 2^-126 are 0. */
__device__ static inline float fast_exp2(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

#else

#include <cuda_host/mma.h>

#endif
#endif
