/* comm_threads.c - a transport whose ranks are threads of one process: for tests, and to try many ranks on
 * one machine.
 *
 * The board has one notice per (sender, receiver): "these bytes wait for you". The receiver copies the bytes
 * outside the lock and marks the notice; the sender then removes it. Each rank has one ring of control
 * messages. One lock protects all of it, because these worlds are small. */
#include "dist/core/transport.h"

#include "dist/core/comm_options.h"
#include "dist/engine/engine.h"

#include <string.h>

enum { RING = 8, MOST_THREADS = 256 }; /* RING: unread control messages per sender in a rank's ring */

/* NONE: free. WAITS: posted by the sender. IS_COPIED: the receiver is copying. DONE: copied, for the sender
 * to remove. */
typedef enum notice_state { NOTICE_NONE, NOTICE_WAITS, NOTICE_IS_COPIED, NOTICE_DONE } notice_state;

/* A send under way; data are the sender's. */
typedef struct notice {
    notice_state state;
    int tag;
    const void *data;
    size_t bytes;
} notice;

/* A receive under way. */
typedef struct want {
    bool is_open;
    int tag;
    void *into;
    size_t bytes;
} want;

typedef struct thread_world thread_world;
typedef struct thread_rank {
    transport t; /* first: what the engine holds */
    thread_world *world;
    /* signalled when something may have changed for this rank */
    pthread_cond_t called;
    bool is_called, has_left;
    /* [RING * n]; ring_in and ring_out count messages */
    control *ring;
    uint64_t ring_in, ring_out;
    want *wants; /* [n], one per sender; only this rank's thread touches them */
} thread_rank;

struct thread_world {
    weft_env env;
    arena memory; /* of the tables; pieces of windows are apart, as they are large and aligned */
    pthread_mutex_t lock;
    /* ranks; those that are not freed yet: the last one frees the world */
    int n, users;
    thread_rank *ranks;
    notice *board; /* [from][to], n * n */
    char *pieces;  /* the n pieces of the windows, one after another; NULL: no windows */
    size_t piece_bytes;
};

static thread_rank *rank_of(transport *t) {
    return (thread_rank *)t;
}

static notice *notice_of(thread_world *w, int from, int to) {
    return &w->board[from * w->n + to];
}

/* Wakes a rank. The lock is held. */
static void call(thread_world *w, int rank) {
    w->ranks[rank].is_called = true;
    pthread_cond_signal(&w->ranks[rank].called);
}

/* Posts a notice. One message per sender and receiver is under way at a time. */
static weft_status threads_send(transport *t, int to, int tag, const void *from, size_t bytes,
                                weft_error *error) {
    thread_world *w = rank_of(t)->world;
    pthread_mutex_lock(&w->lock);
    notice *n = notice_of(w, t->rank, to);
    bool is_free = n->state == NOTICE_NONE;
    if (is_free) *n = (notice){NOTICE_WAITS, tag, from, bytes};
    call(w, to);
    pthread_mutex_unlock(&w->lock);
    return is_free ? WEFT_OK : error_set(error, WEFT_INTERNAL, "two messages to rank %d at once", to);
}

/* Only notes what is wanted; threads_progress copies it when it comes. */
static weft_status threads_receive(transport *t, int from, int tag, void *into, size_t bytes,
                                   weft_error *error) {
    want *w = &rank_of(t)->wants[from];
    if (w->is_open) return error_set(error, WEFT_INTERNAL, "two messages from rank %d at once", from);
    *w = (want){true, tag, into, bytes};
    return WEFT_OK;
}

/* Copies what one sender has posted for this rank. The lock is held on entry and on return, but not while
 * copying. */
static weft_status take_message(thread_rank *r, int from, weft_error *error) {
    thread_world *w = r->world;
    want *wanted = &r->wants[from];
    notice *n = notice_of(w, from, r->t.rank);
    if (!wanted->is_open || n->state != NOTICE_WAITS) return WEFT_OK;
    if (n->tag != wanted->tag || n->bytes != wanted->bytes)
        return error_set(error, WEFT_INTERNAL, "rank %d sent %zu bytes (tag %d), %zu (tag %d) were expected",
                         from, n->bytes, n->tag, wanted->bytes, wanted->tag);
    n->state = NOTICE_IS_COPIED;
    pthread_mutex_unlock(&w->lock);
    memcpy(wanted->into, n->data, n->bytes);
    pthread_mutex_lock(&w->lock);
    n->state = NOTICE_DONE;
    wanted->is_open = false;
    call(w, from);
    return WEFT_OK;
}

