/* lane_player.h - plays programs of a plan one after the other on two lanes, without running anything: what each node and
 * each collective may touch, by memory range. A collective takes from its start until the compute lane has waited for
 * it or for a later one: as long as the events allow, so that whatever a slow lane can do is seen. A tail is played as late
 * as sessions may run it. */
#ifndef WEFT_TEST_LANE_PLAYER_H
#define WEFT_TEST_LANE_PLAYER_H

#include "runtime/plan/program.h"
#include "support/test.h"

/* Accesses that no event orders, in `runs` programs of the plan in a random order; the first one as text in what[200]. Adds
 * to *tails (or NULL) how many nodes ran beside a pending tail. */
int lane_conflicts(const weft_plan *plan, test_random *r, int runs, int *tails, char what[200]);

#endif
