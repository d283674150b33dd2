/* random.h - attributes of the random ops, for their kernels. `key` selects the random stream
 * (random_key). */
#ifndef WEFT_OPS_RANDOM_RANDOM_H
#define WEFT_OPS_RANDOM_RANDOM_H

#include "ops/kit/op_kit.h"

/* random_uniform: a = low, b = high. random_normal: a = mean, b = standard deviation. */
typedef struct random_attrs {
    attr_ints shape;
    double a, b;
    uint64_t key;
} random_attrs;

/* p: the probability that an element is dropped. */
typedef struct dropout_attrs {
    double p;
    uint64_t key;
} dropout_attrs;

/* An element is dropped when its 32-bit word is below this. */
static inline uint64_t dropout_threshold(double p) {
    return (uint64_t)(p * 4294967296.0);
}

#endif
