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
WEFT_API weft_store *weft_store_new(const weft_plan *plan, uint64_t seed, weft_error *error);
WEFT_API void weft_store_free(weft_store *store);

/* Copies a parameter or state out of or into the store, row-major, in its own type. `bytes` must be exact. WEFT_ORDER for
 * what another rank holds (ZeRO's optimizer state), and for what an earlier run still updates among ranks: weft_sync
 * comes first. */
WEFT_API weft_status weft_store_get(const weft_store *store, const char *path, void *into, size_t bytes,
                                    weft_error *error);
WEFT_API weft_status weft_store_set(weft_store *store, const char *path, const void *from, size_t bytes,
                                    weft_error *error);
/* Paths in a fixed order; NULL past the end. */
WEFT_API const char *weft_store_path(const weft_store *store, int index);
/* Shape of a path; returns ndim, or -1 when there is no such path. */
WEFT_API int weft_store_shape(const weft_store *store, const char *path, weft_dtype *dtype,
                              int64_t shape[WEFT_MAX_NDIM]);

/* The base learning rate of an optimizer (its name as in weft_optimizer); the schedule multiplies it. NULL: all. */
WEFT_API weft_status weft_store_set_lr(weft_store *store, const char *optimizer, double lr,
                                       weft_error *error);

/* Opens a session: allocates the arena, builds kernels. The plan and the store must outlive it. */
WEFT_API weft_session *weft_session_open(const weft_plan *plan, weft_store *store, weft_error *error);
/* The same for one rank of a world: all ranks call it with plans of one model and options.world = comm->world. The
 * ranks compare their plans first (WEFT_PEER names the first that differs), then their values become the same:
 * parameters, state and the optimizer state that each holds whole those of the first rank of the subgraph's process
 * group (without groups: of rank 0); step counters, learning rates and the seed those of rank 0. So loading on rank 0
 * alone is enough without ZeRO; with it every rank loads, and where only some have that is WEFT_PEER, as it is where one has
 * loaded what would be replaced by the values of a first rank that has not. With
 * options.check_equal no value is sent: the first that differs is WEFT_PEER on all ranks, by its name and rank.
 * With accumulation a of micro-batches, rank r takes numbers (step * world + r) * a + i of the data. `comm` must outlive
 * the session; runs of graphs that train are collective. After a WEFT_PEER error call weft_comm_abort. */
WEFT_API weft_session *weft_session_open_on(const weft_plan *plan, weft_store *store, weft_comm *comm,
                                            weft_error *error);
WEFT_API void weft_session_close(weft_session *session);

/* Chooses the GPU that stores and sessions of plans for CUDA use from now on in this thread, before they are made; without
 * a call it is number 0. A rank of several on one machine takes number comm->local_rank. WEFT_DEVICE when there is none,
 * WEFT_UNSUPPORTED in a build without CUDA. */
WEFT_API weft_status weft_cuda_select(int index, weft_error *error);

/* Ends what outlasted the last run: ZeRO's broadcasts of updated parameters, and in a world sums and updates that the plan
 * leaves to later runs. Runs of this session do so by themselves, each node for what it reads; call this before the store
 * is read or another session runs on it, which are WEFT_ORDER errors until then. With ZeRO all ranks call it at the same
 * place among their runs. After a failure nothing is under way any more. On a GPU it returns when all work is done. */
WEFT_API weft_status weft_sync(weft_session *session, weft_error *error);

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
 * the update, the others only add gradients. Graphs that train the same parameters take turns by whole steps, in one
 * session (else WEFT_ORDER). A run that fails in the middle may have written state and parameters; the gradients of the
 * step's earlier runs are kept, and it may be repeated (in a world: when none of its collectives had begun), unless it
 * was the last and sums or updates had begun: then the next one begins a new step.
 *     float loss;
 *     weft_run(s, "d_step", (weft_feed[]){{"image", batch, sizeof batch}}, 1,
 *              (weft_fetch[]){{"d_loss", &loss, sizeof loss}}, 1, &error); */
WEFT_API weft_status weft_run(weft_session *session, const char *graph, const weft_feed *feeds, int n_feeds,
                              const weft_fetch *fetches, int n_fetches, weft_error *error);

/* The same for a micro-batch that does not end a step: its gradients are added, for all subgraphs of the graph at once,
 * nothing is updated and no gradient communicated. After it the next weft_run of the graph is the last of
 * the step, before the count is full too: m times this, then weft_run, with m + 1 <= k. (A step of a single
 * micro-batch wants a plan with accumulate 1: with k > 1 the first weft_run of a step does not update.) Gradients are
 * divided by k * world whatever m is, as a loss divided by k is in PyTorch. Errors (WEFT_ORDER): a plan with accumulate
 * 1, a graph that trains nothing, micro-batch number k. */
WEFT_API weft_status weft_run_no_sync(weft_session *session, const char *graph, const weft_feed *feeds,
                                      int n_feeds, const weft_fetch *fetches, int n_fetches,
                                      weft_error *error);

/* What a graph wants and gives: index 0, 1, ... ; false past the end. */
typedef struct weft_port {
    const char *name;
    weft_dtype dtype;
    int ndim;
    int64_t shape[WEFT_MAX_NDIM];
    size_t bytes;
} weft_port;
WEFT_API bool weft_plan_input(const weft_plan *plan, const char *graph, int index, weft_port *port);
WEFT_API bool weft_plan_output(const weft_plan *plan, const char *graph, int index, weft_port *port);

/* For finding faults. After every node its floating-point results are read back: the first that is NaN or infinite ends the
 * run with WEFT_DATA, naming the node and the element. Slow. */
WEFT_API void weft_session_check(weft_session *session, bool on);
/* On a GPU: whether launches are captured and replayed (true without a word), or go node by node. Over NCCL the same on all
 * ranks. */
WEFT_API void weft_session_capture(weft_session *session, bool on);

/* On a GPU: bytes in use there beyond the plan's (weft_plan_memory's total, which store and session take exactly): by the CUDA
 * context, by libraries for themselves, by whoever else uses the device. 0 on a CPU, where nobody counts. */
WEFT_API weft_status weft_session_beyond(const weft_session *session, uint64_t *bytes, weft_error *error);

/* How long each node took on average, as text (slowest first); free with free(). Counts what runs while
 * weft_session_profile(session, true) holds, which costs two clock reads a node. */
WEFT_API void weft_session_profile(weft_session *session, bool on);
WEFT_API char *weft_session_profile_text(const weft_session *session);

/* When a node ran, on the monotonic clock in nanoseconds (that of weft_comm_event). Texts live as long as the plan. */
typedef struct weft_node_event {
    const char *graph, *op, *scope;
    const char *kernel; /* NULL: it starts a collective or waits for one */
    int id;             /* the node's first number in the plan's text, 0 without a result */
    uint64_t run;       /* that of the run's collectives (weft_collective.run); 0: the program has none */
    int64_t order;      /* of the collective that it starts or waits for; -1: none of this run's */
    bool is_wait;       /* with order -1: before this node, for what an earlier run had left under way */
    uint64_t began_ns, finished_ns;
} weft_node_event;
/* Calls `event` after each node, in the thread of weft_run; NULL switches it off, and then it costs nothing. */
WEFT_API void weft_session_trace(weft_session *session,
                                 void (*event)(void *context, const weft_node_event *event), void *context);

#ifdef __cplusplus
}
#endif
#endif
