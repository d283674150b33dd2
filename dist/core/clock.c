/* clock.c - see clock.h. */
#include "dist/core/clock.h"

#include "weft/support.h"

#include <pthread.h>
#include <stdatomic.h>

/* An engine's thread asks every few milliseconds. If nobody did for STOPPED_NS, the process was stopped. */
#define STOPPED_NS 1000000000u
static struct {
    pthread_mutex_t lock;
    uint64_t asked_ns;               /* the last time that was asked for */
    atomic_uint_least64_t stopped_ns; /* how long the process stood still */
} process_clock = {.lock = PTHREAD_MUTEX_INITIALIZER};

uint64_t clock_now(void) {
    pthread_mutex_lock(&process_clock.lock);
    uint64_t now = weft_clock_ns(), before = process_clock.asked_ns;
    if (before && now > before + STOPPED_NS) process_clock.stopped_ns += now - before;
    process_clock.asked_ns = now;
    now -= process_clock.stopped_ns;
    pthread_mutex_unlock(&process_clock.lock);
    return now;
}

uint64_t clock_peek(void) {
    return weft_clock_ns() - atomic_load(&process_clock.stopped_ns);
}

double clock_since(uint64_t ns) {
    return (double)(clock_now() - ns) * 1e-9;
}

static struct timespec span_of(uint64_t ns) {
    return (struct timespec){.tv_sec = (time_t)(ns / 1000000000u), .tv_nsec = (long)(ns % 1000000000u)};
}

struct timespec clock_span(double seconds) {
    return span_of((uint64_t)(seconds * 1e9));
}

struct timespec clock_after(double seconds) {
    return span_of(weft_clock_ns() + (uint64_t)(seconds * 1e9));
}

void clock_nap(double seconds) {
    struct timespec length = clock_span(seconds);
    nanosleep(&length, NULL);
}
