/* calls.c - the table of functions above the engine: what the caller's thread does. It touches only what the
 * lock protects; the data move on the engine's thread. */
#include "dist/core/comm_options.h"
#include "dist/engine/engine.h"

#include <stdio.h>

#define CLOSE_SECONDS 30.0 /* for the thread to end: MPI_Finalize may hang, or be slow on a busy machine */
#define OPEN_SECONDS  30.0 /* for all ranks to start, at least */

/* What the caller holds for the world and for each group; all share one engine. */
typedef struct engine_handle {
    weft_comm comm; /* first: what the caller holds */
    engine *e;
    engine_group *group;
} engine_handle;

/* ---- the table of functions ---- */

static engine *engine_of(weft_comm *comm) {
    return ((engine_handle *)comm)->e;
}

/* Copies the communicator's failure. The lock is held. */
static weft_status failed(const engine *e, weft_error *error) {
    if (error) *error = e->failure;
    return e->failure.status;
}

/* Appends a collective to the queue, which has room. The lock is held. */
static void fill_op(engine *e, engine_group *g, const weft_collective *c, engine_group *founded) {
    stream_op *op = &e->queue[e->issued % QUEUE];
    *op = (stream_op){.c = *c, .group = g, .founded = founded, .started_ns = weft_clock_ns()};
    snprintf(op->program, sizeof op->program, "%s", c->program ? c->program : "");
    snprintf(op->name, sizeof op->name, "%s", c->name ? c->name : "");
    text_cut(op->contents, c->contents, sizeof op->contents);
    op->c.program = op->program;
    op->c.name = op->name;
    op->c.contents = op->contents;
    op->number = e->issued + 1;
    op->sequence = ++g->sequence;
    op->descriptor = descriptor_of(&op->c, g->n);
    shared_plan(e, op);
    ring_begin(e, op);
    e->issued++;
}

/* Waits until so many collectives are finished, or the communicator has failed. `since` restarts with each
 * finished one, and the thread's own deadline comes first: so only a thread that is stuck in a library ends
 * the wait, which is an error of the call; the communicator's failure stays unset. The lock is held. */
static weft_status await_finished(engine *e, uint64_t count, weft_error *error) {
    uint64_t since = clock_now(), at = 0;
    while (e->finished < count) {
        if (e->finished != at) since = clock_now();
        at = e->finished;
        if (e->failure.status) return failed(e, error);
        if (clock_since(since) > 4 * e->options.deadline_seconds + 5)
            return error_set(error, WEFT_PEER, "the communication thread of rank %d does not answer",
                             e->t->rank);
        engine_wait_changed(e, 0.1); /* the clock has to be asked more often than once a second */
    }
    return WEFT_OK;
}

/* Waits while the queue is full, then appends. */
static weft_status start_op(weft_comm *comm, const weft_collective *c, engine_group *founded,
                            uint64_t *ticket, weft_error *error) {
    engine *e = engine_of(comm);
    pthread_mutex_lock(&e->lock);
    weft_status status = WEFT_OK;
    while (!status && e->issued - e->finished >= QUEUE)
        status = await_finished(e, e->issued - QUEUE + 1, error);
    if (!status && e->failure.status) status = failed(e, error);
    if (!status) {
        fill_op(e, ((engine_handle *)comm)->group, c, founded);
        *ticket = e->issued;
        pthread_cond_broadcast(&e->changed);
    }
    pthread_mutex_unlock(&e->lock);
    return status;
}

/* An ordinary collective founds no group. */
static weft_status engine_start(weft_comm *comm, const weft_collective *c, uint64_t *ticket,
                                weft_error *error) {
    return start_op(comm, c, NULL, ticket, error);
}

/* A finished ticket stays finished after a failure. */
static weft_status engine_test(weft_comm *comm, uint64_t ticket, bool *is_done, weft_error *error) {
    engine *e = engine_of(comm);
    weft_status status = WEFT_OK;
    pthread_mutex_lock(&e->lock);
    *is_done = e->finished >= ticket;
    if (!*is_done && e->failure.status) status = failed(e, error);
    pthread_mutex_unlock(&e->lock);
    return status;
}

/* Returns at once if the ticket is finished, even after a failure: its results are complete. */
static weft_status engine_wait(weft_comm *comm, uint64_t ticket, weft_error *error) {
    engine *e = engine_of(comm);
    pthread_mutex_lock(&e->lock);
    weft_status status = await_finished(e, ticket, error);
    pthread_mutex_unlock(&e->lock);
    return status;
}

