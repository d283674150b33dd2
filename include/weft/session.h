/* session.h - a store holds a model's values, a session runs a plan's programs on it.
 *
 * Several sessions (train at one batch size, validate at another, predict) may share one store; runs that write
 * (training graphs) must not overlap with other runs on that store: one writer at a time. Sessions on different
 * stores are independent and may run in different threads. A run is a pure function of (model, seed, data,
 * threads, instruction set): the same bits twice.
 */
#ifndef WEFT_SESSION_H
#define WEFT_SESSION_H

#include "weft/comm.h"
#include "weft/plan.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weft_store weft_store;
typedef struct weft_session weft_session;

/* A store for the plan's model, with every value at its initial one (by seed and path). */
weft_store *weft_store_new(const weft_plan *plan, uint64_t seed, weft_error *error);
void weft_store_free(weft_store *store);

/* Copies a parameter or state out of or into the store, row-major, in its own type. `bytes` must be exact. */
weft_status weft_store_get(const weft_store *store, const char *path, void *into, size_t bytes,
                           weft_error *error);
weft_status weft_store_set(weft_store *store, const char *path, const void *from, size_t bytes,
                           weft_error *error);
/* Paths in a fixed order; NULL past the end. */
const char *weft_store_path(const weft_store *store, int index);
/* Shape of a path; returns ndim, or -1 when there is no such path. */
int weft_store_shape(const weft_store *store, const char *path, weft_dtype *dtype,
                     int64_t shape[WEFT_MAX_NDIM]);

/* The base learning rate of an optimizer (its name as in weft_optimizer); the schedule multiplies it. NULL: all. */
weft_status weft_store_set_lr(weft_store *store, const char *optimizer, double lr, weft_error *error);

/* Opens a session: allocates the arena, builds kernels. The plan and the store must outlive it. */
weft_session *weft_session_open(const weft_plan *plan, weft_store *store, weft_error *error);
/* The same for one rank of a world: all ranks call it with plans of one model and options.world = comm->world. The
 * ranks compare their plans first (WEFT_PEER names the first that differs), then rank 0's store goes to all. With
 * accumulation a of micro-batches, rank r takes numbers (step * world + r) * a + i of the data. `comm` must outlive
 * the session; runs of graphs that train are collective. After a WEFT_PEER error call weft_comm_abort. */
weft_session *weft_session_open_on(const weft_plan *plan, weft_store *store, weft_comm *comm,
                                   weft_error *error);
void weft_session_close(weft_session *session);

/* Waits for what outlasted the last run (ZeRO's broadcasts of updated parameters). Runs of this session wait by
 * themselves, each node for what it reads; call this before the store is read or another session runs on it. */
weft_status weft_sync(weft_session *session, weft_error *error);

/* A tensor of the caller's: row-major. For fetches `data` is written. */
typedef struct weft_feed {
    const char *name;
    const void *data;
    size_t bytes;
} weft_feed;
typedef struct weft_fetch {
    const char *name;
    void *data;
    size_t bytes;
} weft_fetch;

/* Runs a graph once. Every input must be fed, with exactly its bytes; the data are read in place and must stay
 * as they are during the call. With accumulation (options.accumulate = k), a training graph's k-th run applies
 * the update, the others only add gradients.
 *     float loss;
 *     weft_run(s, "d_step", (weft_feed[]){{"image", batch, sizeof batch}}, 1,
 *              (weft_fetch[]){{"d_loss", &loss, sizeof loss}}, 1, &error); */
weft_status weft_run(weft_session *session, const char *graph, const weft_feed *feeds, int n_feeds,
                     const weft_fetch *fetches, int n_fetches, weft_error *error);

/* What a graph wants and gives: index 0, 1, ... ; false past the end. */
typedef struct weft_port {
    const char *name;
    weft_dtype dtype;
    int ndim;
    int64_t shape[WEFT_MAX_NDIM];
    size_t bytes;
} weft_port;
bool weft_plan_input(const weft_plan *plan, const char *graph, int index, weft_port *port);
bool weft_plan_output(const weft_plan *plan, const char *graph, int index, weft_port *port);

/* How long each node took on average since the session opened, as text (slowest first); free with free().
 * Switched on by weft_session_profile(session, true), which costs two clock reads a node. */
void weft_session_profile(weft_session *session, bool on);
char *weft_session_profile_text(const weft_session *session);

/* When a node ran, on the monotonic clock in nanoseconds (that of weft_comm_event). Texts live as long as the plan. */
typedef struct weft_node_event {
    const char *graph, *op, *scope;
    const char *kernel; /* NULL: it starts a collective or waits for one */
    int id;             /* the node's first number in the plan's text, 0 without a result */
    uint64_t run;       /* that of the run's collectives (weft_collective.run); 0: the program has none */
    int64_t order;      /* of the collective that it starts or waits for; -1: none */
    bool is_wait;
    uint64_t began_ns, finished_ns;
} weft_node_event;
/* Calls `event` after each node, in the thread of weft_run; NULL switches it off, and then it costs nothing. */
void weft_session_trace(weft_session *session, void (*event)(void *context, const weft_node_event *event),
                        void *context);

#ifdef __cplusplus
}
#endif
#endif
