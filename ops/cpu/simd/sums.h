/* sums.h - how kernels of this folder add up many floats: in blocks of at most SUM_BLOCK elements, or SUM_ROWS rows that are
 * added to each other, whose sums are floats in lanes; the blocks' sums are added in f64.
 *
 * So a result is off by no more than (additions one after the other in a block + 1) 2^-24 of the sum of what was added
 * without signs, however many there are and however they lie (Higham, Accuracy and Stability of Numerical Algorithms,
 * section 4.2). Blocks depend on shapes alone: the bits are the same for any number of threads. tests/test_sums.c.
 */
#ifndef WEFT_OPS_CPU_SIMD_SUMS_H
#define WEFT_OPS_CPU_SIMD_SUMS_H

#include <stdint.h>

enum { SUM_BLOCK = 1024, SUM_ROWS = 512 };

/* Where the block that begins at `begin` ends. */
static inline int64_t sum_block_end(int64_t begin, int64_t n) {
    return n - begin < SUM_BLOCK ? n : begin + SUM_BLOCK;
}

#endif
