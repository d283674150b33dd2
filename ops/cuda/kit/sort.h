/* sort.h - the workspace of a sort (sort.cuh), in plain C, for rows. */
#ifndef WEFT_OPS_CUDA_KIT_SORT_H
#define WEFT_OPS_CUDA_KIT_SORT_H

#include <stdint.h>

enum { SORT_DIGITS = 256, SORT_THREADS = 256, SORT_TILE = 2048 }; /* keys of a tile: 8 for each thread */

static inline int64_t sort_tiles(int64_t n) {
    return (n + SORT_TILE - 1) / SORT_TILE;
}

/* i32 numbers of workspace for a sort of n keys: two lists of keys and numbers, and the counts. */
static inline int64_t sort_room(int64_t n) {
    return 4 * n + SORT_DIGITS * sort_tiles(n);
}

#endif
