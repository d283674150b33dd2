/* loss.h - what the losses of this folder share: their options, and how a loss of each element is reduced. */
#ifndef WEFT_OPS_NORM_LOSS_LOSS_H
#define WEFT_OPS_NORM_LOSS_LOSS_H

#include "ops/kit/op_kit.h"

/* Fields of weft_loss besides the reduction; a loss names those that it has. */
enum {
    LOSS_WEIGHT = 1 << 0,
    LOSS_POS_WEIGHT = 1 << 1,
    LOSS_IGNORE = 1 << 2,
    LOSS_SMOOTHING = 1 << 3,
    LOSS_BETA = 1 << 4,
    LOSS_MARGIN = 1 << 5,
    LOSS_LOG_TARGET = 1 << 6,
    LOSS_SWAP = 1 << 7,
    LOSS_DELTA = 1 << 8,
    LOSS_P = 1 << 9,
    LOSS_BATCH = 1 << 10, /* WEFT_LOSS_BATCHMEAN */
};

/* The options of a loss, with defaults for NULL; false after recording that one is set that it does not
 * have. */
bool loss_options(weft_loss *into, const char *loss, weft_value *x, const weft_loss *options, unsigned has);
/* The mean, the sum, or all elements of a loss. */
weft_value *loss_reduce(weft_value *loss, weft_reduction reduction);
/* A number of x's type, []. */
weft_value *loss_constant(const weft_value *x, double value);

#endif
