/* ordered.h - the sum whose bits do not depend on who computes it or how a buffer is cut. */
#ifndef WEFT_DIST_CORE_ORDERED_H
#define WEFT_DIST_CORE_ORDERED_H

#include "weft/model.h"

/* What is added: element i of contribution r of `world`. All but `own` lie at from[r], in the type they travelled in;
 * contribution `own` lies in `into`, in the buffer's type. */
typedef struct ordered_sum {
    weft_dtype dtype; /* of the buffer: f32, f64, bf16 */
    weft_dtype
        wire; /* of the others: dtype, or bf16 for f32: then own is rounded to it too, and so is the sum */
    int world, own;
    const void *const *from; /* [world]; from[own] is not read */
} ordered_sum;

/* Contributions are leaves of an aligned binary tree: numbers 2k and 2k + 1 are added, then pairs of pairs ...; a
 * rest joins from the right: 5 is ((0 1)(2 3)) 4 and 7 is ((0 1)(2 3)) ((4 5) 6). So equal leaves summed two by
 * two before (half as many ranks with two micro-batches each) give the same bits. */
void ordered_add(const ordered_sum *s, void *into, size_t count);

/* For sums in no order: into += from, rounded to bf16 each time. */
void bf16_add(uint16_t *into, const uint16_t *from, size_t count);

/* bf16, rounded to nearest even; NaN stays NaN. */
void bf16_from_f32(uint16_t *to, const float *from, size_t count);
void f32_from_bf16(float *to, const uint16_t *from, size_t count);

#endif
