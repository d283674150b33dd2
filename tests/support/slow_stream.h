/* slow_stream.h - a communicator for one rank of a world that has no others: collectives change their buffer as other ranks
 * would, by a rule of their own, but when they like. They take from their start to the moment that somebody waits for
 * them; meanwhile their memory, scratch too, holds garbage. What a session computes must not depend on when. */
#ifndef WEFT_TEST_SLOW_STREAM_H
#define WEFT_TEST_SLOW_STREAM_H

#include "support/test.h"
#include "weft/comm.h"

typedef enum stream_pace {
    STREAM_AT_ONCE, /* all done when start returns */
    STREAM_RANDOM,  /* begins and ends at any call, or when slow_stream_pass is called */
    STREAM_LATE,    /* begins at once, ends when waited for */
} stream_pace;

/* Freed by weft_comm_free. */
weft_comm *slow_stream_new(int rank, int world, stream_pace pace, uint64_t seed);
/* Time passes. */
void slow_stream_pass(weft_comm *comm);
/* Collectives that nobody knows to be over. */
int slow_stream_under_way(const weft_comm *comm);

#endif
