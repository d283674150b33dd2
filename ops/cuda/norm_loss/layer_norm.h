/* layer_norm.h - how layer_norm_backward divides its rows, for its workspace and its kernels. */
#ifndef WEFT_OPS_CUDA_NORM_LOSS_LAYER_NORM_H
#define WEFT_OPS_CUDA_NORM_LOSS_LAYER_NORM_H

#include "ops/cuda/kit/columns.h"

/* For rows of up to LAYER_NORM_SHORT elements one kernel computes dx and parts of dw and db, with at most
 * LAYER_NORM_BLOCKS blocks. Its registers allow 3 blocks on a multiprocessor of an H100 or H200, 396 on its
 * 132: with 384 all run at once, and no second wave of a few blocks follows. The number is not taken from the
 * GPU at hand, since each block is a part of the sums: their bits would depend on the GPU. */
enum { LAYER_NORM_SHORT = 1024, LAYER_NORM_BLOCKS = 384, LAYER_NORM_WARPS = 4 };

/* Parts in which dw and db are summed: one for each block, or the chunks of the column sums. */
static inline int64_t layer_norm_parts(int64_t rows, int64_t d, size_t width) {
    if (d > LAYER_NORM_SHORT) return columns_chunks(rows, d, width);
    int64_t blocks = (rows + LAYER_NORM_WARPS - 1) / LAYER_NORM_WARPS;
    return blocks < LAYER_NORM_BLOCKS ? blocks : (int64_t)LAYER_NORM_BLOCKS;
}

#endif
