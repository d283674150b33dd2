/* interpolate.h - shared by interpolate and its gradient: which elements of x each element of y reads along
 * an axis, and with which weights. Height and width are independent of each other. */
#ifndef WEFT_OPS_IMAGE_INTERPOLATE_H
#define WEFT_OPS_IMAGE_INTERPOLATE_H

#include "ops/kit/op_kit.h"

typedef struct interpolate_attrs {
    attr_ints size;          /* H and W of the result; none where the scales are given */
    double scale_h, scale_w; /* 0: the ratio of the sizes */
    int64_t mode;            /* weft_interpolation_mode */
    bool align_corners, antialias;
} interpolate_attrs;

#define INTERPOLATE_ATTRS                                                                                    \
    {"size", ATTR_INTS, offsetof(interpolate_attrs, size), 1, INT32_MAX},                                    \
        {"scale_h", ATTR_REAL, offsetof(interpolate_attrs, scale_h)},                                        \
        {"scale_w", ATTR_REAL, offsetof(interpolate_attrs, scale_w)}, {"mode",                               \
                                                                       ATTR_INT,                             \
                                                                       offsetof(interpolate_attrs, mode),    \
                                                                       0,                                    \
                                                                       WEFT_INTERPOLATE_BICUBIC,             \
                                                                       interpolate_modes},                   \
        {"align_corners", ATTR_BOOL, offsetof(interpolate_attrs, align_corners)}, {                          \
        "antialias", ATTR_BOOL, offsetof(interpolate_attrs, antialias)                                       \
    }
extern const char *const interpolate_modes[];

/* The type of y for an x; false after op_fail. Without a size it is floor(H scale). */
bool interpolate_shape(const op_call *c, const tensor_type *x, tensor_type *y);

/* One axis of x, of length `in`, and of y. */
typedef struct interpolate_axis {
    int64_t in, out, mode;
    double step; /* elements of x from one element of y to the next */
    bool align_corners, antialias;
    double reach; /* with antialias: elements of x on either side of the middle of one of y */
} interpolate_axis;

/* Axis 2 + i of x and y. */
interpolate_axis interpolate_axis_of(const interpolate_attrs *a, int i, const tensor_type *x,
                                     const tensor_type *y);

/* What one element of y reads of x: elements begin <= k < end, of which those of weight 0 may be left out.
 * Both ends grow with the element of y. */
typedef struct interpolate_span {
    int64_t begin, end;
    double at;    /* its place in x: the fraction after the first of two or four elements, or the middle */
    double total; /* of weights before they are divided by it */
} interpolate_span;
interpolate_span interpolate_span_of(const interpolate_axis *a, int64_t i);
/* The weight of element k of x, begin <= k < end. */
double interpolate_weight(const interpolate_axis *a, const interpolate_span *s, int64_t k);
/* The most elements that a span has. */
int64_t interpolate_most(const interpolate_axis *a);

#endif
