/** @file
 * strategy.h - how a training is spread over ranks, in one value: data for the compiler, and three functions
 * of a run.
 *
 * A strategy is chosen by a text, NAME or NAME:key=value,key=value. Weft brings four:
 *
 *     single         one rank; a world of more is refused
 *     ddp            the whole model is one subgraph, as torch's DistributedDataParallel
 *     separate_ddp   each top-level scope is a subgraph; what holds without a strategy
 *     zero           separate_ddp with sharded state: zero:stage=2,shard=flat
 *
 * Keys of ddp and separate_ddp: broadcast_buffers, find_unused_parameters, sync_batch_norm, bf16_wire,
 * check_equal, serial (each 1, or left out: 0 is an error), reduce (ordered or fast), bucket_cap_mb. zero has
 * stage (1, which is the default, or 2), shard (greedy or flat), bucket_cap_mb, serial, reduce and
 * check_equal. They mean what weft_ddp_options and weft_compile_options say.
 *
 * The text is weft_compile_options.strategy, or that of the model (weft_model_strategy()). Options that are
 * set beside it hold too, but one that contradicts the strategy is an error. One's own strategy is a
 * weft_strategy in weft_compile_options.own_strategy. A text names it, and never loads code.
 */
#ifndef WEFT_STRATEGY_H
#define WEFT_STRATEGY_H

#include "weft/session.h"

