/* clock.h - the time by which ranks wait for each other. */
#ifndef WEFT_DIST_CORE_CLOCK_H
#define WEFT_DIST_CORE_CLOCK_H

#include <stdint.h>
#include <time.h>

/* ns, monotonic, without the time in which this process did not run, as when its job is suspended: other
 * ranks, which were stopped with it, are not late for that. A second in which nobody asks counts as such a
 * stop: a waiting rank asks more often. */
uint64_t clock_now(void);
/* The same for handlers of signals: without a lock, but it does not notice a stop by itself. */
uint64_t clock_peek(void);
/* Seconds since a time of clock_now(). */
double clock_since(uint64_t ns);
/* So many seconds, as functions of the system take them. */
struct timespec clock_span(double seconds);
/* So many seconds from now, for pthread_cond_timedwait() with the monotonic clock. */
struct timespec clock_after(double seconds);
/* May end early, by a signal. */
void clock_nap(double seconds);

#endif
