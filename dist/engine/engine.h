/* engine.h - inside the engine, which makes a communicator of any transport. Each rank has one thread that
 * owns the transport and works off one queue, strictly first in, first out.
 *
 * A collective has three steps. (1) Its descriptor goes to all members, up to two collectives ahead of the
 * stream, so that a busy stream does not wait for descriptors. (2) The rank waits until the descriptors of
 * all members are here and equal. (3) The data move in rounds: through the window if all members share one,
 * by messages, or by the transport's own sums if their order does not matter.
 * Invariants
 *   E1 only the engine's thread calls the transport and touches peers, arrivals and the active collective
 *   E2 issued, finished, failure, place and the queue's slots change under the lock
 *   E3 a member is at most two collectives of a group ahead, so four slots of arrivals per member suffice */
#ifndef WEFT_DIST_ENGINE_ENGINE_H
#define WEFT_DIST_ENGINE_ENGINE_H

#include "dist/core/clock.h"
#include "dist/core/collective.h"
#include "dist/core/ring.h"
#include "dist/shm/window.h"
#include "weft/support.h"

#include <pthread.h>
#include <stdatomic.h>

/* QUEUE: collectives started and not finished. AHEAD: of them, those whose descriptors are sent early.
 * ARRIVALS: descriptors kept per member. PAST: finished collectives in a report. */
enum { QUEUE = 256, AHEAD = 2, ARRIVALS = 4, PAST = 4 };

/* That a member has entered a collective of the group, and how. */
typedef struct arrival {
    uint64_t sequence;  /* number of the collective in the group; 0: none yet */
    uint64_t window_at; /* rounds in the member's window before it, see shared.c */
    descriptor descriptor;
} arrival;

typedef struct engine_group {
    struct engine_group *next;
    uint32_t id; /* 0: the world */
    char name[24];
    int n, own;        /* number of ranks; this rank's place among them, -1: not a member */
    bool is_local;     /* all members share this rank's window */
    int *ranks;        /* [n]: ranks in the world */
    uint64_t sequence; /* number of the newest collective started here */
    arrival *arrivals; /* [n][ARRIVALS], by sequence % ARRIVALS */
} engine_group;

/* How the data of a collective travel. */
typedef enum stream_way { BY_MESSAGES, BY_WINDOW, BY_TRANSPORT } stream_way;

/* A started collective in the queue. Names are copied, so the caller's texts may go. */
typedef struct stream_op {
    weft_collective c;
    char program[NAME_BYTES], name[NAME_BYTES], contents[CONTENTS_BYTES];
    engine_group *group;
    uint64_t number;   /* among all that were started here, from 1: its ticket */
    uint64_t sequence; /* number in its group, from 1 */
    descriptor descriptor;
    int announced; /* members 0 ... announced - 1 have been sent the descriptor */
    stream_way way;
    uint64_t window_at;    /* rounds in this rank's window before this collective */
    engine_group *founded; /* the group that this barrier founds; NULL: an ordinary collective */
    uint64_t started_ns, began_ns, met_ns; /* see weft_comm_event: the time of other ranks and files, too */
    uint64_t since_ns;                     /* as began_ns, of clock_now(): for deadlines */
} stream_op;

/* What is known of another rank, from its control messages. */
typedef struct peer {
    /* order number of the last collective it entered; when its last message came, 0: never */
    uint64_t last_order, heard_ns;
    char last_name[NAME_BYTES], last_kind[20], place[PLACE_BYTES];
    bool has_entered; /* at least one collective */
    bool has_failed;
    bool has_lost; /* it has failed because a rank was lost */
    int origin;    /* it has failed for this rank's reason */
    int missing;   /* it has failed because this rank did not come or has ended; -1: for another reason */
    const char *ending; /* how it was seen to have ended without a word; NULL: it was not */
    uint64_t ended_ns;  /* and when */
    char reason[REASON_BYTES];
} peer;

/* Where the caller's thread is: written by that thread and read by others without a lock, as every node of a
 * plan writes it. `version` is odd during a change. */
typedef struct place_text {
    atomic_uint version;
    atomic_uint_least64_t words[PLACE_BYTES / 8];
} place_text;

/* A finished collective, for the report of a stall. */
typedef struct past {
    descriptor descriptor;
    uint64_t finished_ns;
} past;

/* Progress of the active collective in the window; the counts are rounds of this collective. */
typedef struct window_move {
    cut cut;
    bool is_shared_sum; /* each rank adds everything it needs itself */
    bool has_met;       /* all members have entered, so their window_since is known */
    /* rounds whose stage this rank has finished (see shared.c); awaited: `done` must reach it */
    size_t filled, added, done, awaited;
} window_move;

