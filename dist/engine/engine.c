/* engine.c - the thread of one rank: it works off the queue and makes all calls of the transport. Each wait
 * exchanges control messages, so deadlines hold and heartbeats continue during it. */
#include "dist/engine/engine.h"
#include "weft/support.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#endif

/* A wait yields this long before its first nap: most rendezvous take microseconds. */
#define POLL_NS      50000u
#define BELL_SECONDS 1e-3 /* longest nap when the window's bell can end it */
#define IDLE_SECONDS 2e-3 /* an idle thread still sends heartbeats and reads messages */

/* An engine's thread asks every few milliseconds. If nobody did for STOPPED_NS, the process was stopped. */
#define STOPPED_NS 1000000000u
static struct {
    pthread_mutex_t lock;
    uint64_t asked_ns, stopped_ns; /* the last time that was asked for; how long the process stood still */
} process_clock = {.lock = PTHREAD_MUTEX_INITIALIZER};

uint64_t engine_now(void) {
    pthread_mutex_lock(&process_clock.lock);
    uint64_t now = weft_clock_ns(), before = process_clock.asked_ns;
    if (before && now > before + STOPPED_NS) process_clock.stopped_ns += now - before;
    process_clock.asked_ns = now;
    now -= process_clock.stopped_ns;
    pthread_mutex_unlock(&process_clock.lock);
    return now;
}

void engine_nap(transport *t, double seconds) {
    (void)t;
    struct timespec length = {.tv_sec = (time_t)seconds,
                              .tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9)};
    nanosleep(&length, NULL); /* an early end does no harm */
}

struct timespec engine_time_after(double seconds) {
    uint64_t until = weft_clock_ns() + (uint64_t)(seconds * 1e9);
    return (struct timespec){.tv_sec = (time_t)(until / 1000000000u), .tv_nsec = (long)(until % 1000000000u)};
}

/* The condition variable uses the monotonic clock, see engine_init. */
void engine_wait_changed(engine *e, double seconds) {
    struct timespec t = engine_time_after(seconds);
    pthread_cond_timedwait(&e->changed, &e->lock, &t);
}

/* ---- the engine's thread ---- */

/* Fails with the reason that the given rank has sent. If that misses a rank that is missing here too, the
 * report is this rank's own: a process may have ended since the last look, while its data were awaited. A
 * rank that is only late here is no reason: where ranks differ, the first to see it may be heard before the
 * one that differs. */
static weft_status fail_with(engine *e, const stream_op *op, int rank, weft_error *error) {
    const peer *p = &e->peers[rank];
    if (p->has_lost) watch_pump_now(e);
    if (watch_misses(e, op, p->missing))
        return watch_stalled(e, op, (double)(engine_now() - op->began_ns) * 1e-9, error);
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
            status = watch_stalled(e, op, (double)(engine_now() - op->began_ns) * 1e-9, error);
    return status;
}

/* Naps until the bell rings, or for a short time where data come as messages: those ring no bell and must be
 * polled. */
static void nap(engine *e, const stream_op *op, unsigned heard) {
    double seconds = op->way == BY_WINDOW ? BELL_SECONDS : e->options.nap_seconds;
    if (e->t->window)
        window_nap(e->t->window, heard, seconds);
    else
        e->t->calls->nap(e->t, e->options.nap_seconds);
}

/* The window is listened to before looking, so that a ring in between ends the nap at once (window.h). */
weft_status engine_until(engine *e, const stream_op *op,
                         weft_status (*is_ready)(engine *e, const stream_op *op, bool *ready,
                                                 weft_error *error),
                         weft_error *error) {
    uint64_t begin = engine_now(), limit = begin + (uint64_t)(e->options.deadline_seconds * 1e9), now = begin;
    for (;;) {
        bool ready = false, is_long = now - begin > POLL_NS;
        unsigned heard = is_long && e->t->window ? window_listen(e->t->window) : 0;
        watch_pump(e);
        weft_status status = is_ready(e, op, &ready, error);
        if (status || ready) return status;
        status = check_alive(e, op, error);
        if (status) return status;
        now = engine_now();
        if (now > limit) return watch_stalled(e, op, e->options.deadline_seconds, error);
        if (is_long)
            nap(e, op, heard);
        else
            sched_yield();
    }
}

/* Have all members entered? Meanwhile this rank fills its slots, so that the others find the data without a
 * nap. */
static weft_status have_met(engine *e, const stream_op *op, bool *ready, weft_error *error) {
    if (op->way == BY_WINDOW) shared_contribute(e, op);
    return watch_members(e, op, ready, error);
}

