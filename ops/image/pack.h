/* pack.h - attributes of `pack` nodes. */
#ifndef WEFT_OPS_IMAGE_PACK_H
#define WEFT_OPS_IMAGE_PACK_H

#include "ops/kit/op_kit.h"

typedef struct pack_attrs {
    const char *of; /* node_signature of the node whose operand is packed, before packing */
    /* number of the operand, and bytes of its packed form */
    int64_t operand;
    int64_t bytes;
} pack_attrs;

#endif
