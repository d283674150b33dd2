/* attention.h - attributes of attention and its backward op, and helpers for their kernels. */
#ifndef WEFT_OPS_ATTENTION_ATTENTION_H
#define WEFT_OPS_ATTENTION_ATTENTION_H

#include "ops/kit/op_kit.h"

typedef struct attention_attrs {
    bool causal;
    double scale; /* 0: 1 / sqrt(D) */
} attention_attrs;

/* The operands, as bits, that every kernel takes at any strides: q, k, v of the forward; dy, q, k, v of the
 * backward. Not y, although kernels on the CPU take it so: attention makes it row-major. */
enum { ATTENTION_STRIDED = 7, ATTENTION_BACKWARD_STRIDED = 15 };

extern const op_attr attention_attr_table[];

/* The scale for q [B, H, T, D]: the attribute or its default. */
double attention_scale(const attention_attrs *a, const tensor_type *q);
/* Check for infer: the operands from `first` on are q [B, H, T, D], k and v [B, H, S, D] of one float
 * type. */
bool attention_want_qkv(op_call *c, int first);
/* The type of y [B, T, H, D] for q [B, H, T, D]. */
tensor_type attention_result(const tensor_type *q);

#endif
