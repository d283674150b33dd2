/* conv.h - a convolution as a call of cuDNN, in plain C: rows state its workspace by this, runs go by it.
 *
 * Images are channels-last, as here; a weight [O, C/groups, kh, kw] is wanted as [O, kh, kw, C/groups] in the images'
 * type. conv2d and conv_transpose2d get it so from a `pack` node, or make it in each run; conv2d_weight turns its result
 * round. cuDNN's operations have one type, so where the result is wider than the operands, these are made f32 first:
 * TF32, which has all their bits, is exact then. Gradients of weights are too many for that: theirs are rounded to the
 * operands' type once, as PyTorch's are, and widened behind it.
 */
#ifndef WEFT_OPS_CUDA_IMAGE_CONV_H
#define WEFT_OPS_CUDA_IMAGE_CONV_H

#include "ops/image/conv2d.h"
#include "ops/cuda/cuda.h"

typedef struct conv_plan {
    bool is_transposed, is_weight;  /* conv_transpose2d; conv2d_weight; neither: conv2d */
    tensor_type big, small, weight; /* as cuDNN gets them; the weight's shape in its plain order */
    int64_t in_channels, taps;      /* of a weight: C/groups, kh kw */
    const weft_value *big_value, *small_value;
    weft_dtype result; /* the node's */
    bool widens;       /* operands are made f32 first */
    bool rounds;       /* the result is low until it is written: an f32 conv2d_weight */
    /* By an output padding of a whole stride, big reaches further than small: small goes in with zeros behind it. */
    bool extends_small;
    bool is_packed;                         /* the weight comes from a `pack` node */
    bool turns_weight;                      /* it is turned round in the workspace */
    size_t small_at, weight_at, library_at; /* in the workspace */
    size_t wide_at[3];                      /* of big, small and weight as f32, but for the result */
    size_t library_bytes;                   /* what cuDNN may use */
    size_t bytes;
} conv_plan;

conv_plan conv_plan_of(const weft_node *n);
/* Which of big, small, weight (0, 1, 2) is computed from the others. */
int conv_result(const conv_plan *p);

/* What operand `operand` of n takes up packed, 0: it is used as it is. */
size_t conv_packed_bytes(const weft_node *n, int operand);

/* The convolution that a pack node is for, in a model of its own that the caller frees; NULL: it is none. */
weft_node *conv_pack_target(const weft_node *pack, const weft_env *env, weft_error *error);

#endif
