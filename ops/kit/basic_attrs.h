/* basic_attrs.h - attribute structs of pointwise, reduction and shape ops that fast kernels read too. */
#ifndef WEFT_OPS_KIT_BASIC_ATTRS_H
#define WEFT_OPS_KIT_BASIC_ATTRS_H

#include "graph/core/graph.h"

/* scale's factor, offset's amount, leaky_relu's slope */
typedef struct number_attrs {
    double value;
} number_attrs;

typedef struct cast_attrs {
    weft_dtype dtype;
} cast_attrs;

typedef struct sum_attrs {
    attr_ints axes; /* none: all; may be negative */
    bool keep;      /* reduced axes stay, with length 1 */
    bool mean;      /* divide by the number of elements summed */
    bool f32_output; /* of bf16 and f16: the result is f32 */
} sum_attrs;
/* Bit i: axis i is reduced. */
unsigned sum_axes(const sum_attrs *a, int ndim);

typedef struct axis_attrs {
    int64_t axis; /* may be negative */
    bool keep;
} axis_attrs;

typedef struct shape_attrs {
    attr_ints shape;
} shape_attrs;

typedef struct slice_attrs {
    int64_t axis, begin, end; /* as weft_slice takes them */
} slice_attrs;
/* Resolved for an operand of this type; false when they do not fit. */
bool slice_range(const slice_attrs *a, const tensor_type *x, slice_attrs *range);

typedef struct pad_attrs {
    int64_t axis, before, after;
} pad_attrs;

#endif
