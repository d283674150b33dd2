/* comm_check.h - what every communicator must do, as one rank sees it; used by threads (test_comm.c) and by
 * the processes of mpirun (comm_ranks.c). */
#ifndef WEFT_TEST_COMM_CHECK_H
#define WEFT_TEST_COMM_CHECK_H

#include "weft/comm.h"

/* Element i of a rank's contribution: numbers of widely different size, so that any other order of additions
 * changes the sum. */
float comm_contribution(uint64_t seed, int rank, size_t i);

/* The documented sum, computed plainly: element i of the contributions of `world` ranks to the collective of
 * this seed, in tree order; in f32, or rounded to bf16 before and after. */
float comm_expected(uint64_t seed, int world, size_t i, bool as_bf16);

/* Runs every kind of collective on `count` elements and compares with plain sums, bit for bit. Returns NULL,
 * or a text (static storage of the thread) that says what is wrong. All ranks of comm call it with the same
 * arguments. */
const char *comm_check_all(weft_comm *comm, size_t count, uint64_t seed);

/* Unordered sums, of whole numbers. */
const char *comm_check_unordered(weft_comm *comm, size_t count, uint64_t seed);

/* All of the above in groups: of two ranks, of three in another order, of one. */
const char *comm_check_groups(weft_comm *comm, size_t count, uint64_t seed);

/* Sums one buffer in four uneven pieces, all under way at once: the bits are those of one piece. */
const char *comm_check_cuts(weft_comm *comm, size_t count, uint64_t seed);

#endif
