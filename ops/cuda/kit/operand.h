/* operand.h - what a plan knows of the address that an operand will have: libraries choose their algorithms
 * by alignment; and where a library's scratch begins in a workspace. */
#ifndef WEFT_OPS_CUDA_KIT_OPERAND_H
#define WEFT_OPS_CUDA_KIT_OPERAND_H

#include "graph/core/graph.h"

/* Everything that a plan places starts at a multiple of this; parts and views of it may not. */
enum { OPERAND_ALIGN = MEM_ALIGN };

/* The alignment of the first element in bytes: a power of two, at most OPERAND_ALIGN. */
int operand_alignment(const weft_value *v);

/* On an H200 cuBLASLt 13.0 refuses scratch that does not begin at a multiple of 256 bytes, with
 * CUBLAS_STATUS_INVALID_VALUE. A workspace begins at a multiple of OPERAND_ALIGN, so it reserves
 * SCRATCH_SLACK bytes more than the library gets. */
enum { SCRATCH_ALIGN = 256, SCRATCH_SLACK = SCRATCH_ALIGN - OPERAND_ALIGN };

static inline char *operand_scratch(void *workspace, size_t offset) {
    uintptr_t at = (uintptr_t)workspace + offset;
    return (char *)workspace + offset + (SCRATCH_ALIGN - at % SCRATCH_ALIGN) % SCRATCH_ALIGN;
}

#endif
