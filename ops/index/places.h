/* places.h - what index and index_put share. Both go over places: ids of integers stand for several axes of x
 * at once, broadcast to each other, and the other axes are taken whole. The axes of the ids are where the
 * first axis that they stand for was if these follow one another, else in front, as in PyTorch and NumPy:
 *     x[:, i, j] of x[A, B, C, D] with ids [T]  ->  [A, T, D]       x[i, :, j]  ->  [T, B, D]
 * An id below 0 counts from the end of its axis. */
#ifndef WEFT_OPS_INDEX_PLACES_H
#define WEFT_OPS_INDEX_PLACES_H

#include "ops/kit/op_kit.h"

/* Operands are x, ids for each of these axes of x, which rise, and of index_put the values. */
typedef struct places_attrs {
    attr_ints axes;
    bool accumulate; /* index_put adds */
} places_attrs;

/* What a run goes over. */
typedef struct places_loop {
    int n;                    /* ids */
    int axis[WEFT_MAX_NDIM];  /* of x, for which ids k stand */
    tensor_type ids;          /* what all of them broadcast to */
    tensor_type shape;        /* of what is taken or put; its dtype is that of x */
    int first;                /* the axis of `shape` where those of the ids begin */
    int whole[WEFT_MAX_NDIM]; /* for each axis of `shape` that of x, or -1: one of the ids */
} places_loop;

/* The loop of the operands `in`. NULL, or why they do not fit. */
const char *places_loop_of(const places_attrs *a, weft_value *const *in, places_loop *loop);
/* For infer: the same, with the error; checks the ids, and how many operands there are. */
bool places_want_loop(op_call *c, int more, places_loop *loop);

/* Strides of ids k for the axes of loop->ids: 0 where they broadcast. */
void places_ids_strides(const places_loop *loop, const tensor *ids, int64_t stride[WEFT_MAX_NDIM]);
/* Strides of a tensor that broadcasts to `shape`, for its axes. */
void places_strides(const places_loop *loop, const tensor *t, int64_t stride[WEFT_MAX_NDIM]);

/* For reference kernels: the place in x of place `at` of `shape`. */
void places_target(const kernel_call *c, const places_loop *loop, const int64_t *at, int64_t *place);

/* Fails for the first id that is not an id of its axis of x, of any of the operands. */
weft_status places_check(const kernel_call *c, const places_loop *loop);

#endif
