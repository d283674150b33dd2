/* integers.h - nodes of i32 and i64 on the numbers where arithmetic goes wrong: the least and the largest,
 * those around 2^53, which a double does not hold, and quotients of opposite signs. */
#ifndef WEFT_TEST_INTEGERS_H
#define WEFT_TEST_INTEGERS_H

#include "support/kernels/samples.h"

/* Checks each op that takes integers in each of the two types, on all pairs of such numbers. */
void integers_check(node_check *check);
/* Checks a `fused` node of a GPU's plan that computes with integers and floats. */
void integers_check_fused(node_check *check);
/* The two numbers of pair i, of `pairs` pairs, as a type holds them; the second is not 0. */
enum { HARD_NUMBERS = 12, HARD_PAIRS = HARD_NUMBERS * (HARD_NUMBERS - 1) };
void integers_pair(weft_dtype dtype, int i, int64_t pair[2]);

#endif