/* Moves the data. The barrier that founds a group lets the transport make the group instead. */
static weft_status move_data(engine *e, stream_op *op, weft_error *error) {
    engine_group *g = op->founded;
    if (op->way == BY_WINDOW) return shared_collective(e, op, error);
    if (op->way == BY_TRANSPORT) return sum_unordered(e, op, error);
    if (g && g->own >= 0 && g->n > 1 && e->t->calls->group)
        return e->t->calls->group(e->t, g->id, g->ranks, g->n, error);
    return move_collective(e, op, error);
}

/* Runs one collective and reports its times to the `event` option. */
static weft_status run_op(engine *e, stream_op *op, weft_error *error) {
    op->began_ns = engine_now();
    ring_note(e, op, 0);
    if (op->way == BY_WINDOW) shared_begin(e, op);
    weft_status status = engine_until(e, op, have_met, error);
    if (!status) {
        op->met_ns = engine_now();
        ring_note(e, op, 0);
        status = move_data(e, op, error);
    }
    if (status) return status;
    uint64_t finished = engine_now();
    ring_note(e, op, finished);
    watch_finished(e, op);
    if (e->options.event) {
        weft_comm_event event = {&op->c, op->group->name, op->started_ns, op->began_ns, op->met_ns, finished};
        e->options.event(e->options.event_context, &event);
    }
    return status;
}

void engine_fail_locked(engine *e, const weft_error *error) {
    if (!e->failure.status) e->failure = *error;
    pthread_cond_broadcast(&e->changed);
}

/* Notes ranks that gave up, for `poll`, while no collective is queued here: a queued one finds out itself,
 * and says the same on every run (its own difference, before the news that another rank saw one). The lock
 * is held. */
static void hear_failures(engine *e) {
    if (e->finished != e->issued) return;
    for (int i = 0; i < e->t->world && !e->heard.status; i++)
        if (e->peers[i].has_failed)
            error_set(&e->heard, WEFT_PEER, "rank %d has given up: %s", e->peers[i].origin,
                      e->peers[i].reason);
}

/* Calls the `lost` option, once, before any call returns the error. Not under the lock. */
static void tell_lost(engine *e, const weft_error *error, bool is_found_here) {
    pthread_mutex_lock(&e->lock);
    bool is_first = !e->lost.status;
    if (is_first) e->lost = *error;
    pthread_mutex_unlock(&e->lock);
    if (is_first && e->options.lost) e->options.lost(e->options.event_context, error, is_found_here);
}

/* While no collective is under way here: has a process ended, or has another rank lost one? What both know is
 * this rank's own report. */
static void look_for_lost(engine *e) {
    weft_error error = {0};
    int teller = -1;
    if (e->lost.status) return;
    for (int i = 0; i < e->t->world && teller < 0; i++)
        if (e->peers[i].has_lost) teller = i;
    if (teller >= 0) watch_pump_now(e);
    bool is_found_here = watch_ended(e, teller >= 0, &error) != WEFT_OK;
    if (!is_found_here && teller < 0) return;
    if (!is_found_here) {
        const peer *p = &e->peers[teller];
        e->missing = p->missing;
        error_set(&error, WEFT_PEER, "rank %d has given up: %s", p->origin, p->reason);
    }
    tell_lost(e, &error, is_found_here);
    if (!is_found_here) return;
    pthread_mutex_lock(&e->lock);
    if (!e->heard.status) e->heard = error;
    pthread_mutex_unlock(&e->lock);
}

/* Exchanges messages once and returns the next collective. NULL when there is none, after a wait of
 * IDLE_SECONDS. */
static stream_op *next_op(engine *e) {
    watch_pump(e);
    pthread_mutex_lock(&e->lock);
    hear_failures(e);
    bool is_idle = e->finished == e->issued || e->failure.status;
    if (is_idle && !e->is_closing && !e->is_stopping) engine_wait_changed(e, IDLE_SECONDS);
    is_idle = e->finished == e->issued || e->failure.status;
    stream_op *op = is_idle ? NULL : &e->queue[e->finished % QUEUE];
    bool looks = is_idle && !e->failure.status && !e->is_closing;
    pthread_mutex_unlock(&e->lock);
    if (looks) look_for_lost(e);
    return op;
}

/* The thread's loop: until the communicator is closed and the queue is empty, or it has failed, or abort
 * stops it. */
static void work_off(engine *e) {
    bool has_told = false;
    for (;;) {
        pthread_mutex_lock(&e->lock);
        bool has_failed = e->failure.status != WEFT_OK, is_stopping = e->is_stopping;
        bool is_over = is_stopping || (e->is_closing && (has_failed || e->finished == e->issued));
        weft_error error = e->failure;
        pthread_mutex_unlock(&e->lock);
        if (has_failed && !has_told) watch_tell_failure(e, error.text, e->lost.status != WEFT_OK);
        has_told = has_failed;
        if (is_over) return;
        stream_op *op = next_op(e);
        if (!op) continue;
        weft_status status = run_op(e, op, &error);
        if (status && e->t->calls->withdraw) e->t->calls->withdraw(e->t);
        if (status == WEFT_PEER && !e->is_passed_on) tell_lost(e, &error, true); /* no memory is no loss */
        if (status && e->is_passed_on) look_for_lost(e);
        pthread_mutex_lock(&e->lock);
        if (e->failure.status) e->heard_from = -1; /* the caller's reason came first: that one is sent */
        if (status)
            engine_fail_locked(e, &error);
        else
            e->finished++;
        pthread_cond_broadcast(&e->changed);
        pthread_mutex_unlock(&e->lock);
    }
}

