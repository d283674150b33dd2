/* arange.h - attributes of arange, for its kernels. */
#ifndef WEFT_OPS_SHAPE_ARANGE_H
#define WEFT_OPS_SHAPE_ARANGE_H

#include "ops/kit/op_kit.h"

typedef struct arange_attrs {
    weft_dtype dtype;
    attr_ints shape; /* one axis */
    double begin, step;
} arange_attrs;

#endif
