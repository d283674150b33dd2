/* lengths.h - the shape that a builder gives a reshape. It is kept at two batches (value_twin), so that a
 * length that follows the batch is not written as a number, whichever axis it is of. */
#ifndef WEFT_OPS_SHAPE_LENGTHS_H
#define WEFT_OPS_SHAPE_LENGTHS_H

#include "ops/kit/op_kit.h"

typedef struct lengths {
    int n;
    int64_t here[WEFT_MAX_NDIM + 1], there[WEFT_MAX_NDIM + 1]; /* at the model's batch, and its twin's */
} lengths;

/* The shape of x. Where nothing is known to follow the batch, axis 0 is taken to. */
lengths lengths_of(const weft_value *x);
/* Whether axis i is known to follow the batch. */
bool axis_follows(const weft_value *x, int axis);
/* The length of an axis for an attribute: WEFT_BATCH, or a number. That is right at one batch alone where the
 * axis follows it: see fixed_axis. */
int64_t axis_length(const weft_value *x, int axis);
/* A new axis at `at`, and without that axis. */
void lengths_insert(lengths *l, int at, int64_t length);
void lengths_remove(lengths *l, int at);
/* Merges axes first <= i < past into one; an empty range inserts an axis of length 1. */
void lengths_merge(lengths *l, int first, int past);
/* Axis i as [its length / n, n]. */
void lengths_cut(lengths *l, int axis, int64_t n);
void lengths_scale(lengths *l, int axis, int64_t n);
void lengths_divide(lengths *l, int axis, int64_t n);

/* x in that shape; NULL for NULL. One axis that follows the batch is -1, others are WEFT_BATCH where they
 * have that length. What is neither stays a number: another batch is refused when it is bound. */
weft_value *reshape_lengths(weft_value *x, const lengths *l);
/* x, whose axis has this length at every batch: binding one at which it has not is refused. */
weft_value *fixed_axis(weft_value *x, int axis);

#endif
