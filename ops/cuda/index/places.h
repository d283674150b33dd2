/* places.h - workspace of index and index_put on a GPU. */
#ifndef WEFT_OPS_CUDA_INDEX_PLACES_H
#define WEFT_OPS_CUDA_INDEX_PLACES_H

#include "ops/cuda/kit/sort.h"
#include "ops/index/places.h"

/* Places of the ids, and those that their axes have. */
typedef struct places_size {
    int64_t places, all;
} places_size;

static inline places_size places_size_of(const weft_node *n) {
    places_loop loop;
    places_size s = {0, 1};
    if (places_loop_of((const places_attrs *)n->attrs, n->in, &loop)) return s;
    s.places = type_elements(&loop.ids);
    for (int k = 0; k < loop.n; k++) s.all *= n->in[0]->type.shape[loop.axis[k]];
    return s;
}

#endif
