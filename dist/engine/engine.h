/* engine.h - inside the engine: a communicator on any transport. One thread a rank owns the transport and works off
 * one queue, strictly first in first out.
 *
 * A collective: (1) its descriptor go to all members (up to two collectives ahead of the stream, so that a busy stream
 * never waits for them); (2) when all members' descriptor are there and agree, (3) rounds of data follow: through the
 * window where all members share one, by messages, or by the transport's own sums if their order does not matter.
 * Invariants
 *   E1 only the engine's thread calls the transport and touches peers, arrivals and the active collective
 *   E2 issued, finished, failure, place and the queue's slots change under the lock
 *   E3 a member can be at most two collectives of a group ahead, so four slots of arrivals suffice
 */
#ifndef WEFT_DIST_ENGINE_ENGINE_H
#define WEFT_DIST_ENGINE_ENGINE_H

#include "dist/core/collective.h"
#include "dist/shm/window.h"

#include <pthread.h>

enum { QUEUE = 256, AHEAD = 2, ARRIVALS = 4, PAST = 4 };

typedef struct arrival {
    uint64_t sequence; /* 0: none yet */
    uint64_t window_at;
    descriptor descriptor;
} arrival;

typedef struct engine_group {
    struct engine_group *next;
    uint32_t id; /* 0: the world */
    char name[24];
    int n, own;        /* ranks; this rank's place */
    bool is_local;     /* all share this rank's window */
    int *ranks;        /* in the world */
    uint64_t sequence; /* of the newest started */
    arrival *arrivals; /* [n][ARRIVALS] */
} engine_group;

/* How a collective's data go. */
typedef enum stream_way { BY_MESSAGES, BY_WINDOW, BY_TRANSPORT } stream_way;

/* A started collective. */
typedef struct stream_op {
    weft_collective c;
    char program[NAME_BYTES], name[NAME_BYTES];
    engine_group *group;
    uint64_t sequence;
    descriptor descriptor;
    int announced; /* members to whom its descriptor have gone */
    stream_way way;
    uint64_t window_at;    /* rounds this rank's window has seen before it */
    engine_group *founded; /* the barrier with which a group begins */
    uint64_t started_ns, began_ns, met_ns;
} stream_op;

/* What is known of another rank. */
typedef struct peer {
    uint64_t last_order, heard_ns;
    char last_name[NAME_BYTES], last_kind[20], place[PLACE_BYTES];
    bool has_entered; /* anything */
    bool has_failed;
    char reason[REASON_BYTES];
} peer;

/* A finished collective, for the report of a stall. */
typedef struct past {
    descriptor descriptor;
    uint64_t finished_ns;
} past;

/* How far the collective at the head of the stream is in the window; rounds of its own. */
typedef struct window_move {
    cut cut;
    bool is_shared_sum; /* everyone adds what he needs himself */
    bool has_met;
    size_t filled, added, done, awaited;
} window_move;

typedef struct engine {
    weft_env env;
    weft_comm_options options;
    transport *t;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    /* under the lock */
    bool is_open, is_closing, is_ended, is_stopping;
    weft_error failure; /* of the communicator; WEFT_OK while it is fine */
    weft_error heard;   /* another rank's, which this one's next collective with it will meet */
    uint64_t issued, finished;
    stream_op queue[QUEUE];
    engine_group *groups; /* newest first; the world is last */
    uint32_t n_groups;
    uint64_t window_rounds; /* of all that was started */
    char place[PLACE_BYTES];
    /* the engine's thread's */
    peer *peers;
    range *work, *dest;
    const void **from; /* [world]: what is added */
    uint64_t
        *window_since; /* [world]: rounds a rank's window had seen when what it shares with this one began, or
                               if that is over, ended */
    uint64_t *
        window_until; /* [world]: rounds this one's window had seen when what it last shared with a rank ended */
    window_move moving;
    past past[PAST];
    uint64_t n_past;
    uint64_t next_beat_ns, deadline_ns;
    int beat_to; /* next rank of a heartbeat that is under way; world: none is */
} engine;

uint64_t engine_now(void); /* ns, monotonic */

/* ---- engine/watch.c: messages besides the data ---- */
/* Sends what is due, reads what has come. */
void watch_pump(engine *e);
/* Have all members entered? Fails when one differs or has given up. */
weft_status watch_members(engine *e, const stream_op *op, bool *are_all_here, weft_error *error);
/* The deadline has passed: a table of who is where. */
weft_status watch_stalled(engine *e, const stream_op *op, double seconds, weft_error *error);
/* Tells all ranks why this one gives up. */
void watch_tell_failure(engine *e, const char *reason);

/* Remembers a finished collective. */
void watch_finished(engine *e, const stream_op *op);
/* What a member told when it entered; NULL: it has not. */
const arrival *watch_arrival(const stream_op *op, int member);

/* ---- engine/move.c: the data, by messages ---- */
weft_status move_collective(engine *e, stream_op *op, weft_error *error);

/* ---- engine/sum.c: sums of the transport's own ---- */
bool sum_is_possible(const engine *e, const weft_collective *c);
weft_status sum_unordered(engine *e, stream_op *op, weft_error *error);

/* ---- engine/shared.c: the data, through the window of one machine ---- */
/* Chooses the way of a collective; the lock is held. */
void shared_plan(engine *e, stream_op *op);
void shared_begin(engine *e, const stream_op *op);
/* Contributes as far as there is room, before the others have entered. */
void shared_contribute(engine *e, const stream_op *op);
weft_status shared_collective(engine *e, stream_op *op, weft_error *error);

/* ---- engine.c: the thread ---- */
void *engine_main(void *context);
/* Waits on `changed`, at most so long; the lock is held. */
void engine_wait_changed(engine *e, double seconds);
/* Sets the failure unless there is one; the lock is held. */
void engine_fail_locked(engine *e, const weft_error *error);
/* Pumps until `is_ready` says so; fails at the deadline, on abort, when a member has given up. */
weft_status engine_until(engine *e, const stream_op *op,
                         weft_status (*is_ready)(engine *e, const stream_op *op, bool *ready,
                                                 weft_error *error),
                         weft_error *error);

#endif
