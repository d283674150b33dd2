/* f32_shadow.h - a node with f32 in place of bf16 and f16, and where its f32 operands are in the workspace.
 * Two readers need it: the kernels that cast around an f32 kernel (simd/cast.c), which show the shadow to
 * that kernel; and the packing of a weight that such a kernel reads (onednn/pack.c). */
#ifndef WEFT_OPS_CPU_F32_SHADOW_H
#define WEFT_OPS_CPU_F32_SHADOW_H

#include "graph/core/kernel.h"

enum { F32_SHADOW_MAX_IN = 3 }; /* products and convolutions have at most three operands */

/* Must stay at its address: `node` points into the struct itself. */
typedef struct f32_shadow {
    weft_node node; /* the same op and attributes, one result */
    /* The operands and the result, as f32 values. */
    weft_value in[F32_SHADOW_MAX_IN], out;
    weft_value *list[F32_SHADOW_MAX_IN]; /* what node.in points to */
    /* Operand i, and in the last element the result: whether it is reduced and is cast by way of `bytes`
     * bytes of workspace, and its byte offset there (a multiple of MEM_ALIGN). */
    bool casts[F32_SHADOW_MAX_IN + 1];
    size_t at[F32_SHADOW_MAX_IN + 1], bytes;
} f32_shadow;

/* Makes the shadow of n. Returns false when nothing of n is bf16 or f16, when it has more than
 * F32_SHADOW_MAX_IN operands, or when it has not exactly one result. */
bool f32_shadow_of(const weft_node *n, f32_shadow *w);

#endif
