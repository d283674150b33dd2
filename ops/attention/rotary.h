/* rotary.h - attributes of rotary, for its kernels. */
#ifndef WEFT_OPS_ATTENTION_ROTARY_H
#define WEFT_OPS_ATTENTION_ROTARY_H

#include "ops/kit/ops.h"

typedef struct rotary_attrs {
    double base;
    int64_t offset;   /* position of row 0 */
    int64_t dims;     /* columns that are rotated, the first ones; 0: all */
    bool interleaved; /* pair i is columns 2 i, 2 i + 1; else i, i + dims / 2 */
    bool inverse;     /* by the negative angles */
} rotary_attrs;

/* Pairs of columns in rows of `columns`. */
static inline int64_t rotary_pairs(const rotary_attrs *a, int64_t columns) {
    return (a->dims ? a->dims : columns) / 2;
}

#endif
