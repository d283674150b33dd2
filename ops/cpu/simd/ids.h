/* ids.h - ids of any integer type. */
#ifndef WEFT_OPS_CPU_SIMD_IDS_H
#define WEFT_OPS_CPU_SIMD_IDS_H

#include "graph/core/op.h"

/* The id at element i of its memory. */
static inline int64_t id_at(const tensor *ids, int64_t i) {
    switch (ids->type.dtype) {
    case WEFT_I64:
        return ((const int64_t *)ids->data)[i];
    case WEFT_I32:
        return ((const int32_t *)ids->data)[i];
    default:
        return ((const uint8_t *)ids->data)[i];
    }
}

#endif
