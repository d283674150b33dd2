/* engine.c - the thread of one rank: it works off the queue and makes all calls of the transport. */
#include "dist/engine/engine.h"

#include <stdio.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#endif

#define IDLE_SECONDS 2e-3 /* an idle thread still sends heartbeats and reads messages */

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
    op->since_ns = clock_now();
    op->began_ns = weft_clock_ns();
    ring_note(e, op, 0);
    if (op->way == BY_WINDOW) shared_begin(e, op);
    weft_status status = engine_until(e, op, have_met, error);
    if (!status) {
        op->met_ns = weft_clock_ns();
        ring_note(e, op, 0);
        status = move_data(e, op, error);
    }
    if (status) return status;
    uint64_t finished = weft_clock_ns();
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
        if (status == WEFT_PEER && !e->is_passed_on) tell_lost(e, &error, true); /* no memory is not a loss */
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

engine_group *engine_group_new(engine *e, const int *ranks, int n) {
    const window *w = e->t->window;
    engine_group *g = arena_new(&e->memory, sizeof *g);
    int *list = arena_new_array(&e->memory, (size_t)n, sizeof *list);
    arrival *arrivals = arena_new_array(&e->memory, (size_t)n * ARRIVALS, sizeof *arrivals);
    if (!g || !list || !arrivals) return NULL;
    *g = (engine_group){.n = n, .own = -1, .is_local = w != NULL, .ranks = list, .arrivals = arrivals};
    for (int i = 0; i < n; i++) {
        list[i] = ranks ? ranks[i] : i;
        g->is_local = g->is_local && w->place_of[list[i]] >= 0;
        if (list[i] == e->t->rank) g->own = i;
    }
    return g;
}

/* Allocates the tables whose length is the number of ranks, and the world's group. */
static weft_status make_tables(engine *e, weft_error *error) {
    size_t w = (size_t)e->t->world;
    engine_group *g = e->groups = engine_group_new(e, NULL, e->t->world);
    e->peers = arena_new_array(&e->memory, w, sizeof *e->peers);
    e->work = arena_new_array(&e->memory, w, sizeof *e->work);
    e->dest = arena_new_array(&e->memory, w, sizeof *e->dest);
    e->from = arena_new_array(&e->memory, w, sizeof *e->from);
    e->ring = mem_raw(&e->env, RING_RECORDS * sizeof *e->ring); /* begun one by one */
    e->window_since = arena_new_array(&e->memory, w, sizeof *e->window_since);
    e->window_until = arena_new_array(&e->memory, w, sizeof *e->window_until);
    e->beat_to = e->t->world;
    e->heard_from = e->missing = -1;
    if (!g || !e->peers || !e->work || !e->dest || !e->from || !e->ring || !e->window_since ||
        !e->window_until)
        return error_memory(error, "a communicator");
    if (gethostname(e->host, sizeof e->host - 1)) *e->host = 0;
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
    weft_status status = e->t->calls->open ? e->t->calls->open(e->t, &error) : WEFT_OK;
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
    if (is_open && is_stopping && e->t->calls->stop)
        e->t->calls->stop(e->t, e->lost.status ? EXIT_CODE_LOST : EXIT_CODE_WRONG);
    if (is_open) e->t->calls->close(e->t, has_failed);
    pthread_mutex_lock(&e->lock);
    e->is_ended = true;
    pthread_cond_broadcast(&e->changed);
    pthread_mutex_unlock(&e->lock);
    return NULL;
}