#ifdef __cplusplus
extern "C" {
#endif

/** @name By name
 * @{ */

/** Sets the strategy by which the model is compiled where weft_compile_options.strategy is NULL; NULL: none.
 * The text is copied, and saved with the model. Errors stick, like a builder's: a text that is not
 * NAME:key=value,... is WEFT_ARGUMENT. Whether the name is known and takes the keys is asked by
 * weft_compile(). */
WEFT_API weft_status weft_model_strategy(weft_model *model, const char *strategy);
/** The text that was set, or NULL. The model owns it. */
WEFT_API const char *weft_model_strategy_text(const weft_model *model);
/** The text of the strategy that a plan was compiled by; "separate_ddp" by default. The plan owns
 * it. */
WEFT_API const char *weft_plan_strategy(const weft_plan *plan);
/** The name of strategy 0, 1, ... that Weft brings; NULL past the end. The text is static. */
WEFT_API const char *weft_strategy_name(int index);
/** @} */

/** @name Before compiling: data
 * @{ */

/** What a strategy gets. All of it lives until weft_compile() returns. */
typedef struct weft_strategy_call {
    const char *name;        /**< that of the strategy */
    const weft_model *model; /**< that is compiled */
    int world;               /**< ranks that train together */
    int rank;                /**< this one */
    /** The structure of weft_strategy.fields: what the text gives, and else zeroes. NULL without fields. */
    const void *options;
    void *context;                    /**< of the strategy */
    void *memory;                     /**< what weft_strategy_room() takes from */
    uint64_t reserved[WEFT_RESERVED]; /**< zeros (status.h) */
} weft_strategy_call;

/** Memory for the lists of a weft_distribution: zeros, which live until weft_compile() returns. NULL when
 * memory is out; then return WEFT_MEMORY. */
WEFT_API void *weft_strategy_room(const weft_strategy_call *call, size_t bytes);

/** A subgraph, as weft_model_set_ddp() makes it. */
typedef struct weft_strategy_subgraph {
    /** A scope; "": the whole model; "*": each top-level scope with parameters, as without any call. */
    const char *path;
    weft_ddp_options options;         /**< those that are not 0 are set; a process group is in them */
    uint64_t reserved[WEFT_RESERVED]; /**< zeros (status.h) */
} weft_strategy_subgraph;

/** A parameter in a bucket. */
typedef struct weft_bucket_member {
    const char *path;                 /**< "net/fc/weight" */
    int ndim;                         /**< number of axes */
    int64_t shape[WEFT_MAX_NDIM];     /**< their lengths */
    int64_t begin;                    /**< its first element in the bucket; gaps between members are zeros */
    uint64_t reserved[WEFT_RESERVED]; /**< zeros (status.h) */
} weft_bucket_member;

/** A bucket whose gradient a strategy sums by its own nodes. */
typedef struct weft_bucket {
    const char *name;                  /**< "net.0" */
    const char *subgraph;              /**< its path; "": the whole model */
    int ranks;                         /**< that share the gradient: those of the process group */
    int n_members;                     /**< parameters in it */
    const weft_bucket_member *members; /**< n_members, in the order of the bucket */
    const weft_strategy_call *call;    /**< what weft_strategy.distribute was asked */
    /** f32[n]: this rank's part. The parts of all ranks add up to the gradient of the step, whose division by
     * micro-batches and ranks is in it. */
    weft_value *gradient;
    uint64_t reserved[WEFT_RESERVED]; /**< zeros (status.h) */
} weft_bucket;

/** What a strategy decides; zeroes decide nothing, so that the options hold. What it points to must live
 * until weft_compile() returns. */
typedef struct weft_distribution {
    double bucket_cap_mb; /**< as weft_compile_options.bucket_cap_mb, like the next five */
    int zero;             /**< ZeRO stage, 1 or 2 */
    weft_shard shard;     /**< how ZeRO cuts a bucket */
    bool serial;          /**< nothing overlaps */
    weft_reduce reduce;   /**< how gradients are summed */
    bool check_equal;     /**< first values are compared, not sent */
    int n_subgraphs;      /**< number of subgraphs; 0: those that there are without it */
    /** n_subgraphs of them. An option that weft_model_set_ddp() has set to another value, and a path of
     * weft_model_set_ddp() within a subgraph of these, is an error. */
    const weft_strategy_subgraph *subgraphs;
    int n_cuts; /**< number of cuts */
    /** Paths of n_cuts parameters before which a bucket begins, in the order in which a backward finishes
     * their gradients (the last layer first). A subgraph with cuts has its buckets there and nowhere
     * else, whatever bucket_cap_mb is. */
    const char *const *cuts;
    /** Builds, by the functions of weft/ops.h, the sum of a bucket's gradient over the ranks that share
     * it, or what stands for it, as f32[n] like bucket->gradient, and returns it: updates read it. NULL,
     * or bucket->gradient as it is: the bucket is summed as without the function. It is called once for
     * each bucket while weft_compile() runs, in a world of more than one rank; what it builds are nodes
     * of the plan, and is the same on all ranks. weft_all_reduce() adds over the ranks that share
     * the bucket; weft_state() and
     * weft_assign() keep what the next step needs (an error feedback). Parameters and state of the model
     * cannot be read there, nor random numbers drawn.
     *
     * Such state is this rank's own, begins as its initializer says (random values by the path alone, so
     * equal on all ranks), and is in no file: a training that resumes from a checkpoint begins
     * with its initial values. Bits follow from the nodes, and differ in another world. WEFT_UNSUPPORTED:
     * nodes on a bucket that ZeRO shards, and state where gradients are f16, whose scale changes between
     * steps. */
    weft_value *(*gradient)(const weft_bucket *bucket);
    uint64_t reserved[WEFT_RESERVED]; /**< zeros (status.h) */
} weft_distribution;

/** @} */

/** @name A strategy of your own
 * @{ */

/** A strategy. Functions that are NULL do what separate_ddp does: nothing. What else a training over ranks
 * does are fixed calls, which all strategies share and cannot replace: weft_session_save() (the state of
 * optimizers from all ranks), the paths of the model (nothing is wrapped, so nothing is unwrapped),
 * weft_run_no_sync() (a backward without sums), weft_run_update() (what ends a manual step; before a manual
 * backward there is nothing to do), weft_loader_options (which rank reads which samples) and
 * weft_session_group(). */
typedef struct weft_strategy {
    const char *name; /**< letters, digits, '_', '-', '.'; not one of Weft's */
    /** The fields of a structure of its own that its text sets (field.h); NULL: its text has no keys. The row
     * that ends them has the structure's size. weft_compile() refuses other keys, and values that a field may
     * not have. */
    const weft_field *fields;
    /** Decides. `*into` is zero. It runs while weft_compile() does, on every rank. Anything but WEFT_OK, with
     * `*error`, ends the compilation. */
    weft_status (*distribute)(const weft_strategy_call *call, weft_distribution *into, weft_error *error);
    /** Makes the communicator of this rank: weft_comm_mpi, or your own with its own addresses and ranks.
     * Only weft_strategy_connect() calls it, which the program calls: a trainer takes the communicator that
     * it is given (weft_trainer_options.comm), and graphtool makes its own. */
    weft_comm *(*connect)(const weft_launch *launch, const weft_comm_options *options, weft_error *error);
    /** Called by each run of a graph, before its feeds are checked: it may change what feeds[n_feeds] point
     * to (a slice, a copy elsewhere), and check it. Anything but WEFT_OK ends the run with `*error`, before
     * anything has changed. In a world it fails on all ranks, or the others wait in the run for this
     * one until their deadline. It must not run the session. */
    weft_status (*before_forward)(void *context, weft_session *session, const char *graph, weft_feed *feeds,
                                  int n_feeds, weft_error *error);
    /** Called once by weft_session_open_on() (and weft_session_open()) of a plan that trains, on every
     * rank, when parameters and state of optimizers are there and all ranks have equal ones: to set
     * rates, say. A training that resumes from a checkpoint has loaded it before: a rate that is set here
     * replaces the one that was saved. It sets the same on all ranks. Anything but WEFT_OK, of any
     * rank, ends the opening on all. */
    weft_status (*after_setup_optimizers)(void *context, weft_session *session, weft_store *store,
                                          weft_error *error);
    void *context;                    /**< the first argument of the last two; it outlives sessions */
    uint64_t reserved[WEFT_RESERVED]; /**< zeros (status.h) */
} weft_strategy;

/** Opens the world of a strategy: by its connect, with rank and world as `launch` says (NULL: as
 * weft_launch_read() finds). Without connect, or for a NULL strategy, a world of one is weft_comm_self(), and
 * a larger one WEFT_ARGUMENT, as libweft has no transport between processes: set connect, say to
 * weft_comm_mpi. NULL on failure. Free it with weft_comm_free(). */
WEFT_API weft_comm *weft_strategy_connect(const weft_strategy *strategy, const weft_launch *launch,
                                          const weft_comm_options *options, weft_error *error);

/** The ranks that share the gradients of a subgraph (its process group), as a communicator; `path` is that of
 * the subgraph or of a parameter in it, "" the whole model's. The session owns it, and its own collectives
 * go over it: all ranks of the group use it between the same runs. NULL: there is no such subgraph, or the
 * session is of one rank without a communicator. */
WEFT_API weft_comm *weft_session_group(const weft_session *session, const char *path);
/** @} */

#ifdef __cplusplus
}
#endif
#endif
