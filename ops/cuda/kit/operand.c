/* operand.c - see operand.h: the lowest set bit of all offsets between the value and the memory that the plan
 * placed. */
#include "ops/cuda/kit/operand.h"

int operand_alignment(const weft_value *v) {
    uint64_t offset = OPERAND_ALIGN;
    for (; v->base; v = v->base) offset |= (uint64_t)v->base_offset * dtype_bytes(v->type.dtype);
    if (v->variable && variable_is_part(v->variable)) offset |= (uint64_t)v->variable->offset * sizeof(float);
    return (int)(offset & -offset);
}
