/* dropout.h - attributes and numbers of dropout, which attention shares. */
#ifndef WEFT_OPS_KIT_DROPOUT_H
#define WEFT_OPS_KIT_DROPOUT_H

#include <stdint.h>

/* p: the probability that an element is dropped; key: of the random stream. */
typedef struct dropout_attrs {
    double p;
    uint64_t key;
} dropout_attrs;

/* An element is dropped when its 32-bit word is below this. */
static inline uint64_t dropout_threshold(double p) {
    return (uint64_t)(p * 4294967296.0);
}

/* What the others are multiplied by. */
static inline double dropout_factor(double p) {
    return p < 1 ? 1 / (1 - p) : 0;
}

#endif
