/** @file
 * session.h - a store holds a model's values, a session runs a plan's programs on them.
 *
 * Several sessions (train at one batch size, validate at another, predict) may share one store. Runs that
 * write (of graphs that train or assign) must not overlap with other runs on that store: there is one writer
 * at a time. Sessions on different stores may run in different threads. A run is a pure function of model,
 * seed, data, threads, instruction set and version of oneDNN: it gives the same bits twice.
 */
#ifndef WEFT_SESSION_H
#define WEFT_SESSION_H

#include "weft/comm.h"
#include "weft/plan.h"

#ifdef __cplusplus
extern "C" {
#endif

/** The values of a model's parameters, state and optimizers. Free it with weft_store_free(). */
typedef struct weft_store weft_store;
/** Runs a plan's programs. Close it with weft_session_close(). */
typedef struct weft_session weft_session;

/** @name Stores
 * @{ */

/** Makes a store for the plan's model, with every value at its initial one (by seed and path). NULL on
 * failure. */
WEFT_API weft_store *weft_store_new(const weft_plan *plan, uint64_t seed, weft_error *error);
/** Frees a store; sessions that are open hold it until they close. NULL is fine. */
WEFT_API void weft_store_free(weft_store *store);

/** Copies a parameter or state out of the store, row-major, in its own type. `bytes` must be exact.
 * WEFT_ORDER for what another rank holds (ZeRO's optimizer state), and for what an earlier run still updates
 * among ranks: call weft_sync() first. */
WEFT_API weft_status weft_store_get(const weft_store *store, const char *path, void *into, size_t bytes,
                                    weft_error *error);
/** Copies a parameter or state into the store; otherwise as weft_store_get(). Parameters are WEFT_ORDER, too,
 * while averages are in their place: weft_use_averages(). */
WEFT_API weft_status weft_store_set(weft_store *store, const char *path, const void *from, size_t bytes,
                                    weft_error *error);
/** Path of value 0, 1, ... in a fixed order; NULL past the end. The store owns the text. */
WEFT_API const char *weft_store_path(const weft_store *store, int index);

/** What a value is. Its path does not say it: parameters may have any. */
typedef enum weft_stored_kind {
    WEFT_STORED_PARAMETER,  /**< made by weft_parameter() or a layer */
    WEFT_STORED_STATE,      /**< made by weft_state() or a layer */
    WEFT_STORED_SLOT,       /**< what an optimizer keeps of a parameter: "exp_avg" */
    WEFT_STORED_AVERAGE,    /**< weft_optimizer.ema of a parameter or state; NaN until it begins */
    WEFT_STORED_STEP,       /**< f64, as all that follow: updates that an optimizer has done */
    WEFT_STORED_LR,         /**< its base learning rate */
    WEFT_STORED_EPOCH,      /**< the number of the epoch, where a schedule reads it */
    WEFT_STORED_LOSS_SCALE, /**< f16's loss scale */
    WEFT_STORED_GOOD_STEPS, /**< steps since the loss scale has changed */
    WEFT_STORED_LOSS_MEAN,  /**< mean size of losses, by which WEFT_GUARD_SPIKE finds bad steps */
    WEFT_STORED_PRODUCT,    /**< nadam's mu_product */
    WEFT_STORED_COUNTER     /**< steps of a graph's random numbers */
} weft_stored_kind;
/** A value of a store. The store owns the texts. */
typedef struct weft_stored {
    const char *path;      /**< as weft_store_path() gives it */
    weft_stored_kind kind; /**< what it is */
    /** Slots and averages: the path of the parameter or state; numbers of an optimizer: the optimizer's name;
     * else NULL. */
    const char *of;
    uint64_t reserved[WEFT_RESERVED]; /**< zeros (status.h) */
} weft_stored;
/** Writes value 0, 1, ... in the order of weft_store_path() to `*value`; false past the end. */
WEFT_API bool weft_store_at(const weft_store *store, int index, weft_stored *value);
/** Writes type and shape of a path. Returns the number of axes, or -1 when there is no such path. */
WEFT_API int weft_store_shape(const weft_store *store, const char *path, weft_dtype *dtype,
                              int64_t shape[WEFT_MAX_NDIM]);

/** Sets the base learning rate of an optimizer (its name as in weft_optimizer; NULL: of all). The schedule
 * multiplies it. */
WEFT_API weft_status weft_store_set_lr(weft_store *store, const char *optimizer, double lr,
                                       weft_error *error);
/** The learning rate of optimizer 0, 1, ... of a plan: the base rate in the store, times the schedule at the
 * last update. `*optimizer` (or NULL) receives its name, which the plan owns. False past the end. Runs that
 * are in flight need not end first. */
WEFT_API bool weft_store_lr(const weft_plan *plan, const weft_store *store, int index, const char **optimizer,
                            double *lr);
/** Sets the number of the epoch, from 0, for parts of schedules that are by_epoch: a training loop calls
 * it when an epoch begins. It is saved with the optimizer's state. Without such parts it does nothing. */
WEFT_API weft_status weft_store_set_epoch(weft_store *store, int64_t epoch, weft_error *error);
/** @} */

/** @name Sessions
 * @{ */

/** Opens a session: allocates the arena, builds kernels. It holds plan and store, which may be freed before
 * it is closed; the set of ops of the program (weft_env.ops) must outlive it. NULL on failure. */
WEFT_API weft_session *weft_session_open(const weft_plan *plan, weft_store *store, weft_error *error);
/** Opens a session of one rank of a world. All ranks call it, with plans of one model and options.world =
 * comm->world. `comm` must outlive the session. Runs of graphs that train are then collective. NULL on
 * failure; after WEFT_PEER call weft_comm_abort().
 *
 * First the ranks compare their plans: WEFT_PEER names the first difference. Then their values become equal:
 * parameters, state and the optimizer state that each rank holds whole become those of the first rank of the
 * subgraph's process group (without groups: of rank 0); step counters, learning rates and the seed become
 * those of rank 0. So without ZeRO it is enough that rank 0 loads weights. With ZeRO every rank loads; it is
 * WEFT_PEER when only some have loaded, or when a rank has loaded what the values of a first rank that has
 * not loaded would replace. With options.check_equal no value is sent: when values differ all ranks get
 * WEFT_PEER, which names the first of them and a rank.
 *
 * With accumulation of a micro-batches, run i of a step on rank r uses micro-batch (step * world + r) * a + i
 * of the data. */
WEFT_API weft_session *weft_session_open_on(const weft_plan *plan, weft_store *store, weft_comm *comm,
                                            weft_error *error);
/** Closes a session: what is in flight ends first. NULL is fine. */
WEFT_API void weft_session_close(weft_session *session);

/** Chooses the GPU for stores and sessions of CUDA plans that this thread makes from now on; without a call
 * it is number 0. With several ranks on one machine, use comm->local_rank. WEFT_DEVICE when there is none,
 * WEFT_UNSUPPORTED in a build without CUDA. */
WEFT_API weft_status weft_cuda_select(int index, weft_error *error);

/** Memory for feeds from which the plan's device copies by itself, while the host works: for CUDA, pinned
 * memory of the GPU that weft_cuda_select() chose (sessions copy other feeds there first). NULL: any memory
 * is as good. It stays as long as the program, and is not taken from weft_env. weft_run() returns when
 * such feeds have been copied. Trainers have their batches there. */
WEFT_API const weft_allocator *weft_plan_feed_memory(const weft_plan *plan);

/** Ends what is in flight after the last run: ZeRO's gathers of updated parameters, and in a world the
 * sums and updates that the plan leaves to later runs. Runs of this session end by themselves what they read.
 * Call this before the store is read or another session runs on it, which are WEFT_ORDER errors until then.
 * With ZeRO all ranks call it at the same place among their runs. After a failure nothing is in flight. On a
 * GPU it returns when all work is done. */
WEFT_API weft_status weft_sync(weft_session *session, weft_error *error);
/** Puts the averages that optimizers keep (weft_optimizer.ema) instead of their parameters and, with
 * ema_buffers, of state (on), or the parameters back into theirs: so every session on the store evaluates
 * averages, weft_store_get() gives them and a file without training state has them. A parameter whose average
 * has not begun, or which is NaN, stays. Where they are in place already nothing happens. While averages are
 * in place graphs that train or assign to what is averaged, files with training state, loading, and
 * weft_store_set() of it are WEFT_ORDER. WEFT_NAME where no optimizer keeps averages. In a world all ranks
 * call it at the same place among their runs; after another error than these the store is not to be used. */
WEFT_API weft_status weft_use_averages(weft_session *session, bool on, weft_error *error);
/** Whether averages are in place, instead of parameters. */
WEFT_API bool weft_uses_averages(const weft_store *store);
/** @} */

/** @name Runs
 * @{ */

/** A tensor for an input: row-major, owned by the caller. */
typedef struct weft_feed {
    const char *name; /**< of the input */
    const void *data; /**< its elements, read in place */
    size_t bytes;     /**< exactly those of the input's shape */
} weft_feed;
/** Room for an output: row-major, owned by the caller. */
typedef struct weft_fetch {
    const char *name; /**< of the output */
    void *data;       /**< where its elements are written */
    size_t bytes;     /**< exactly those of the output's shape */
} weft_fetch;

/** Runs a graph once. Every input must be fed, with exactly its bytes; the data must not change during the
 * call.
 *
 *     float loss;
 *     weft_run(s, "d_step", (weft_feed[]){{"image", batch, sizeof batch}}, 1,
 *              (weft_fetch[]){{"d_loss", &loss, sizeof loss}}, 1, &error);
 *
 * With accumulation (options.accumulate = k) the k-th run of a training graph applies the update; the others
 * only add gradients. Graphs that train the same parameters alternate by whole steps, in one session (else
 * WEFT_ORDER). With options.manual no run of a training graph updates: weft_run_update() does.
 *
 * A run that fails in the middle may have written state and parameters. The gradients of the step's earlier
 * runs are kept, and it may be repeated (in a world: when no collective of it had begun), unless it was
 * the step's last run and sums or updates had begun: then the next run begins a new step. */
WEFT_API weft_status weft_run(weft_session *session, const char *graph, const weft_feed *feeds, int n_feeds,
                              const weft_fetch *fetches, int n_fetches, weft_error *error);

/** Runs a graph for a micro-batch that does not end a step: its gradients are added, for all subgraphs of the
 * graph at once; nothing is updated and no gradient is communicated. The next weft_run() of the graph ends
 * the step, even when there were fewer micro-batches than the plan's k: m times this, then weft_run(), with m
 * + 1 <= k. (A step of a single micro-batch needs a plan with accumulate 1: with k > 1 the first weft_run()
 * of a step does not update.) Gradients are divided by k * world whatever m is, as in PyTorch, where the loss
 * is divided by k. WEFT_ORDER for a plan with accumulate 1, a graph that trains nothing, and micro-batch
 * number k. */
WEFT_API weft_status weft_run_no_sync(weft_session *session, const char *graph, const weft_feed *feeds,
                                      int n_feeds, const weft_fetch *fetches, int n_fetches,
                                      weft_error *error);
/** @} */

/** @name Steps alone
 * Manual optimization, for plans with options.manual: each step of a training is a call. weft_run() of a
 * training graph runs forward and backward and adds the gradients, of up to options.accumulate micro-batches
 * (here k); one more is WEFT_ORDER. The others are below. As with weft_run_no_sync(), gradients are divided
 * by k * world, however many micro-batches an update has: k runs and an update have the bits of a step of k
 * micro-batches. Other graphs run as ever. All are WEFT_ORDER for a plan without options.manual and for a
 * graph that trains nothing.
 *
 *     weft_run(s, "step", feeds, n, NULL, 0, &error);      // loss.backward()
 *     weft_run_update(s, "step", &error);                  // optimizer.step(), optimizer.zero_grad()
 * @{ */
/** The loss of a training graph: its forward alone, in training mode, with the random numbers of the step's
 * next micro-batch (after the last one: numbers that no micro-batch of this rank has). It writes state
 * (running statistics) as a training run does; gradients and parameters stay. It communicates only where the
 * forward does (norms over all ranks, sums over ranks). */
WEFT_API weft_status weft_run_loss(weft_session *session, const char *graph, const weft_feed *feeds,
                                   int n_feeds, const weft_fetch *fetches, int n_fetches, weft_error *error);
/** Updates by the gradients that weft_run() has added since the last update, as the graph's weft_minimize()
 * calls say: their sum over ranks, clipping, the optimizers' steps. Then there are no gradients. Collective
 * in a world. WEFT_ORDER where there are none; WEFT_PEER where ranks have added different numbers of
 * micro-batches or one has an error: then gradients and parameters stay. */
WEFT_API weft_status weft_run_update(weft_session *session, const char *graph, weft_error *error);
/** Forgets the gradients that weft_run() has added since the last update, which does so by itself. In a world
 * every rank calls it. */
WEFT_API weft_status weft_zero_gradients(weft_session *session, const char *graph, weft_error *error);
/** Copies the gradient of a parameter, as added so far, row-major; `bytes` must be exact. It is this rank's
 * part: in a world these add up over ranks to the gradient by which the update begins (where
 * weft_model_set_ddp() sets a process group, their sum over the group, times world / its ranks, does).
 * Neither f16's loss scale nor clipping is in it; what overflowed is infinite or NaN. WEFT_NAME where the
 * graph does not train the parameter, WEFT_ORDER where nothing was added. */
WEFT_API weft_status weft_gradient_get(weft_session *session, const char *graph, const char *parameter,
                                       float *into, size_t bytes, weft_error *error);
/** @} */

/** @name What runs take and give
 * @{ */

/** An input or output of a graph, or a tensor in a file (weft_tensors_at()). */
typedef struct weft_port {
    const char *name;                 /**< owned by the plan, or the file */
    weft_dtype dtype;                 /**< type of an element */
    int ndim;                         /**< number of axes */
    int64_t shape[WEFT_MAX_NDIM];     /**< with the plan's batch */
    size_t bytes;                     /**< of all elements */
    bool has_batch;                   /**< of an input: an axis was declared WEFT_BATCH */
    uint64_t reserved[WEFT_RESERVED]; /**< zeros (status.h) */
} weft_port;
/** Writes input 0, 1, ... of a graph to `*port`; false past the end. */
WEFT_API bool weft_plan_input(const weft_plan *plan, const char *graph, int index, weft_port *port);
/** Writes output 0, 1, ... of a graph to `*port`; false past the end. */
WEFT_API bool weft_plan_output(const weft_plan *plan, const char *graph, int index, weft_port *port);
/** weft_plan_input() of a graph as it is built, with the model's batch; the model owns the name. */
WEFT_API bool weft_graph_input(const weft_graph *graph, int index, weft_port *port);
/** @} */

/** @name Looking into runs
 * @{ */

/** Switches a check of every node's floating-point results on or off, for finding faults. The first result
 * that is NaN or infinite ends the run with WEFT_DATA, which names the node and the element. Slow. Default:
 * off. */
WEFT_API void weft_session_set_check(weft_session *session, bool on);
/** On a GPU: whether launches are captured and replayed, or are made node by node. Over NCCL it must be the
 * same on all ranks. Default: on. */
WEFT_API void weft_session_set_capture(weft_session *session, bool on);

/** On a GPU: bytes in use there beyond the plan's (the total of weft_plan_memory(), which store and session
 * take exactly): by the CUDA context, by libraries for themselves, by other programs on the device. 0 on a
 * CPU, where nobody counts. */
WEFT_API weft_status weft_session_extra_bytes(const weft_session *session, uint64_t *bytes,
                                              weft_error *error);

/** Starts or stops measuring how long each node takes, which costs two clock reads per node. Default: off. */
WEFT_API void weft_session_set_profile(weft_session *session, bool on);
/** What was measured: the mean time of each node, as text, slowest first. Free it with weft_text_free().
 * NULL when memory is out. */
WEFT_API char *weft_session_profile_text(const weft_session *session);

/** When a node ran. Times are nanoseconds of the monotonic clock, as in weft_comm_event; texts live as long
 * as the plan. */
typedef struct weft_node_event {
    const char *graph;  /**< name of the graph */
    const char *op;     /**< name of the op */
    const char *scope;  /**< path of its scope */
    const char *kernel; /**< NULL: the node starts a collective or waits for one */
    int id;             /**< the node's first number in the plan's text, 0 without a result */
    uint64_t run;       /**< weft_collective.run of the run's collectives; 0: it has no collectives */
    int64_t order;      /**< of the collective that it starts or waits for; -1: not one of this run */
    /** The node waits; with order -1, before it runs, for what an earlier run left in flight. */
    bool is_wait;
    uint64_t began_ns;                /**< when it began */
    uint64_t finished_ns;             /**< when it had finished */
    uint64_t reserved[WEFT_RESERVED]; /**< zeros (status.h) */
} weft_node_event;
/** Calls `event` after each node, in the thread of weft_run(). NULL switches it off; then it costs
 * nothing. */
WEFT_API void weft_session_trace(weft_session *session,
                                 void (*event)(void *context, const weft_node_event *event), void *context);
/** @} */

#ifdef __cplusplus
}
#endif
#endif
