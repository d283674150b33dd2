/* conv2d.h - shared by the three convolutions of images, and by those of volumes, which have an axis more (D,
 * d and kd, before H, h and kh) and "3d" in their names. With O the channels of small and C those of big:
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
    attr_ints kernel, stride, pad, dilation; /* (depth,) height, width; nodes have all, without defaults */
    attr_ints output_padding;                /* conv_transpose2d only; n is 0 in the others */
    int64_t groups;
    bool f32_output; /* bf16 and f16 operands give an f32 result */
} conv_attrs;

/* Which part of the trilinear form an op computes. */
typedef enum conv_part { CONV_NO_PART, CONV_SMALL, CONV_BIG, CONV_WEIGHT } conv_part;
conv_part conv_part_of(const weft_op *op);
/* Axes of the op's window: 2 of images, 3 of volumes. */
int conv_axes(const weft_op *op);

/* Limit of kernel, stride, pad and dilation, so that positions in any image fit in 64 bits. */
enum { CONV_MAX = 65536 };

/* The rows that all three tables of attributes share. */
#define CONV_ATTR_ROWS                                                                                       \
    {"kernel", ATTR_INTS, offsetof(conv_attrs, kernel), 1, CONV_MAX},                                        \
        {"stride", ATTR_INTS, offsetof(conv_attrs, stride), 1, CONV_MAX},                                    \
        {"pad", ATTR_INTS, offsetof(conv_attrs, pad), 0, CONV_MAX},                                          \
        {"dilation", ATTR_INTS, offsetof(conv_attrs, dilation), 1, CONV_MAX},                                \
        {"groups", ATTR_INT, offsetof(conv_attrs, groups), 1, INT64_MAX}, {                                  \
        "f32_output", ATTR_BOOL, offsetof(conv_attrs, f32_output)                                            \
    }

/* Fills attributes from a builder's arguments, with defaults for 0; the builder sets a->out. False after
 * recording the error. */
bool conv_attrs_from(conv_attrs *a, const weft_op *op, weft_value *x, weft_value *w,
                     const weft_window *window);

/* The element type of the result for operands of type `dtype`. */
weft_dtype conv_result_dtype(const conv_attrs *a, weft_dtype dtype);

/* Checks for infer: every setting has a number for each axis; operand i is an image; the weight is [o,
 * channels, kernel] or packed; the bias is [out]. */
bool conv_check_axes(const op_call *c, const conv_attrs *a);
bool conv_check_image(const op_call *c, int i, const char *name);
bool conv_check_weight(const op_call *c, const conv_attrs *a, int64_t o, int64_t channels);
bool conv_check_bias(const op_call *c, const conv_attrs *a);

/* The type of a weight [o, channels, kernel]. */
tensor_type conv_weight_type(const conv_attrs *a, weft_dtype dtype, int64_t o, int64_t channels);

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

/* The ops' functions, for images and volumes alike: conv2d.c, conv_transpose2d.c, conv2d_weight.c. */
bool conv_infer(op_call *c);
bool conv_transpose_infer(op_call *c);
bool conv_weight_infer(op_call *c);
void conv_gradient(weft_node *n, weft_value *const *dout, const bool *wanted, weft_value **din);
void conv_transpose_gradient(weft_node *n, weft_value *const *dout, const bool *wanted, weft_value **din);
void conv_weight_gradient(weft_node *n, weft_value *const *dout, const bool *wanted, weft_value **din);
weft_status conv_reference(const kernel_call *c);
weft_status conv_transpose_reference(const kernel_call *c);
weft_status conv_weight_reference(const kernel_call *c);

/* Fields of the ops that convolve, and of those for gradients of weights, whose table is `attrs`. x and w are
 * reduced; the bias is f32. Both images are channels-last, a weight and its gradient are row-major. */
#define CONV_FIELDS(KINDS)                                                                                   \
    .min_in = 2, .max_in = 3, OP_ATTRS(conv_attrs, attrs), .image_in = 1, .image_out = 1,                    \
    .precision = PRECISION_REDUCED, .f32_in = 1 << 2, .kinds = {0, KINDS, (KINDS) | WEFT_PARAMS_BIAS}
#define CONV_WEIGHT_FIELDS                                                                                   \
    .min_in = 2, OP_ATTRS(conv_attrs, attrs), .image_in = 3, .precision = PRECISION_REDUCED,                 \
    .infer = conv_weight_infer, .gradient = conv_weight_gradient, .reference = conv_weight_reference

/* Builders of conv2d and conv3d, and of the transposed ones. */
weft_value *conv_value(const weft_op *op, weft_value *x, weft_value *w, weft_value *b,
                       const weft_window *window);
weft_value *conv_transpose_value(const weft_op *op, weft_value *x, weft_value *w, weft_value *b,
                                 const weft_window *window);

/* For the references: the index of the element of big that element `small` of small meets through tap `k` of
 * the window, on all axes of the window; false where it is outside. Both indices begin with the image and the
 * channel, which are left alone. */
bool conv_meets(const conv_attrs *a, const tensor_type *big, const int64_t *small, const int64_t *k,
                int64_t *at);
/* The window as a type, for index_next. */
tensor_type conv_taps(const conv_attrs *a);
/* The gradient of a bias: dy summed over all axes but the channels. */
weft_value *conv_bias_gradient(weft_value *dy);

/* The three as builders for gradients; results have exactly the shape of big, small or weight. */
weft_value *conv_big_from(const conv_attrs *a, weft_value *small, weft_value *weight, const tensor_type *big);
weft_value *conv_small_from(const conv_attrs *a, weft_value *big, weft_value *weight,
                            const tensor_type *small);
weft_value *conv_weight_from(const conv_attrs *a, weft_value *big, weft_value *small);

#endif
