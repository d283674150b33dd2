/* stream_player.h - simulates programs of a plan one after another on two streams, without running anything:
 * which memory ranges each node and each collective may touch. A collective lasts from its start until the
 * compute stream has waited for it or for a later one, as long as the events allow, so that everything a slow
 * stream can do is seen. A deferred part is played as late as sessions may run it. */
#ifndef WEFT_TEST_STREAM_PLAYER_H
#define WEFT_TEST_STREAM_PLAYER_H

#include "runtime/plan/program.h"
#include "support/test.h"

/* Counts the accesses that no event orders, in `runs` programs of the plan in random order; the first one is
 * described in what[200]. Adds to *deferred (or NULL) the number of nodes that ran beside a pending deferred
 * part. */
int stream_conflicts(const weft_plan *plan, test_random *r, int runs, int *deferred, char what[200]);

#endif
