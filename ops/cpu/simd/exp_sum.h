/* exp_sum.h - a row's maximum, and sums of e^(x - most) over the row, in blocks (sums.h), for softmax, losses
 * and attention. `most` is the maximum, so no exponential overflows. */
#ifndef WEFT_OPS_CPU_SIMD_EXP_SUM_H
#define WEFT_OPS_CPU_SIMD_EXP_SUM_H

#include "ops/cpu/simd/sums.h"
#include "ops/cpu/simd/vecmath.h"

#include <stddef.h>

/* The bits of a float as an integer that orders as the float does, with NaNs at the ends; and back again. */
static inline int32_t ordered_bits(int32_t bits) {
    return bits ^ (bits >> 31 & 0x7fffffff);
}

/* -inf if n is 0. A NaN may win or not: the sum of e^x is NaN in either case. It is a maximum of integers,
 * since clang makes no vector code of a maximum of floats, among which NaN has no order. */
static inline float row_max(const float *x, int64_t n) {
    int32_t most = ordered_bits(vm_bits(-VM_INF));
#pragma omp simd reduction(max : most)
    for (int64_t i = 0; i < n; i++) {
        int32_t key = ordered_bits(vm_bits(x[i]));
        most = key > most ? key : most;
    }
    return vm_float(ordered_bits(most));
}

/* A block, n <= SUM_BLOCK. y gets the exponentials; it may be x itself, or NULL when only the sum is
 * wanted. */
static inline float exp_block_sum(const float *x, float *y, int64_t n, float most) {
    float sum = 0;
    if (!y) {
#pragma omp simd reduction(+ : sum)
        for (int64_t i = 0; i < n; i++) sum += vm_exp(x[i] - most);
        return sum;
    }
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++) {
        float e = vm_exp(x[i] - most);
        y[i] = e;
        sum += e;
    }
    return sum;
}

/* A row of any length: f32 within a block, f64 over blocks. */
static inline double exp_sum(const float *x, float *y, int64_t n, float most) {
    if (n <= SUM_BLOCK) return exp_block_sum(x, y, n, most);
    double total = 0;
    for (int64_t i = 0; i < n; i += SUM_BLOCK)
        total += exp_block_sum(x + i, y ? y + i : NULL, sum_block_end(i, n) - i, most);
    return total;
}

#endif
