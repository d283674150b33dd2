/* norm.h - attributes of normalizations and losses, for their kernels, and helpers that several of their
 * files share. */
#ifndef WEFT_OPS_NORM_LOSS_NORM_H
#define WEFT_OPS_NORM_LOSS_NORM_H

#include "ops/shape/lengths.h"

typedef struct softmax_attrs { /* softmax and log_softmax */
    int64_t axis;
} softmax_attrs;

typedef struct norm_attrs { /* layer_norm, rms_norm, batch_norm */
    double eps;
} norm_attrs;

typedef struct cross_entropy_attrs { /* cross_entropy and its backward */
    /* rows with this target do not count */
    int64_t ignore_index;
    int64_t reduction; /* LOSS_MEAN, ... */
} cross_entropy_attrs;

/* The loss: the mean over the rows that count, their sum, or each row's, which is 0 where it does not
 * count. */
enum { LOSS_MEAN, LOSS_SUM, LOSS_NONE };

extern const op_attr norm_attr_table[], cross_entropy_attr_table[];

/* The axes of x over which a norm takes its means. */
typedef struct norm_axes {
    int n;
    int64_t v[WEFT_MAX_NDIM];
} norm_axes;

/* All axes but the channels', axis 1. */
norm_axes batch_norm_axes(const weft_value *x);

/* The operands of a norm's backward op, or their gradients, where NULL stands for no operand. */
typedef struct norm_parts {
    weft_value *dy, *x, *w, *mean, *rstd;
    bool weight_is_row; /* w has a number for each element of a row; else for each statistic */
} norm_parts;

/* norm_gradient.c: dx, and what flows through the unbiased variance of batch_norm; NULL: nothing does. */
weft_value *norm_variance_gradient(const norm_parts *of, const norm_axes *axes, weft_value *dx,
                                   weft_value *dvariance);
/* norm_gradient.c: the gradient of a norm's backward op, whose results dx, dw, db have the gradients
 * dout[0 .. 3). */
void norm_backward_gradient(const norm_parts *of, const norm_axes *axes, weft_value *const *dout,
                            norm_parts *into);
/* dx (NULL: zero) plus the gradient of x that comes from those of the norm's mean and rstd (NULL: none). */
weft_value *norm_statistics_gradient(const norm_parts *of, const norm_axes *axes, weft_value *dx,
                                     weft_value *dmean, weft_value *drstd);

/* layer_norm_backward.c: the functions of layer_norm_backward and rms_norm_backward. */
void norm_rows_gradient(weft_node *n, weft_value *const *dout, const bool *wanted, weft_value **din);
weft_status norm_rows_backward(const kernel_call *c);

/* norm_rows.c: x as rows of one axis, and its weight and bias, for a norm over its last axes: so many, or,
 * where they are 0, as many as the weight has. */
typedef struct norm_rows {
    weft_value *x, *w, *b;
    lengths shape; /* in which the result comes back; no axes: as it is */
} norm_rows;
/* False after recording the error. */
bool norm_rows_of(norm_rows *rows, const char *norm, weft_value *x, int axes, weft_value *w, weft_value *b);
weft_value *norm_rows_back(const norm_rows *rows, weft_value *y);
/* weft_layer_norm_op and weft_rms_norm_op (which takes no bias) over so many axes, also without a weight. */
weft_value *layer_norm_over(weft_value *x, int axes, weft_value *w, weft_value *b, double eps);
weft_value *rms_norm_over(weft_value *x, int axes, weft_value *w, weft_value *b, double eps);

/* Moves `at` to the next index in the same channel (axis 1); false after the last. */
bool channel_next(const tensor_type *t, int64_t *at);
/* For gradients: e^(logits - lse), [N, C]. */
weft_value *cross_entropy_softmax(weft_value *logits, weft_value *lse);
/* Checks that every target is in [0, classes) or ignored, and sets *rows to the number of rows that are not
 * ignored. */
weft_status cross_entropy_targets(const kernel_call *c, const tensor *target, int64_t classes, int64_t *rows);

#endif
