/* row_kit.h - reasons to decline that several rows (.c) of this folder share. */
#ifndef WEFT_OPS_CUDA_KIT_ROW_KIT_H
#define WEFT_OPS_CUDA_KIT_ROW_KIT_H

#include "ops/cuda/cuda.h"

static inline bool is_gpu_float(weft_dtype dtype) {
    return dtype == WEFT_F32 || dtype_is_reduced(dtype);
}

/* Returns a reason to decline unless all floating-point operands are f32, bf16 or f16. */
static inline const char *declines_types(const weft_node *n, const kernel_env *env) {
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i] && dtype_is_float(n->in[i]->type.dtype) && !is_gpu_float(n->in[i]->type.dtype))
            return "an operand is not f32, bf16 or f16";
    return NULL;
}

#endif
