/* mma.h - plain C++ versions of ops/cuda/kit/mma.cuh, by the register layouts of the PTX ISA. */
#ifndef CUDA_HOST_MMA_H
#define CUDA_HOST_MMA_H

#include "cuda_host/cuda_bf16.h"
#include "cuda_host/warp.h"

#include <math.h>

/* Both need all lanes of the warp; d and r are the registers of this lane. */
namespace cuda_host {
void mma_16816(bool bf16, float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]);
void load_matrix(int tiles, bool transposed, unsigned *r, const void *row);
} // namespace cuda_host

static inline void mma_16816_bf16(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
    cuda_host::mma_16816(true, d, a, b);
}
static inline void mma_16816_f16(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
    cuda_host::mma_16816(false, d, a, b);
}
static inline void ldmatrix_x4(unsigned (&r)[4], const void *row) {
    cuda_host::load_matrix(4, false, r, row);
}
static inline void ldmatrix_x4_trans(unsigned (&r)[4], const void *row) {
    cuda_host::load_matrix(4, true, r, row);
}
static inline void ldmatrix_x2(unsigned (&r)[2], const void *row) {
    cuda_host::load_matrix(2, false, r, row);
}
static inline void ldmatrix_x2_trans(unsigned (&r)[2], const void *row) {
    cuda_host::load_matrix(2, true, r, row);
}
static inline void copy_async_16(void *shared, const void *global, bool valid = true) {
    cuda_host::copy_later(shared, global, 16, valid ? 16 : 0);
}
static inline void copy_async_4(void *shared, const void *global, bool valid = true) {
    cuda_host::copy_later(shared, global, 4, valid ? 4 : 0);
}
static inline void copy_async_commit() {
    cuda_host::copy_commit();
}
template <int left> static inline void copy_async_wait() {
    cuda_host::copy_wait(left);
}

/* ex2.approx.ftz: results below the smallest normal number are 0. */
static inline float fast_exp2(float x) {
    return x < -126 ? 0.0f : exp2f(x);
}

#endif
