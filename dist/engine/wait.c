/* wait.c - how a rank waits: each wait exchanges control messages, so deadlines hold and heartbeats continue
 * during it. */
#include "dist/engine/engine.h"

#include <sched.h>

/* A wait yields this long before its first nap: most rendezvous take microseconds. */
#define POLL_NS      50000u
#define BELL_SECONDS 1e-3 /* longest nap when the window's bell can end it */

/* The condition variable uses the monotonic clock, see engine_init. */
void engine_wait_changed(engine *e, double seconds) {
    struct timespec t = clock_after(seconds);
    pthread_cond_timedwait(&e->changed, &e->lock, &t);
}

void engine_nap(engine *e, double seconds) {
    if (e->t->calls->nap)
        e->t->calls->nap(e->t, seconds);
    else
        clock_nap(seconds);
}

/* Fails with the reason that the given rank has sent. If that misses a rank that is missing here too, the
 * report is this rank's own: a process may have ended since the last look, while its data were awaited. A
 * rank that is only late here is no reason: where ranks differ, the first to see it may be heard before the
 * one that differs. */
static weft_status fail_with(engine *e, const stream_op *op, int rank, weft_error *error) {
    const peer *p = &e->peers[rank];
    if (p->has_lost) watch_pump_now(e);
    if (watch_misses(e, op, p->missing)) return watch_stalled(e, op, clock_since(op->since_ns), error);
    e->is_passed_on = true;
    e->heard_from = rank;
    e->missing = p->missing;
    return error_set(error, WEFT_PEER, "collective #%llu (%s): rank %d has given up: %s",
                     (unsigned long long)op->c.order, SHOW(op->name), p->origin, p->reason);
}

/* Fails if a member differs, has given up or ended, or the caller has aborted. */
static weft_status check_alive(engine *e, const stream_op *op, weft_error *error) {
    bool all;
    weft_status status = watch_members(e, op, &all, error);
    for (int i = 0; !status && i < op->group->n; i++)
        if (e->peers[op->group->ranks[i]].has_failed) status = fail_with(e, op, op->group->ranks[i], error);
    pthread_mutex_lock(&e->lock);
    if (!status && e->failure.status) { /* abort or fail was called */
        status = e->failure.status;
        e->is_passed_on = true;
        if (error) *error = e->failure;
    }
    pthread_mutex_unlock(&e->lock);
    for (int i = 0; !status && i < op->group->n; i++)
        if (e->peers[op->group->ranks[i]].ending)
            status = watch_stalled(e, op, clock_since(op->since_ns), error);
    return status;
}

/* Naps until the bell rings, or for a short time where data come as messages: those ring no bell and must be
 * polled. */
static void nap(engine *e, const stream_op *op, unsigned heard) {
    double seconds = op->way == BY_WINDOW ? BELL_SECONDS : e->options.nap_seconds;
    if (e->t->window)
        window_nap(e->t->window, heard, seconds);
    else
        engine_nap(e, seconds);
}

/* The window is listened to before looking, so that a ring in between ends the nap at once (window.h). */
weft_status engine_until(engine *e, const stream_op *op,
                         weft_status (*is_ready)(engine *e, const stream_op *op, bool *ready,
                                                 weft_error *error),
                         weft_error *error) {
    uint64_t begin = clock_now(), limit = begin + (uint64_t)(e->options.deadline_seconds * 1e9), now = begin;
    for (;;) {
        bool ready = false, is_long = now - begin > POLL_NS;
        unsigned heard = is_long && e->t->window ? window_listen(e->t->window) : 0;
        watch_pump(e);
        weft_status status = is_ready(e, op, &ready, error);
        if (status || ready) return status;
        status = check_alive(e, op, error);
        if (status) return status;
        now = clock_now();
        if (now > limit) return watch_stalled(e, op, e->options.deadline_seconds, error);
        if (is_long)
            nap(e, op, heard);
        else
            sched_yield();
    }
}

static weft_status transfers_done(engine *e, const stream_op *op, bool *ready, weft_error *error) {
    (void)op;
    return e->t->calls->progress(e->t, ready, error);
}

weft_status engine_transfer(engine *e, const stream_op *op, weft_error *error) {
    return engine_until(e, op, transfers_done, error);
}

void transport_drain(transport *t) {
    control unread;
    for (int i = 0; i < 200; i++) {
        while (t->calls->control_receive(t, &unread)) {
        }
        clock_nap(1e-3);
    }
}
