/* matmul.h - attributes of `matmul` and `linear` nodes. */
#ifndef WEFT_OPS_LINALG_MATMUL_H
#define WEFT_OPS_LINALG_MATMUL_H

#include "ops/kit/op_kit.h"

typedef struct matmul_attrs {
    bool transpose_a, transpose_b; /* swap the last two axes of the operand */
    bool f32_output;               /* bf16 and f16 operands give an f32 result */
} matmul_attrs;

typedef struct linear_attrs {
    bool f32_output;
} linear_attrs;

#endif