/* Allocates the tables whose length is the number of ranks, and the world's group. engine_release frees
 * them. */
static weft_status make_tables(engine *e, weft_error *error) {
    size_t w = (size_t)e->t->world;
    engine_group *g = mem_new(&e->env, sizeof *g);
    e->groups = g;
    e->peers = mem_new_array(&e->env, w, sizeof *e->peers);
    e->work = mem_new_array(&e->env, w, sizeof *e->work);
    e->dest = mem_new_array(&e->env, w, sizeof *e->dest);
    e->from = mem_new_array(&e->env, w, sizeof *e->from);
    e->ring = mem_raw(&e->env, RING_RECORDS * sizeof *e->ring); /* begun one by one */
    e->window_since = mem_new_array(&e->env, w, sizeof *e->window_since);
    e->window_until = mem_new_array(&e->env, w, sizeof *e->window_until);
    e->beat_to = e->t->world;
    e->heard_from = e->missing = -1;
    if (!g || !e->peers || !e->work || !e->dest || !e->from || !e->ring || !e->window_since ||
        !e->window_until)
        return error_memory(error, "a communicator");
    if (gethostname(e->host, sizeof e->host - 1)) *e->host = 0;
    g->n = e->t->world;
    g->own = e->t->rank;
    g->is_local = e->t->window && e->t->window->n == g->n;
    g->ranks = mem_new_array(&e->env, w, sizeof *g->ranks);
    g->arrivals = mem_new_array(&e->env, w * ARRIVALS, sizeof *g->arrivals);
    if (!g->ranks || !g->arrivals) return error_memory(error, "a communicator");
    for (int i = 0; i < g->n; i++) g->ranks[i] = i;
    snprintf(g->name, sizeof g->name, "world");
    return WEFT_OK;
}

/* The thread shares its cores with the computing threads and works in short bursts. With slices of 0.1 ms it
 * is scheduled at once instead of waiting for the end of their slices (measured on Linux 6.18, one core per
 * rank, from start to the thread's awakening: 270 us without, 15 us with; older kernels ignore it). Naps end
 * within 1 us instead of 50 us. */
static void ask_for_short_slices(void) {
#if defined(__linux__) && defined(SYS_sched_setattr)
    struct {
        uint32_t size, policy;
        uint64_t flags;
        int32_t nice;
        uint32_t priority;
        uint64_t runtime, deadline, period; /* ns; for a normal thread runtime is its time slice */
    } as = {.size = 48, .nice = getpriority(PRIO_PROCESS, 0), .runtime = 100000};
    syscall(SYS_sched_setattr, 0, &as, 0); /* only a hint: failure is fine */
    prctl(PR_SET_TIMERSLACK, 1000UL, 0, 0, 0);
    prctl(PR_SET_NAME, "weft-ranks", 0, 0, 0); /* the name in top -H */
#endif
}

/* The thread: opens the transport, works off the queue, closes the transport. is_open means that the opening
 * is over, with or without success; is_ended means that the thread touches nothing any more. */
void *engine_main(void *context) {
    engine *e = context;
    weft_error error = {0};
    ask_for_short_slices();
    weft_status status = e->t->calls->open(e->t, &error);
    bool is_open = status == WEFT_OK;
    if (is_open) status = make_tables(e, &error);
    if (e->options.nap_seconds <= 0) e->options.nap_seconds = e->t->nap_seconds;
    pthread_mutex_lock(&e->lock);
    e->is_open = true;
    if (status) engine_fail_locked(e, &error);
    pthread_cond_broadcast(&e->changed);
    pthread_mutex_unlock(&e->lock);
    if (!status) work_off(e);
    pthread_mutex_lock(&e->lock);
    bool is_stopping = e->is_stopping, has_failed = e->failure.status != WEFT_OK;
    pthread_mutex_unlock(&e->lock);
    if (is_open && is_stopping) e->t->calls->stop(e->t, e->lost.status ? EXIT_CODE_LOST : EXIT_CODE_WRONG);
    if (is_open) e->t->calls->close(e->t, has_failed);
    pthread_mutex_lock(&e->lock);
    e->is_ended = true;
    pthread_cond_broadcast(&e->changed);
    pthread_mutex_unlock(&e->lock);
    return NULL;
}
