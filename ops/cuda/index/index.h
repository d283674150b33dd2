/* index.h - how scatter is divided on a GPU, for its rows and its kernels. */
#ifndef WEFT_OPS_CUDA_INDEX_INDEX_H
#define WEFT_OPS_CUDA_INDEX_INDEX_H

#include "ops/cuda/kit/sort.h"
#include "ops/index/index.h"

/* With at most so many ids along the axis each element of the result looks through all of its ids; more are
 * sorted first. */
enum { SCATTER_SCANNED = 32 };

/* Sorting: the ids as they are before broadcasting, with the places that they name numbered as elements of
 * [outer, length, inner]. */
typedef struct scatter_size {
    int64_t ids, along, length, inner, places;
} scatter_size;

static inline scatter_size scatter_size_of(const index_attrs *a, const tensor_type *x,
                                           const tensor_type *ids) {
    int64_t axis = a->axis;
    axis_resolve(&axis, x->ndim);
    scatter_size s = {type_elements(ids), ids->shape[axis], x->shape[axis], 1, 0};
    for (int i = (int)axis + 1; i < ids->ndim; i++) s.inner *= ids->shape[i];
    s.places = s.ids / s.along * s.length;
    return s;
}

#endif
