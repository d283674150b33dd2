/* basic_attrs.h - attribute structs of pointwise, reduction and shape ops, shared by their files and their
 * fast kernels. */
#ifndef WEFT_OPS_KIT_BASIC_ATTRS_H
#define WEFT_OPS_KIT_BASIC_ATTRS_H

#include "graph/core/graph.h"

/* The factor of scale, the summand of offset, the slope of leaky_relu. */
typedef struct number_attrs {
    double value;
} number_attrs;

typedef struct constant_attrs {
    weft_dtype dtype;
    attr_ints shape;
    double value;
} constant_attrs;

typedef struct cast_attrs {
    weft_dtype dtype;
} cast_attrs;

typedef struct sum_attrs {
    attr_ints axes;    /* none: all axes; negative ones count from the last */
    bool keep;         /* keep reduced axes, with length 1 */
    bool mean;         /* divide by the number of summed elements */
    bool f32_output;   /* a sum of bf16 or f16 has an f32 result */
    double correction; /* a mean divides by that number less this, as a variance does */
} sum_attrs;
/* The reduced axes as bits (bit i: axis i). */
unsigned sum_axes(const sum_attrs *a, int ndim);
/* What a result of `count` summed elements is divided by: 1 without `mean`, never below 0. */
double sum_divisor(const sum_attrs *a, int64_t count);

typedef struct axis_attrs {
    int64_t axis; /* negative: counts from the last */
    bool keep;
} axis_attrs;

typedef struct shape_attrs {
    attr_ints shape;
} shape_attrs;

/* Strides that read x in the other direction along the axes of a flip, and the offset of the element that
 * comes first; false where an axis is not one of x or is named twice. */
bool flip_strides(const shape_attrs *a, const tensor *x, int64_t *stride, int64_t *offset);

typedef struct slice_attrs {
    int64_t axis, begin, end; /* as in weft_slice: negative begin and end count from the end */
    int64_t step;             /* from one element to the next; 0: 1 */
} slice_attrs;
/* Resolves axis, begin, end and step for an operand of this type; false when they do not fit. */
bool slice_range(const slice_attrs *a, const tensor_type *x, slice_attrs *range);

/* Elements of one value before, after and between those of the operand on one axis. */
typedef struct pad_attrs {
    int64_t axis, before, after;
    double value;
    int64_t between; /* after each element of the operand but the last */
} pad_attrs;

#endif