typedef struct engine {
    weft_env env;
    arena memory; /* of all tables and groups, until the end */
    weft_comm_options options;
    transport *t;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    /* ---- under the lock ---- */
    bool is_open, is_closing, is_ended, is_stopping;
    weft_error failure; /* the communicator's first failure, sticky; WEFT_OK while there is none */
    /* the failure of another rank: poll reports it, and the next collective with that rank fails with it */
    weft_error heard;
    weft_error lost;           /* what the `lost` option was called with */
    uint64_t issued, finished; /* collectives started and finished; tickets count from 1 */
    stream_op queue[QUEUE];
    engine_group *groups; /* linked, newest first; the world is last */
    uint32_t n_groups;
    uint64_t window_rounds; /* rounds of all collectives BY_WINDOW started here */
    /* ---- without it ---- */
    place_text place;
    ring_record *ring; /* [RING_RECORDS], by number; see ring.c for who writes what */
    char host[RING_HOST];
    /* ---- the engine's thread's alone ---- */
    bool is_passed_on;  /* the failure was reported by another rank or the caller, not found here */
    int heard_from;     /* the rank that reported it; -1: none did */
    int missing;        /* the rank that is reported as missing, here or by another rank; -1: none */
    peer *peers;        /* [world] */
    range *work, *dest; /* [world] each: of the current round, see cut_round */
    const void **from;  /* [world]: the contributions for ordered_add */
    /* Of the newest collective shared with the rank at each place of this machine: */
    uint64_t *window_since; /* rounds in its window when that collective began or, once it is over, ended */
    uint64_t *window_until; /* rounds in this rank's window when it ended */
    window_move moving;
    past past[PAST];
    uint64_t n_past;
    uint64_t next_beat_ns, next_look_ns;
    uint64_t pumped_ns; /* when messages were read last, by weft_clock_ns() */
    int beat_to;        /* next rank to send the current heartbeat to; world: no heartbeat is being sent */
} engine;

/* ---- engine/watch.c: messages besides the data ---- */
/* Sends the messages that are due, looks at the other ranks' processes when that is due, and reads the
 * messages that have come. */
void watch_pump(engine *e);
/* The same, with a look now. What a rank had sent before it ended is read after the look. */
void watch_pump_now(engine *e);
/* Have all members entered? Fails when a member's descriptor differs. */
weft_status watch_members(engine *e, const stream_op *op, bool *are_all_here, weft_error *error);
/* The deadline has passed, a process has ended, or another rank found one of these: fails with the state of
 * every member. `seconds`: how long this rank has waited. */
weft_status watch_stalled(engine *e, const stream_op *op, double seconds, weft_error *error);
/* Is this rank of the world a member that is missing here, too, and has not said why? */
bool watch_misses(const engine *e, const stream_op *op, int rank);
/* Has the process of a member ended that has not said why? */
bool watch_has_ended(const engine *e, const stream_op *op, uint64_t now);
/* Is it this member's, or, where none has ended, was nothing heard of it for two heartbeats? A busy machine
 * may silence a rank for that long beside one that died. */
bool watch_is_gone(const engine *e, const stream_op *op, int member, bool has_ended, uint64_t now);
/* Fails with a rank whose process has ended, while no collective is under way: at once, or when none has come
 * for a while that would miss it. */
weft_status watch_ended(engine *e, bool at_once, weft_error *error);
/* Sends all ranks the reason why this one gives up; is_loss: because a rank was lost. A reason that another
 * rank told is passed on as that rank's, so that it does not grow and is not cut from rank to rank. */
void watch_tell_failure(engine *e, const char *reason, bool is_loss);

/* Sets and reads the text; a read during a change may be half old, and is ended by a 0. */
void place_write(place_text *p, const char *text);
void place_read(const place_text *p, char text[PLACE_BYTES]);

/* Notes a finished collective for the report of a stall. */
void watch_finished(engine *e, const stream_op *op);
/* A member's descriptor of this collective; NULL: the member has not entered. */
const arrival *watch_arrival(const stream_op *op, int member);

/* ---- engine/ring.c: the ring of the last collectives ---- */
void ring_begin(engine *e, const stream_op *op);                      /* it was started; the lock is held */
void ring_note(engine *e, const stream_op *op, uint64_t finished_ns); /* its times; 0: not finished */
/* weft_comm_write_ring */
bool ring_write(const engine *e, int fd, uint64_t job, uint64_t job_ns);

/* ---- engine/move.c: the data, by messages ---- */
/* Runs all rounds of a collective. */
weft_status move_collective(engine *e, stream_op *op, weft_error *error);

/* ---- engine/sum.c: sums of the transport's own ---- */
/* Does the collective allow any order, and does the transport have sums? */
bool sum_is_possible(const engine *e, const weft_collective *c);
weft_status sum_unordered(engine *e, stream_op *op, weft_error *error);

/* ---- engine/shared.c: the data, through the window of one machine ---- */
/* Chooses how the data travel, and reserves rounds of the window. The lock is held. */
void shared_plan(engine *e, stream_op *op);
/* Starts the rounds of the collective at the head of the stream. */
void shared_begin(engine *e, const stream_op *op);
/* Fills this rank's slots as far as they are free; needs no other member to have entered. */
void shared_contribute(engine *e, const stream_op *op);
/* Runs all rounds, after all members have entered. */
weft_status shared_collective(engine *e, stream_op *op, weft_error *error);

/* ---- engine/wait.c ---- */
/* Exchanges control messages until is_ready sets *ready. Fails at the deadline, on an abort, or when a member
 * of op's group has given up. */
weft_status engine_until(engine *e, const stream_op *op,
                         weft_status (*is_ready)(engine *e, const stream_op *op, bool *ready,
                                                 weft_error *error),
                         weft_error *error);
/* The same until the transport's batch is done. */
weft_status engine_transfer(engine *e, const stream_op *op, weft_error *error);
/* Waits on `changed`, at most `seconds`. The lock is held. */
void engine_wait_changed(engine *e, double seconds);
/* Waits until something may have happened, at most `seconds`. */
void engine_nap(engine *e, double seconds);

/* ---- engine.c: the thread ---- */
void *engine_main(void *context);
/* A group of the given ranks in the world (NULL: all of them), without id and name; NULL: out of memory. */
engine_group *engine_group_new(engine *e, const int *ranks, int n);
/* Sets the failure unless there is one already. The lock is held. */
void engine_fail_locked(engine *e, const weft_error *error);

#endif
