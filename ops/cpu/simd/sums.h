/* sums.h - how the kernels of this folder add many floats: in blocks of at most SUM_BLOCK elements of a row,
 * or SUM_ROWS rows that are added to each other. Within a block the sums are f32, in vector lanes; the sums
 * of the blocks are added in f64.
 *
 * So the error of a result is at most (additions that follow one another in a block + 1) 2^-24 times the sum
 * of the magnitudes, whatever the length and the layout (Higham, Accuracy and Stability of Numerical
 * Algorithms, section 4.2). Blocks depend on shapes alone, so the bits are the same for any number of
 * threads. See tests/ops/test_sums.c. */
#ifndef WEFT_OPS_CPU_SIMD_SUMS_H
#define WEFT_OPS_CPU_SIMD_SUMS_H

#include <stdint.h>

enum { SUM_BLOCK = 1024, SUM_ROWS = 512 };

/* The end of the block that begins at `begin`, of n elements in all. */
static inline int64_t sum_block_end(int64_t begin, int64_t n) {
    return n - begin < SUM_BLOCK ? n : begin + SUM_BLOCK;
}

#endif
