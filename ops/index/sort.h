/* sort.h - attributes of sort, for its kernels, and the order of numbers. */
#ifndef WEFT_OPS_INDEX_SORT_H
#define WEFT_OPS_INDEX_SORT_H

#include "ops/kit/op_kit.h"

typedef struct sort_attrs {
    int64_t axis;
    bool descending;
    int64_t first; /* how many are kept; 0: all */
} sort_attrs;

/* The axis that is sorted: elements are number [outer, length, inner], `kept` of `length` are results. */
typedef struct sort_rows {
    int64_t outer, length, inner, kept;
} sort_rows;
sort_rows sort_rows_of(const sort_attrs *a, const tensor_type *x);

#endif
