/* stream_player.h - plays programs of a plan one after the other on two streams, without running anything: what each node and
 * each collective may touch, by memory range. A collective takes from its start until the compute stream has waited for
 * it or for a later one: as long as the events allow, so that whatever a slow stream can do is seen. A deferred part is played as late
 * as sessions may run it. */
#ifndef WEFT_TEST_STREAM_PLAYER_H
#define WEFT_TEST_STREAM_PLAYER_H

#include "runtime/plan/program.h"
#include "support/test.h"

/* Accesses that no event orders, in `runs` programs of the plan in a random order; the first one as text in what[200]. Adds
 * to *deferred (or NULL) how many nodes ran beside a pending deferred part. */
int stream_conflicts(const weft_plan *plan, test_random *r, int runs, int *deferred, char what[200]);

#endif