/* Copies what has come, removes own notices that were copied, and looks whether anything is left. */
static weft_status threads_progress(transport *t, bool *is_done, weft_error *error) {
    thread_rank *r = rank_of(t);
    thread_world *w = r->world;
    weft_status status = WEFT_OK;
    *is_done = true;
    pthread_mutex_lock(&w->lock);
    for (int i = 0; !status && i < w->n; i++) {
        status = take_message(r, i, error);
        notice *mine = notice_of(w, t->rank, i);
        if (mine->state == NOTICE_DONE) mine->state = NOTICE_NONE;
        if (r->wants[i].is_open || mine->state != NOTICE_NONE) *is_done = false;
    }
    pthread_mutex_unlock(&w->lock);
    return status;
}

/* A rank that has left takes no messages; for the sender they count as sent. */
static bool threads_control_send(transport *t, int to, const control *message) {
    thread_world *w = rank_of(t)->world;
    pthread_mutex_lock(&w->lock);
    thread_rank *r = &w->ranks[to];
    uint64_t room = (uint64_t)RING * (uint64_t)w->n;
    bool has_room = r->has_left || r->ring_in - r->ring_out < room;
    if (has_room && !r->has_left) r->ring[r->ring_in++ % room] = *message;
    call(w, to);
    pthread_mutex_unlock(&w->lock);
    return has_room;
}

static bool threads_control_receive(transport *t, control *message) {
    thread_rank *r = rank_of(t);
    thread_world *w = r->world;
    pthread_mutex_lock(&w->lock);
    bool has_one = r->ring_in != r->ring_out;
    if (has_one) *message = r->ring[r->ring_out++ % ((uint64_t)RING * (uint64_t)w->n)];
    pthread_mutex_unlock(&w->lock);
    return has_one;
}

/* Sleeps until another rank calls this one. */
static void threads_nap(transport *t, double seconds) {
    thread_rank *r = rank_of(t);
    struct timespec end = clock_after(seconds);
    pthread_mutex_lock(&r->world->lock);
    if (!r->is_called) pthread_cond_timedwait(&r->called, &r->world->lock, &end);
    r->is_called = false;
    pthread_mutex_unlock(&r->world->lock);
}

/* Removes this rank's notices and wants. A notice that is being copied is waited for, a matter of
 * microseconds. */
static void threads_withdraw(transport *t) {
    thread_rank *r = rank_of(t);
    thread_world *w = r->world;
    pthread_mutex_lock(&w->lock);
    for (int i = 0; i < w->n; i++) {
        while (notice_of(w, t->rank, i)->state == NOTICE_IS_COPIED) pthread_cond_wait(&r->called, &w->lock);
        notice_of(w, t->rank, i)->state = NOTICE_NONE;
        r->wants[i].is_open = false;
    }
    pthread_mutex_unlock(&w->lock);
}

static void threads_close(transport *t, bool is_failed) {
    thread_rank *r = rank_of(t);
    (void)is_failed;
    threads_withdraw(t);
    pthread_mutex_lock(&r->world->lock);
    r->has_left = true;
    pthread_mutex_unlock(&r->world->lock);
}

/* Also frees a world that is only partly made. */
static void world_free(thread_world *w) {
    for (int i = 0; w->ranks && i < w->n; i++) {
        window_free(w->ranks[i].t.window);
        pthread_cond_destroy(&w->ranks[i].called);
    }
    arena_free(&w->memory);
    mem_free(&w->env, w->pieces, (size_t)w->n * w->piece_bytes);
    pthread_mutex_destroy(&w->lock);
    weft_env env = w->env;
    mem_free(&env, w, sizeof *w);
}

/* The last rank frees the world, on whatever thread that happens. */
static void threads_free(transport *t) {
    thread_world *w = rank_of(t)->world;
    pthread_mutex_lock(&w->lock);
    bool is_last = --w->users == 0;
    pthread_mutex_unlock(&w->lock);
    if (is_last) world_free(w);
}

