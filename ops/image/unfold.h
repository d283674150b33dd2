/* unfold.h - shared by unfold and fold: a window that slides over an image, as in a convolution, and its
 * places beside each other. */
#ifndef WEFT_OPS_IMAGE_UNFOLD_H
#define WEFT_OPS_IMAGE_UNFOLD_H

#include "ops/kit/op_kit.h"

typedef struct unfold_attrs {
    attr_ints size; /* of fold: H and W */
    attr_ints kernel, stride, pad, dilation;
} unfold_attrs;

enum { UNFOLD_MAX = 65536 };

/* Places of the window along axis i (0: rows) of an image that is so long; below 1: none. */
int64_t unfold_count(const unfold_attrs *a, int i, int64_t length);
/* The row or column that element k of the window's axis i has at place p; it may be outside. */
static inline int64_t unfold_at(const unfold_attrs *a, int i, int64_t p, int64_t k) {
    return p * a->stride.v[i] - a->pad.v[i] + k * a->dilation.v[i];
}

#endif
