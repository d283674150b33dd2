/* reduce.h - sums over any axes of an operand at any strides: how the work is divided, in plain C, since plans state the
 * workspace by it. The division depends on the shape and the strides alone, so that every GPU gives the same bits. */
#ifndef WEFT_OPS_CUDA_REDUCE_REDUCE_H
#define WEFT_OPS_CUDA_REDUCE_REDUCE_H

#include "graph/core/graph.h"
#include "ops/cuda/kit/divide.h"

typedef struct reduce_axis {
    int64_t length, in, out; /* strides in elements; out is 0 for reduced axes */
    divisor by;
} reduce_axis;

/* Axes in the order of the operand's memory, merged where they run on evenly. */
typedef struct reduce_list {
    int n;
    reduce_axis at[WEFT_MAX_NDIM];
    int64_t count;
} reduce_list;

typedef struct reduce_plan {
    reduce_list kept, reduced;
    bool along_rows; /* the innermost axis is reduced */
    int64_t pieces;  /* of each result, added up by a second kernel when there are several */
    int64_t piece;   /* reduced elements in a piece */
    float factor;    /* of a mean */
} reduce_plan;

void reduce_plan_of(reduce_plan *r, const weft_node *n);

/* [rows, columns] with dense rows, summed down its columns: done by columns.cuh. */
bool reduce_is_columns(const reduce_plan *r);

#endif
