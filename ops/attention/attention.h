/* attention.h - attributes of attention and its backward op, for their kernels. */
#ifndef WEFT_OPS_ATTENTION_ATTENTION_H
#define WEFT_OPS_ATTENTION_ATTENTION_H

#include "ops/kit/op_kit.h"

typedef struct attention_attrs {
    bool causal;
    double scale; /* 0: 1 / sqrt(D) */
} attention_attrs;

/* Operands that every kernel takes at any strides: q, k, v; dy, q, k, v. Not y, though kernels on the CPU do: attention
 * gives it row-major. */
enum { ATTENTION_STRIDED = 7, ATTENTION_BACKWARD_STRIDED = 15 };

extern const op_attr attention_attr_table[];

/* The scale in force for q [B, H, T, D]. */
double attention_scale(const attention_attrs *a, const tensor_type *q);
/* In infer: operands `first`.. are q [B, H, T, D], k and v [B, H, S, D] of one float type. */
bool attention_want_qkv(op_call *c, int first);
/* [B, H, T, D] as [B, T, H, D]. */
tensor_type attention_result(const tensor_type *q);

#endif
