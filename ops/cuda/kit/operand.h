/* operand.h - what plans know of where an operand will lie: libraries choose their algorithms by it. */
#ifndef WEFT_OPS_CUDA_KIT_OPERAND_H
#define WEFT_OPS_CUDA_KIT_OPERAND_H

#include "graph/core/graph.h"

/* Everything that a plan places begins at a multiple of this; parts and views of it may not. */
enum { OPERAND_ALIGN = MEM_ALIGN };

/* Bytes, a power of two up to OPERAND_ALIGN, that the first element's place is a multiple of. */
int operand_alignment(const weft_value *v);

#endif
