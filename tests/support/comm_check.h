/* comm_check.h - what every communicator must do, as one rank sees it: used by threads (test_comm.c) and by the
 * processes of mpirun (comm_ranks.c). */
#ifndef WEFT_TEST_COMM_CHECK_H
#define WEFT_TEST_COMM_CHECK_H

#include "weft/comm.h"

/* What a rank gives: numbers of widely different size, so that any other order of adding shows. */
float comm_contribution(uint64_t seed, int rank, size_t i);

/* A sum as the documents tell it, computed plainly: element i of what `ranks` contribute to the collective of this
 * seed, in tree order; in f32, or rounded to bf16 before and after. */
float comm_expected(uint64_t seed, int world, size_t i, bool as_bf16);

/* Every kind of collective on `count` elements, against plain sums, to the bit. Returns NULL, or a text (static
 * storage of the thread) that tells what was wrong. Called by all ranks of comm with the same arguments. */
const char *comm_check_all(weft_comm *comm, size_t count, uint64_t seed);

/* Sums in any order, whole numbers. */
const char *comm_check_unordered(weft_comm *comm, size_t count, uint64_t seed);

/* All of the above in groups: two ranks, three in another order, single ones. */
const char *comm_check_groups(weft_comm *comm, size_t count, uint64_t seed);

/* One buffer summed in four uneven pieces, all under way at once: the bits are those of one piece. */
const char *comm_check_cuts(weft_comm *comm, size_t count, uint64_t seed);

#endif
