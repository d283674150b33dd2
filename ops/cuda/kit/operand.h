/* operand.h - what a plan knows of the address that an operand will have: libraries choose their algorithms
 * by alignment. */
#ifndef WEFT_OPS_CUDA_KIT_OPERAND_H
#define WEFT_OPS_CUDA_KIT_OPERAND_H

#include "graph/core/graph.h"

/* Everything that a plan places starts at a multiple of this; parts and views of it may not. */
enum { OPERAND_ALIGN = MEM_ALIGN };

/* The alignment of the first element in bytes: a power of two, at most OPERAND_ALIGN. */
int operand_alignment(const weft_value *v);

#endif