/* Sent with the next heartbeat. */
static void engine_place(weft_comm *comm, const char *place) {
    place_write(&engine_of(comm)->place, place);
}

static bool engine_write_ring(weft_comm *comm, int fd, uint64_t job, uint64_t job_ns) {
    return ring_write(engine_of(comm), fd, job, job_ns);
}

/* Reports the own failure, else the first failure of another rank. */
static weft_status engine_poll(weft_comm *comm, weft_error *error) {
    engine *e = engine_of(comm);
    pthread_mutex_lock(&e->lock);
    const weft_error *met = e->failure.status ? &e->failure : &e->heard;
    weft_status status = met->status;
    if (status && error) *error = *met;
    pthread_mutex_unlock(&e->lock);
    return status;
}

/* The thread sends the reason to the other ranks (work_off). */
static void engine_fail(weft_comm *comm, const char *reason) {
    engine *e = engine_of(comm);
    weft_error error;
    error_set(&error, WEFT_PEER, "%s", reason);
    pthread_mutex_lock(&e->lock);
    engine_fail_locked(e, &error);
    pthread_mutex_unlock(&e->lock);
}

/* The thread sends the reason to all ranks and stops the job. The caller waits for it up to 2 s. */
static void engine_abort(weft_comm *comm, const char *reason) {
    engine *e = engine_of(comm);
    weft_error error;
    error_set(&error, WEFT_PEER, "rank %d was aborted: %s", e->t->rank, reason);
    uint64_t begin = clock_now();
    pthread_mutex_lock(&e->lock);
    engine_fail_locked(e, &error);
    e->is_stopping = true;
    pthread_cond_broadcast(&e->changed);
    while (!e->is_ended && clock_now() - begin < 2000000000u) engine_wait_changed(e, 0.1);
    pthread_mutex_unlock(&e->lock);
}

/* ---- groups ---- */

static const weft_comm_calls engine_calls;

/* The handle of a group, freed by engine_free. The groups themselves belong to the engine. */
static weft_comm *handle_new(engine *e, engine_group *g, weft_error *error) {
    engine_handle *h = mem_new(&e->env, sizeof *h);
    if (!h) {
        error_memory(error, "a communicator");
        return NULL;
    }
    h->e = e;
    h->group = g;
    h->comm =
        (weft_comm){&engine_calls, e->t->calls->kind, g->own, g->n, e->t->local_rank, e->t->local_world};
    return &h->comm;
}

/* Makes a group. It is registered before a barrier of the whole world: a rank that has passed the barrier may
 * send messages of the group, and every rank knows the group by then (E3 holds). */
static weft_status engine_group_call(weft_comm *comm, const int *ranks, int n, weft_comm **group,
                                     weft_error *error) {
    engine *e = engine_of(comm);
    if (((engine_handle *)comm)->group->id)
        return error_set(error, WEFT_ARGUMENT,
                         "weft_comm_group: groups are made from the world, not from another group");
    engine_group *g = engine_group_new(e, ranks, n);
    if (!g) return error_memory(error, "a group of ranks");
    pthread_mutex_lock(&e->lock);
    g->id = ++e->n_groups;
    snprintf(g->name, sizeof g->name, "group %u", g->id);
    g->next = e->groups;
    e->groups = g;
    pthread_mutex_unlock(&e->lock);
    uint64_t ticket = 0;
    char list[NAME_BYTES];
    weft_collective barrier = group_barrier(ranks, n, list);
    weft_status status = start_op(comm, &barrier, g, &ticket, error);
    if (!status) status = engine_wait(comm, ticket, error);
    if (!status && g->own >= 0 && !(*group = handle_new(e, g, error))) status = WEFT_MEMORY;
    return status;
}

/* ---- begin and end ---- */

/* Frees the engine, its tables and transport. The thread has ended or was never made. */
static void engine_release(engine *e) {
    weft_env env = e->env;
    mem_free(&env, e->ring, RING_RECORDS * sizeof *e->ring);
    arena_free(&e->memory);
    e->t->calls->free(e->t);
    pthread_cond_destroy(&e->changed);
    pthread_mutex_destroy(&e->lock);
    mem_free(&env, e, sizeof *e);
}

