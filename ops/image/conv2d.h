/* conv2d.h - shared by the three convolutions. With O the channels of small and C those of big:
 *     big [N, C, H, W]      small [N, O, h, w]      weight [O, C/groups, kh, kw]
 *     conv2d            big, weight   -> small
 *     conv_transpose2d  small, weight -> big
 *     conv2d_weight     big, small    -> weight
 * All three come from one trilinear form, the sum of small * big * weight over the positions
 *     Y = y stride - pad + ky dilation   (0 <= Y < H),   X likewise,   channels of one group,
 * by differentiating it with respect to one of its three parts. So the gradients of each are the other two,
 * to any order.
 *
 * A node carries its kernel size and channels, so that it is complete when a backend has replaced the weight
 * by a packed form, u8[bytes]; only the kernel that packed it may run such a node. */
#ifndef WEFT_OPS_IMAGE_CONV2D_H
#define WEFT_OPS_IMAGE_CONV2D_H

#include "ops/kit/op_kit.h"

typedef struct conv_attrs {
    int64_t out;                             /* channels of the result; 0 in conv2d_weight */
    attr_ints kernel, stride, pad, dilation; /* height and width; nodes have both, without defaults */
    attr_ints output_padding;                /* conv_transpose2d only; n is 0 in the others */
    int64_t groups;
    bool f32_output; /* bf16 and f16 operands give an f32 result */
} conv_attrs;

/* Limit of kernel, stride, pad and dilation, so that positions in any image fit in 64 bits. */
enum { CONV_MAX = 65536 };

/* The rows that all three tables of attributes share. */
#define CONV_ATTR_ROWS                                                                                       \
    {"kernel", ATTR_INTS, offsetof(conv_attrs, kernel), 1, CONV_MAX},                                        \
        {"stride", ATTR_INTS, offsetof(conv_attrs, stride), 1, CONV_MAX},                                    \
        {"pad", ATTR_INTS, offsetof(conv_attrs, pad), 0, CONV_MAX},                                          \
        {"dilation", ATTR_INTS, offsetof(conv_attrs, dilation), 1, CONV_MAX},                                \
        {"groups", ATTR_INT, offsetof(conv_attrs, groups), 1, INT64_MAX}, {                                  \
        "f32_output", ATTR_BOOL, offsetof(conv_attrs, f32_output), 0, 0                                      \
    }

/* Fills attributes from a builder's arguments, with defaults for 0; the builder sets a->out. False after
 * recording the error. */
bool conv_attrs_from(conv_attrs *a, const weft_op *op, weft_value *x, weft_value *w,
                     const weft_window *window);

/* The element type of the result for operands of type `dtype`. */
weft_dtype conv_result_dtype(const conv_attrs *a, weft_dtype dtype);

/* Checks for infer: every pair has two numbers; operand i is an image; the weight is [o, channels, kernel] or
 * packed; the bias is [out]. */
bool conv_check_pairs(const op_call *c, const conv_attrs *a);
bool conv_check_image(const op_call *c, int i, const char *name);
bool conv_check_weight(const op_call *c, const conv_attrs *a, int64_t o, int64_t channels);
bool conv_check_bias(const op_call *c, const conv_attrs *a);

/* Whether a weight is in a kernel's packed form. */
bool conv_is_packed(const tensor_type *weight);

/* The length of an axis of small from that of big (0: the kernel does not fit), and of big from small without
 * output padding. */
int64_t conv_small(const conv_attrs *a, int axis, int64_t big);
int64_t conv_big(const conv_attrs *a, int axis, int64_t small);
/* The output padding with which small gives back big, and whether it is valid: 0 <= growth < max(stride,
 * dilation). */
int64_t conv_growth(const conv_attrs *a, int axis, int64_t big, int64_t small);
bool conv_growth_fits(const conv_attrs *a, int axis, int64_t growth);

/* The three as builders for gradients; results have exactly the shape of big, small or weight. */
weft_value *conv_big_from(const conv_attrs *a, weft_value *small, weft_value *weight, const tensor_type *big);
weft_value *conv_small_from(const conv_attrs *a, weft_value *big, weft_value *weight,
                            const tensor_type *small);
weft_value *conv_weight_from(const conv_attrs *a, weft_value *big, weft_value *small);

#endif
