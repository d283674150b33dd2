/* reduce.h - reductions over any axes of an operand at any strides: how the work is divided, in plain C,
 * since plans compute the workspace from it. The division depends only on the shape and the strides, so
 * that every GPU gives the same bits. */
#ifndef WEFT_OPS_CUDA_REDUCE_REDUCE_H
#define WEFT_OPS_CUDA_REDUCE_REDUCE_H

#include "graph/core/graph.h"
#include "ops/cuda/kit/divide.h"
#include "ops/reduce/reduce.h"

typedef struct reduce_axis {
    int64_t length, in, out; /* strides in elements; out is 0 for reduced axes */
    divisor by;              /* division by length */
} reduce_axis;

/* Axes in the order of the operand's memory, outermost first, merged where they run on evenly. */
typedef struct reduce_list {
    int n;
    reduce_axis at[WEFT_MAX_NDIM];
    int64_t count; /* product of the lengths */
} reduce_list;

typedef struct reduce_plan {
    reduce_kind kind;
    reduce_list kept, reduced;
    bool along_rows; /* the innermost axis is reduced */
    int64_t pieces;  /* of each result; when there are several, a second kernel adds them */
    int64_t piece;   /* reduced elements of a piece */
    float factor;    /* 1 / divisor of a mean */
} reduce_plan;

/* From the node's types and layouts alone. */
void reduce_plan_of(reduce_plan *r, const weft_node *n);

/* Whether this is a sum of [rows, columns] with contiguous rows down its columns: columns.cuh does
 * that. */
bool reduce_is_columns(const reduce_plan *r);

#endif
