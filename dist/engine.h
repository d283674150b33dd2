/* engine.h - inside the engine: a communicator on any transport. One thread a rank owns the transport and works off
 * one queue, strictly first in first out.
 *
 * A collective: (1) its facts go to all members (up to two collectives ahead of the lane, so that a busy lane
 * never waits for them); (2) when all members' facts are there and agree, (3) rounds of data follow.
 * Invariants
 *   E1 only the engine's thread calls the transport and touches peers, arrivals and the active collective
 *   E2 issued, finished, failure, place and the queue's slots change under the lock
 *   E3 a member can be at most two collectives of a group ahead, so four slots of arrivals suffice
 */
#ifndef WEFT_DIST_ENGINE_H
#define WEFT_DIST_ENGINE_H

#include "dist/collective.h"
#include "dist/transport.h"

#include <pthread.h>

enum { QUEUE = 256, AHEAD = 2, ARRIVALS = 4 };

typedef struct arrival {
    uint64_t sequence; /* 0: none yet */
    facts facts;
} arrival;

typedef struct engine_group {
    struct engine_group *next;
    uint32_t id; /* 0: the world */
    char name[24];
    int n, own;        /* ranks; this rank's place */
    int *ranks;        /* in the world */
    uint64_t sequence; /* of the newest started */
    arrival *arrivals; /* [n][ARRIVALS] */
} engine_group;

/* A started collective. */
typedef struct lane_op {
    weft_collective c;
    char program[NAME_BYTES], name[NAME_BYTES];
    engine_group *group;
    uint64_t sequence;
    facts facts;
    int told; /* members to whom its facts have gone */
    uint64_t started_ns, began_ns, met_ns;
} lane_op;

/* What is known of another rank. */
typedef struct peer {
    uint64_t last_order, heard_ns;
    char last_name[NAME_BYTES], last_kind[20], place[PLACE_BYTES];
    bool has_entered; /* anything */
    bool has_failed;
    char reason[REASON_BYTES];
} peer;

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
    uint64_t issued, finished;
    lane_op queue[QUEUE];
    engine_group *groups; /* newest first; the world is last */
    uint32_t n_groups;
    char place[PLACE_BYTES];
    /* the engine's thread's */
    peer *peers;
    range *work, *dest;
    uint64_t next_beat_ns, deadline_ns;
    int beat_to; /* next rank of a heartbeat that is under way; world: none is */
} engine;

uint64_t engine_now(void); /* ns, monotonic */

/* ---- engine_watch.c: messages besides the data ---- */
facts facts_of(const lane_op *op);
/* Sends what is due, reads what has come. */
void watch_pump(engine *e);
/* Have all members entered? Fails when one differs or has given up. */
weft_status watch_members(engine *e, const lane_op *op, bool *are_all_here, weft_error *error);
/* The deadline has passed: a table of who is where. */
weft_status watch_stalled(engine *e, const lane_op *op, double seconds, weft_error *error);
/* Tells all ranks why this one gives up. */
void watch_tell_failure(engine *e, const char *reason);

/* ---- engine_move.c: the data ---- */
weft_status move_collective(engine *e, lane_op *op, weft_error *error);

/* ---- engine.c: the thread ---- */
void *engine_main(void *context);
/* Waits on `changed`, at most so long; the lock is held. */
void engine_wait_changed(engine *e, double seconds);
/* Sets the failure unless there is one; the lock is held. */
void engine_fail_locked(engine *e, const weft_error *error);
/* Pumps until `is_ready` says so; fails at the deadline, on abort, when a member has given up. */
weft_status engine_until(engine *e, const lane_op *op,
                         weft_status (*is_ready)(engine *e, const lane_op *op, bool *ready,
                                                 weft_error *error),
                         weft_error *error);

#endif
