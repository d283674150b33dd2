/* random.h - attributes of the random ops, for their kernels. `key` selects the random stream
 * (random_key). */
#ifndef WEFT_OPS_RANDOM_RANDOM_H
#define WEFT_OPS_RANDOM_RANDOM_H

#include "ops/kit/dropout.h"
#include "ops/kit/op_kit.h"

/* random_uniform: a = low, b = high. random_normal: a = mean, b = standard deviation. */
typedef struct random_attrs {
    attr_ints shape;
    double a, b;
    uint64_t key;
} random_attrs;

#endif