/* The thread may touch all of this until the process ends. */
static void engine_abandon(engine *e) {
    pthread_detach(e->thread);
}

/* Ends the thread, after all started collectives. A thread that hangs is abandoned with all memory that it
 * may touch. */
static void engine_end(engine *e) {
    pthread_mutex_lock(&e->lock);
    e->is_closing = true;
    pthread_cond_broadcast(&e->changed);
    uint64_t begin = 0, now = 0;
    while (!e->is_ended && now - begin <= (uint64_t)(CLOSE_SECONDS * 1e9)) {
        engine_wait_changed(e, 0.1);
        now = clock_now();
        /* the thread's own deadline bounds this */
        bool is_busy = e->finished != e->issued && !e->failure.status;
        if (is_busy || !begin) begin = now;
    }
    bool is_ended = e->is_ended;
    pthread_mutex_unlock(&e->lock);
    if (!is_ended) {
        engine_abandon(e);
        return;
    }
    pthread_join(e->thread, NULL);
    engine_release(e);
}

/* Frees one handle; freeing the world's ends the engine. */
static void engine_free(weft_comm *comm) {
    engine_handle *h = (engine_handle *)comm;
    engine *e = h->e;
    bool is_world = h->group->id == 0;
    weft_env env = e->env;
    mem_free(&env, h, sizeof *h);
    if (is_world) engine_end(e);
}

static const weft_comm_calls engine_calls = {
    .start = engine_start,
    .test = engine_test,
    .wait = engine_wait,
    .group = engine_group_call,
    .place = engine_place,
    .abort = engine_abort,
    .free = engine_free,
    .poll = engine_poll,
    .fail = engine_fail,
    .write_ring = engine_write_ring,
};

/* The lock, and a condition variable on the monotonic clock, which changes of the date do not affect. */
static bool engine_init(engine *e) {
    pthread_condattr_t monotonic;
    if (pthread_condattr_init(&monotonic)) return false;
    bool good = pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC) == 0 &&
                pthread_cond_init(&e->changed, &monotonic) == 0;
    pthread_condattr_destroy(&monotonic);
    if (good && pthread_mutex_init(&e->lock, NULL)) {
        pthread_cond_destroy(&e->changed);
        good = false;
    }
    return good;
}

/* An engine with its thread running. It owns the transport from here on, also when it returns NULL. */
static engine *engine_new(transport *t, const weft_comm_options *options, weft_error *error) {
    const weft_env *env = options ? options->env : NULL;
    engine *e = mem_new(env, sizeof *e);
    if (!e || !engine_init(e)) {
        mem_free(env, e, sizeof *e);
        t->calls->free(t);
        error_memory(error, "a communicator");
        return NULL;
    }
    if (env) e->env = *env;
    arena_init(&e->memory, &e->env);
    if (options) e->options = *options;
    e->options.deadline_seconds = comm_deadline(options);
    e->t = t;
    if (pthread_create(&e->thread, NULL, engine_main, e) == 0) return e;
    engine_release(e);
    error_set(error, WEFT_MEMORY, "a thread for a communicator could not be made");
    return NULL;
}

/* Waits until the thread has opened the transport. MPI_Init waits for all ranks without a limit of its own,
 * and takes seconds on a busy machine, so short deadlines do not hold for it. */
weft_comm *engine_comm(transport *t, const weft_comm_options *options, weft_error *error) {
    engine *e = engine_new(t, options, error);
    if (!e) return NULL;
    double limit = comm_deadline(options) > OPEN_SECONDS ? comm_deadline(options) : OPEN_SECONDS;
    uint64_t begin = clock_now();
    pthread_mutex_lock(&e->lock);
    while (!e->is_open && clock_since(begin) <= limit) engine_wait_changed(e, 0.1);
    bool is_open = e->is_open;
    weft_status status = e->failure.status ? failed(e, error) : WEFT_OK;
    pthread_mutex_unlock(&e->lock);
    if (!is_open) {
        error_set(error, WEFT_PEER,
                  "the ranks have not met in %.0f s (%s): one of them was not started, has stopped, or "
                  "its machine cannot be reached",
                  limit, t->calls->kind);
        engine_abandon(e);
        return NULL;
    }
    weft_comm *comm = NULL;
    if (!status) {
        engine_group *world = e->groups;
        comm = handle_new(e, world, error);
    }
    if (!comm) engine_end(e);
    return comm;
}
