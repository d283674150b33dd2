/* interpolate.h - shared by interpolate and its gradient: which elements of x each element of y reads along
 * an axis, and with which weights. Height and width are independent of each other. */
#ifndef WEFT_OPS_IMAGE_INTERPOLATE_H
#define WEFT_OPS_IMAGE_INTERPOLATE_H

#include "ops/kit/op_kit.h"

typedef struct interpolate_attrs {
    attr_ints size;          /* H and W of the result; none where the scales are given */
    double scale_h, scale_w; /* 0: the ratio of the sizes */
    int64_t mode;            /* weft_interpolation_mode */
    bool align_corners;
} interpolate_attrs;

#define INTERPOLATE_ATTRS                                                                                    \
    {"size", ATTR_INTS, offsetof(interpolate_attrs, size), 1, INT32_MAX},                                    \
        {"scale_h", ATTR_REAL, offsetof(interpolate_attrs, scale_h)},                                        \
        {"scale_w", ATTR_REAL, offsetof(interpolate_attrs, scale_w)},                                        \
        {"mode",           ATTR_INT, offsetof(interpolate_attrs, mode), 0, WEFT_INTERPOLATE_BILINEAR,        \
         interpolate_modes},                                                                                 \
    {                                                                                                        \
        "align_corners", ATTR_BOOL, offsetof(interpolate_attrs, align_corners)                               \
    }
extern const char *const interpolate_modes[];

/* The type of y for an x; false after op_fail. Without a size it is floor(H scale). */
bool interpolate_shape(const op_call *c, const tensor_type *x, tensor_type *y);

/* One axis of x, of length `in`, and of y. */
typedef struct interpolate_axis {
    int64_t in, out, mode;
    double step; /* elements of x from one element of y to the next */
    bool align_corners;
} interpolate_axis;

/* Axis 2 + i of x and y. */
interpolate_axis interpolate_axis_of(const interpolate_attrs *a, int i, const tensor_type *x,
                                     const tensor_type *y);
/* Element i of y is (1 - *second) x[k] + *second x[k + 1] for the k that is returned; where *second is 0,
 * k + 1 may be outside of x. */
int64_t interpolate_tap(const interpolate_axis *a, int64_t i, double *second);

#endif
