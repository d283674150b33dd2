/* slow_lane.h - a communicator for one rank of a world that has no others: collectives change their buffer as other ranks
 * would, by a rule of their own, but when they like. They take from their start to the moment that somebody waits for
 * them; meanwhile their memory, scratch too, holds garbage. What a session computes must not depend on when. */
#ifndef WEFT_TEST_SLOW_LANE_H
#define WEFT_TEST_SLOW_LANE_H

#include "support/test.h"
#include "weft/comm.h"

typedef enum lane_pace {
    LANE_AT_ONCE, /* all done when start returns */
    LANE_RANDOM,  /* begins and ends at any call, or when slow_lane_pass is called */
    LANE_LATE,    /* begins at once, ends when waited for */
} lane_pace;

/* Freed by weft_comm_free. */
weft_comm *slow_lane_new(int rank, int world, lane_pace pace, uint64_t seed);
/* Time passes. */
void slow_lane_pass(weft_comm *comm);
/* Collectives that nobody knows to be over. */
int slow_lane_under_way(const weft_comm *comm);

#endif
