/* columns.h - how column sums of [rows, columns] are divided, in plain C: rows (.c) compute the workspace
 * from it, kernels (columns.cuh) their grids. The division depends only on the shape, so that every GPU gives
 * the same bits. */
#ifndef WEFT_OPS_CUDA_KIT_COLUMNS_H
#define WEFT_OPS_CUDA_KIT_COLUMNS_H

#include <stddef.h>
#include <stdint.h>

/* Threads of a block; blocks that are enough to fill a GPU. */
enum { COLUMN_THREADS = 256, COLUMN_BLOCKS = 1024 };
/* COLUMN_ROWS: rows that a thread adds one after the other, so that long sums lose no more than short ones
 * (ops/cpu/simd/sums.h). GRID_PIECES: the most pieces that a grid can have (gridDim.y). */
enum { COLUMN_ROWS = 512, GRID_PIECES = 65535 };

/* Neighbouring elements that a thread takes: 16 bytes of them where rows are a multiple of that, else 1. */
static inline int columns_vector(int64_t columns, size_t width) {
    return columns % (int64_t)(16 / width) == 0 ? (int)(16 / width) : 1;
}

/* Threads along the columns: a power of two up to 32; the other threads of the block take other rows. */
static inline int columns_lanes(int64_t columns, int vector) {
    int lanes = 1;
    while (lanes < 32 && lanes * vector < columns) lanes *= 2;
    return lanes;
}

/* Pieces that the rows are cut into: enough for about COLUMN_BLOCKS blocks, each piece of at least 4 and at
 * most COLUMN_ROWS rows for each thread. */
static inline int64_t columns_chunks(int64_t rows, int64_t columns, size_t width) {
    int vector = columns_vector(columns, width), lanes = columns_lanes(columns, vector);
    int64_t across = (columns + lanes * vector - 1) / (lanes * vector);
    int64_t most = COLUMN_BLOCKS / across > 1 ? COLUMN_BLOCKS / across : 1;
    int64_t steps = COLUMN_THREADS / lanes, wanted = (rows + 4 * steps - 1) / (4 * steps);
    int64_t least = (rows + COLUMN_ROWS * steps - 1) / (COLUMN_ROWS * steps);
    if (least > GRID_PIECES) least = GRID_PIECES;
    if (most < least) most = least;
    return wanted < most ? wanted : most;
}

#endif
