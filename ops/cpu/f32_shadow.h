/* f32_shadow.h - a node with f32 in place of bf16 and f16: what the kernels that cast around an f32 one (simd/cast.c) put
 * before that, and what a weight is packed for that such a kernel reads. */
#ifndef WEFT_OPS_CPU_F32_SHADOW_H
#define WEFT_OPS_CPU_F32_SHADOW_H

#include "graph/core/kernel.h"

enum { F32_SHADOW_MAX_IN = 3 };

/* Not to be moved: the node points into it. */
typedef struct f32_shadow {
    weft_node node; /* of one result */
    weft_value in[F32_SHADOW_MAX_IN], out;
    weft_value *list[F32_SHADOW_MAX_IN];
    /* Low ones are cast by way of `bytes` of workspace: `at` there, multiples of MEM_ALIGN. The result's come last. */
    bool casts[F32_SHADOW_MAX_IN + 1];
    size_t at[F32_SHADOW_MAX_IN + 1], bytes;
} f32_shadow;

/* false when n has nothing reduced, or too much of anything. */
bool f32_shadow_of(const weft_node *n, f32_shadow *w);

#endif
