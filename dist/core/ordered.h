/* ordered.h - sums over ranks whose bits depend on neither who adds nor how a buffer is cut. */
#ifndef WEFT_DIST_CORE_ORDERED_H
#define WEFT_DIST_CORE_ORDERED_H

#include "weft/model.h"

/* The contributions, one per rank 0 ... world - 1. Those of the other ranks are at from[r], in the wire
 * type; contribution `own` is in `into`, in the buffer's type. */
typedef struct ordered_sum {
    weft_dtype dtype; /* of the buffer: f32, f64, bf16 */
    /* type of the others' contributions: dtype; or bf16 for f32, and then own and the sum are rounded too */
    weft_dtype wire;
    int world, own;
    const void *const *from; /* [world]; from[own] is not read */
} ordered_sum;

/* Adds `count` elements of all contributions into `into`. They are the leaves of an aligned binary tree:
 * numbers 2k and 2k + 1 are added, then pairs of pairs, and so on; an incomplete rest joins from the
 * right. Five leaves give ((0 1)(2 3)) 4, seven give ((0 1)(2 3)) ((4 5) 6). So leaves that were added two
 * by two before (half as many ranks with two micro-batches each) give the same bits. */
void ordered_add(const ordered_sum *s, void *into, size_t count);

/* For unordered sums: into += from, in f32, rounded to bf16 at each call. */
void bf16_add(uint16_t *into, const uint16_t *from, size_t count);

/* Conversions of `count` elements: to bf16 by round to nearest even, where NaN stays NaN; from bf16
 * exactly. */
void bf16_from_f32(uint16_t *to, const float *from, size_t count);
void f32_from_bf16(float *to, const uint16_t *from, size_t count);

#endif
