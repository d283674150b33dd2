/* widen.h - a node with f32 in place of bf16 and f16: what the kernels that cast around an f32 one (simd/cast.c) put
 * before that, and what a weight is packed for that such a kernel reads. */
#ifndef WEFT_OPS_CPU_WIDEN_H
#define WEFT_OPS_CPU_WIDEN_H

#include "graph/core/kernel.h"

enum { WIDEN_MAX_IN = 3 };

/* Not to be moved: the node points into it. */
typedef struct widened {
    weft_node node; /* of one result */
    weft_value in[WIDEN_MAX_IN], out;
    weft_value *list[WIDEN_MAX_IN];
    /* Low ones are cast by way of `bytes` of workspace: `at` there, multiples of MEM_ALIGN. The result's come last. */
    bool casts[WIDEN_MAX_IN + 1];
    size_t at[WIDEN_MAX_IN + 1], bytes;
} widened;

/* false when n has nothing low, or too much of anything. */
bool node_widen(const weft_node *n, widened *w);

#endif
