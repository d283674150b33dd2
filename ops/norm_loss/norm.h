/* norm.h - attributes of normalizations and losses, for their kernels, and helpers that several of their
 * files share. */
#ifndef WEFT_OPS_NORM_LOSS_NORM_H
#define WEFT_OPS_NORM_LOSS_NORM_H

#include "ops/kit/op_kit.h"

typedef struct softmax_attrs { /* softmax and log_softmax */
    int64_t axis;
} softmax_attrs;

typedef struct norm_attrs { /* layer_norm, batch_norm */
    double eps;
} norm_attrs;

typedef struct cross_entropy_attrs { /* cross_entropy and its backward */
    /* rows with this target do not count */
    int64_t ignore_index;
} cross_entropy_attrs;

extern const op_attr softmax_attr_table[], norm_attr_table[], cross_entropy_attr_table[];
bool softmax_infer(op_call *c); /* also that of log_softmax */

/* Moves `at` to the next index in the same channel (axis 1); false after the last. */
bool channel_next(const tensor_type *t, int64_t *at);
/* Checks that every target is in [0, classes) or ignored, and sets *rows to the number of rows that are not
 * ignored. */
weft_status cross_entropy_targets(const kernel_call *c, const tensor *target, int64_t classes, int64_t *rows);

#endif
