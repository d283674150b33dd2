/* conv.h - a convolution of images or volumes as a call of cuDNN, in plain C: rows compute the workspace from
 * this plan, and runs follow it.
 *
 * Images are channels-last, as everywhere here. cuDNN wants a weight [O, C/groups, window] as [O, window,
 * C/groups] in the images' type: a `pack` node makes it for conv2d and conv_transpose2d, or each run does;
 * conv2d_weight reorders its result. Volumes are the same with an axis more. cuDNN's operations have one
 * type, so where the result is wider than the operands, these are first converted to f32; TF32 has all their
 * bits, so that is exact. Gradients of weights would need too much conversion: they are rounded to the
 * operands' type once, as in PyTorch, and converted afterwards. */
#ifndef WEFT_OPS_CUDA_IMAGE_CONV_H
#define WEFT_OPS_CUDA_IMAGE_CONV_H

#include "ops/image/conv2d.h"
#include "ops/cuda/cuda.h"

typedef struct conv_plan {
    bool is_transposed, is_weight;  /* CONV_BIG; CONV_WEIGHT; neither: CONV_SMALL */
    tensor_type big, small, weight; /* as cuDNN gets them; the weight's shape is in its plain order */
    int64_t in_channels, taps;      /* of a weight: C / groups, kh kw (kd kh kw) */
    const weft_value *big_value, *small_value;
    weft_dtype result; /* type of the node's result */
    bool widens;       /* operands are converted to f32 first */
    bool rounds;       /* cuDNN's result is reduced and then converted: an f32 conv2d_weight */
    /* An output padding of a whole stride makes `big` reach further than `small`: `small` is extended with
     * zeros at its end. */
    bool extends_small;
    bool is_packed;                         /* the weight comes from a `pack` node */
    bool reorders_weight;                   /* the weight is reordered in the workspace */
    size_t small_at, weight_at, library_at; /* byte offsets in the workspace */
    size_t wide_at[3];                      /* of big, small and weight as f32, except the result */
    size_t library_bytes;                   /* scratch of cuDNN */
    size_t bytes;                           /* of the whole workspace */
} conv_plan;

conv_plan conv_plan_of(const weft_node *n);
/* Which of big, small, weight (0, 1, 2) is the result. */
int conv_result(const conv_plan *p);

/* The rows' `tune` (conv.cu): times cuDNN's engines. */
weft_status conv_tune(const weft_node *n, const kernel_env *env, struct tuned *found, weft_error *error);

/* Bytes of operand `operand` of n when packed; 0: it is used as it is. */
size_t conv_packed_bytes(const weft_node *n, int operand);

/* The convolution that a pack node is for, in a model of its own (the caller frees t->graph->model); NULL:
 * there is none. */
weft_node *conv_pack_target(const weft_node *pack, const weft_env *env, weft_error *error);

#endif