static const transport_calls threads_calls = {
    .kind = "threads",
    .send = threads_send,
    .receive = threads_receive,
    .progress = threads_progress,
    .control_send = threads_control_send,
    .control_receive = threads_control_receive,
    .nap = threads_nap,
    .withdraw = threads_withdraw,
    .close = threads_close,
    .free = threads_free,
};

/* The last field is the window, which windows_init makes. */
static bool rank_init(thread_world *w, int i, const pthread_condattr_t *monotonic) {
    thread_rank *r = &w->ranks[i];
    r->t = (transport){&threads_calls, i, w->n, i, w->n, 1e-3, NULL};
    r->world = w;
    r->ring = arena_new_array(&w->memory, RING * (size_t)w->n, sizeof(control));
    r->wants = arena_new_array(&w->memory, (size_t)w->n, sizeof(want));
    return pthread_cond_init(&r->called, monotonic) == 0 && r->ring && r->wants;
}

/* Makes all windows, before any rank's engine starts. */
static bool windows_init(thread_world *w, size_t data_bytes) {
    size_t n = (size_t)w->n;
    int numbers[MOST_THREADS];
    for (int i = 0; i < w->n; i++) numbers[i] = i;
    w->piece_bytes = window_piece_bytes(w->n, data_bytes);
    w->pieces = mem_new_array(&w->env, n, w->piece_bytes);
    if (!w->pieces) return false;
    for (int i = 0; i < w->n; i++) {
        window *one = window_new(&w->env, w->n, numbers, w->n, i, data_bytes);
        if (!one) return false;
        for (size_t k = 0; k < n; k++) one->pieces[k] = w->pieces + k * w->piece_bytes;
        window_clean(one);
        w->ranks[i].t.window = one;
        w->ranks[i].t.nap_seconds = 50e-6; /* the bell ends naps, messages do not */
    }
    return true;
}

/* All or nothing; NULL: out of memory, or the system has no more locks. */
static thread_world *world_new(int n, int64_t window_bytes, const weft_env *env) {
    pthread_condattr_t monotonic;
    thread_world *w = mem_new(env, sizeof *w);
    if (!w || pthread_condattr_init(&monotonic)) {
        mem_free(env, w, sizeof *w);
        return NULL;
    }
    if (env) w->env = *env;
    w->n = w->users = n;
    arena_init(&w->memory, &w->env);
    w->ranks = arena_new_array(&w->memory, (size_t)n, sizeof *w->ranks);
    w->board = arena_new_array(&w->memory, (size_t)n * (size_t)n, sizeof *w->board);
    bool good = pthread_mutex_init(&w->lock, NULL) == 0 && w->ranks && w->board &&
                pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC) == 0;
    for (int i = 0; w->ranks && i < n; i++) good = rank_init(w, i, &monotonic) && good;
    pthread_condattr_destroy(&monotonic);
    if (good && window_bytes > 0 && window_is_enough(n, (size_t)window_bytes))
        good = windows_init(w, (size_t)window_bytes);
    if (good) return w;
    world_free(w);
    return NULL;
}

weft_status weft_comm_threads(int world, const weft_comm_options *options, weft_comm **comms,
                              weft_error *error) {
    if (!comms || world < 1 || world > MOST_THREADS)
        return error_set(error, WEFT_ARGUMENT, "weft_comm_threads: %d ranks; 1 to %d can be threads", world,
                         MOST_THREADS);
    weft_status status = comm_options_check(options, error);
    if (status) return status;
    thread_world *w = world_new(world, options ? options->window_bytes : 0, options ? options->env : NULL);
    if (!w) return error_memory(error, "a world of threads");
    weft_error first = {0}; /* kept apart, as freeing the others must not replace it */
    for (int i = 0; i < world; i++) {
        comms[i] = status ? NULL : engine_comm(&w->ranks[i].t, options, &first);
        if (status) threads_free(&w->ranks[i].t);
        if (!comms[i] && !status) status = first.status;
    }
    if (!status) return WEFT_OK;
    if (error) *error = first;
    for (int i = 0; i < world; i++) {
        weft_comm_free(comms[i]);
        comms[i] = NULL;
    }
    return status;
}
