/* slow_stream.h - a communicator for one rank of a world without other ranks. Collectives change their buffer
 * by a rule of their own, as other ranks would, but at any time between their start and the wait for them;
 * meanwhile their memory, scratch too, holds garbage. What a session computes must not depend on when. */
#ifndef WEFT_TEST_SLOW_STREAM_H
#define WEFT_TEST_SLOW_STREAM_H

#include "support/test.h"
#include "weft/comm.h"

typedef enum stream_pace {
    STREAM_AT_ONCE, /* done when start returns */
    STREAM_RANDOM,  /* begins and ends at any call, or when slow_stream_pass is called */
    STREAM_LATE,    /* begins at once, ends when waited for */
} stream_pace;

/* Freed by weft_comm_free. */
weft_comm *slow_stream_new(int rank, int world, stream_pace pace, uint64_t seed);
/* Lets time pass. */
void slow_stream_pass(weft_comm *comm);
/* The number of collectives that the caller does not know to be finished. */
int slow_stream_under_way(const weft_comm *comm);

#endif
