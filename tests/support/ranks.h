/* ranks.h - one function on every rank of a world of threads, with what the test gives it. */
#ifndef WEFT_TESTS_RANKS_H
#define WEFT_TESTS_RANKS_H

#include "weft/comm.h"

/* Each rank's thread gets its communicator (NULL in a world of 1), which is freed when all have returned.
 * `deadline` as of weft_comm_options. */
void ranks_run(int world, double deadline, void (*body)(weft_comm *comm, int rank, void *context),
               void *context);

#endif
