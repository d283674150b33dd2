/** @file
 * comm.h - communicators: how the ranks of a world exchange tensors.
 *
 * A communicator is a small table of functions. Weft brings communicators of one rank, of threads, over MPI
 * and over NCCL; a program may bring its own by filling the table.
 *
 * Order: the collectives of one world form one stream. They begin and finish in the order in which they were
 * started, over all groups; every rank must start those it takes part in in that order. Each collective
 * carries a descriptor (order number, run, program, kind, elements ...) that the ranks compare before any
 * data move: ranks that differ get WEFT_PEER and a text that names the first difference on both sides.
 *
 * Sums: contributions are added by an aligned binary tree over ranks (for three: in order). The bits depend
 * on the contributions and their order alone: not on how a buffer is cut, which rank adds, or what else is in
 * flight; every rank gets the same bits. The option `unordered` gives this up.
 *
 * Errors stick: after one call failed, every call fails with that error. No call waits for ever: a collective
 * that does not finish within the deadline fails, and its text names the ranks that have not entered it.
 *
 * Threads: start, test, wait, poll and place of one communicator (with its groups) are called by one thread
 * at a time. Data move in the background, on a thread of the communicator's own.
 */
#ifndef WEFT_COMM_H
#define WEFT_COMM_H

#include "weft/env.h"
#include "weft/model.h"

#ifdef __cplusplus
extern "C" {
#endif

/** @name Collectives
 * @{ */

/** Each kind of collective once. All work in place on one buffer of `count` elements. The range of rank r is
 * counts[r] elements after those of the ranks before it; without counts it is that of weft_comm_range(). */
#define WEFT_COLLECTIVE_LIST(X)                                                                              \
    X(BARRIER, 0, "barrier")               /* no data: returns when all ranks have entered */                \
    X(ALL_REDUCE, 1, "all_reduce")         /* every rank ends with the sum */                                \
    X(REDUCE, 2, "reduce")                 /* the root ends with the sum; other buffers are overwritten */   \
    X(REDUCE_SCATTER, 3, "reduce_scatter") /* r ends with the sum of its range; the rest is overwritten */   \
    X(ALL_GATHER, 4, "all_gather")         /* r gives its range, every rank ends with the whole */           \
    X(BROADCAST, 5, "broadcast")           /* every rank ends with the root's */

/** What a collective does: WEFT_COLLECTIVE_LIST says it kind by kind. */
typedef enum weft_collective_kind {
#define X(name, number, text) WEFT_COLLECTIVE_##name = number,
    WEFT_COLLECTIVE_LIST(X)
#undef X
} weft_collective_kind;

/** The name of a kind, "all_reduce"; "?" outside the list. The text is static. */
WEFT_API const char *weft_collective_name(weft_collective_kind kind);

/** A collective, as a rank enters it. */
typedef struct weft_collective {
    weft_collective_kind kind; /**< what it does */
    weft_dtype dtype; /**< sums: f32, f64, bf16 (added in f32, rounded once); the others move any type */
    /** For sums of f32: WEFT_BF16 halves the bytes that travel (contributions and the sum are rounded to bf16
     * and added in f32; with one rank nothing travels). 0: as `dtype`. */
    weft_dtype wire;
    /** Sums may be added in any order: over MPI by MPI's own collectives, except where the ranks share
     * memory, which is faster. The bits differ, and are the same on every rank. With one rank or threads the
     * order stays. */
    bool unordered;
    void *buffer; /**< count elements; the caller must not touch them from start to end */
    size_t count; /**< elements, also 0; the same on all ranks */
    /** Elements of each rank's range, `count` in all; kept until the end; NULL: equal ranges. */
    const size_t *counts;
    int root; /**< for reduce and broadcast: rank in the group */
    /** For sums: weft_collective_scratch() bytes, 64-byte aligned, in use from start to end. */
    void *scratch;
    size_t scratch_bytes; /**< bytes of `scratch` */
    /** Its place in the plan's total order over all groups. This and the next three are for the comparison
     * and for messages, and are the same on all ranks. */
    uint64_t order;
    uint64_t run;        /**< the run of a session that it belongs to; 0: none */
    const char *program; /**< "d_step"; copied, up to 39 bytes; NULL: none */
    const char *name;    /**< "bucket generator.2"; copied, up to 39 bytes; NULL: none */
    /** What the buffer holds, for messages alone: "net/fc/weight, net/fc/bias and 12 more"; copied, up to 159
     * bytes; NULL: nothing is said. */
    const char *contents;
    uint64_t reserved[WEFT_RESERVED]; /**< zeros (status.h) */
} weft_collective;

/** Bytes of scratch that a collective needs in a world of this size. It does not grow beyond 2 Mi elements of
 * a buffer, and is 0 for one rank and for what is not a sum. User communicators must not need more. */
WEFT_API size_t weft_collective_scratch(weft_collective_kind kind, weft_dtype dtype, weft_dtype wire,
                                        size_t count, int world);

/** Range of a rank when `count` elements are cut equally: the first count % world ranks have one element
 * more. */
WEFT_API void weft_comm_range(size_t count, int world, int rank, size_t *begin, size_t *end);
/** @} */

/** @name The table
 * @{ */

/** One rank's end of a group of ranks. */
typedef struct weft_comm weft_comm;

/** What a communicator can do. A program that brings its own fills this table. */
typedef struct weft_comm_calls {
    /** Puts a collective on the stream and returns; `*ticket` names it. Waits only when 256 are in flight. */
    weft_status (*start)(weft_comm *comm, const weft_collective *collective, uint64_t *ticket,
                         weft_error *error);
    /** Whether it has finished. Never waits. */
    weft_status (*test)(weft_comm *comm, uint64_t ticket, bool *is_done, weft_error *error);
    /** Returns when it has finished, or with the error that ended the communicator. */
    weft_status (*wait)(weft_comm *comm, uint64_t ticket, weft_error *error);
    /** Makes a group of n different ranks of the world, in this order. All ranks of the world call it with
     * the same list, as if it were a collective; ranks outside get NULL in `*group`. Groups share the world's
     * stream and are freed before it. */
    weft_status (*group)(weft_comm *world, const int *ranks, int n, weft_comm **group, weft_error *error);
    /** Notes where the caller's thread is ("data loader wait"), for the other ranks' messages; up to 63
     * bytes, copied. */
    void (*place)(weft_comm *comm, const char *place);
    /** Gives up: the collectives of every rank fail with this reason, and a launcher's job is ended
     * (MPI_Abort, with code 7 when a rank was lost before, see weft_comm_options.lost, else 1). Any thread
     * may call it; it returns within 2 s, or not at all. */
    void (*abort)(weft_comm *comm, const char *reason);
    /** Finishes what is in flight, then frees. All ranks of a world free it (MPI_Finalize is a collective).
     * After a failure it returns at once, and over MPI what a failed collective uses must stay in memory:
     * abort instead. */
    void (*free)(weft_comm *comm);
    /** For GPUs: puts a collective whose buffers are in a GPU's memory onto `stream` (a cudaStream_t) and
     * returns at once; it is done when the stream has passed it. The stream may be captured: what is captured
     * is started again and again, in the same order on all ranks. NULL: it reaches host memory only, and
     * sessions copy to the host and back. */
    weft_status (*enqueue)(weft_comm *comm, const weft_collective *collective, void *stream,
                           weft_error *error);
    /** Whether this communicator has failed or another rank has given up. Never waits. A caller
     * that waits for a stream must poll: once a call of a communicator that enqueues has failed, nothing that
     * it put on a stream waits for other ranks any more. NULL: nothing to ask. */
    weft_status (*poll)(weft_comm *comm, weft_error *error);
    /** The collectives of every rank fail with this reason; unlike with abort, the job continues. NULL: the
     * others find out by their deadlines. */
    void (*fail)(weft_comm *comm, const char *reason);
    /** Writes the ring of the last collectives to an open file; see weft_comm_write_ring(). NULL: it keeps
     * none. */
    bool (*write_ring)(weft_comm *comm, int fd, uint64_t job, uint64_t job_ns);
    uint64_t reserved[WEFT_RESERVED]; /**< zeros (status.h) */
} weft_comm_calls;

/** The head of every communicator: a user's own communicator has it first in its structure. */
struct weft_comm {
    const weft_comm_calls *calls;     /**< what it can do */
    const char *kind;                 /**< "self", "threads", "mpi" */
    int rank;                         /**< this rank in this group, from 0 */
    int world;                        /**< ranks in this group */
    int local_rank;                   /**< this rank among those on this machine, from 0 */
    int local_world;                  /**< ranks on this machine */
    uint64_t reserved[WEFT_RESERVED]; /**< zeros (status.h) */
};
/** @} */

/** @name Calls
 * The calls of the table; these check that the collective makes sense before they pass it on.
 * @{ */
/** start of weft_comm_calls */
WEFT_API weft_status weft_comm_start(weft_comm *comm, const weft_collective *collective, uint64_t *ticket,
                                     weft_error *error);
/** test of weft_comm_calls */
WEFT_API weft_status weft_comm_test(weft_comm *comm, uint64_t ticket, bool *is_done, weft_error *error);
/** wait of weft_comm_calls */
WEFT_API weft_status weft_comm_wait(weft_comm *comm, uint64_t ticket, weft_error *error);
/** Starts a collective and waits for it. */
WEFT_API weft_status weft_comm_run(weft_comm *comm, const weft_collective *collective, weft_error *error);
/** group of weft_comm_calls */
WEFT_API weft_status weft_comm_group(weft_comm *world, const int *ranks, int n, weft_comm **group,
                                     weft_error *error);
/** place of weft_comm_calls */
WEFT_API void weft_comm_place(weft_comm *comm, const char *place);
/** poll of weft_comm_calls; fine where it is NULL */
WEFT_API weft_status weft_comm_poll(weft_comm *comm, weft_error *error);
/** fail of weft_comm_calls; does nothing where it is NULL */
WEFT_API void weft_comm_fail(weft_comm *comm, const char *reason);
/** Writes the last 2,000 collectives that this rank has started, over all groups, to an open file (write):
 * order, kind, names, types, elements and times of each, of the newest also which members have not entered
 * it, then the error of the communicator, if it has one. docs/formats.md has the format; `graphtool blame`
 * reads the files of all ranks. `job` is a number that all ranks of a job share and that is larger in later
 * jobs (the time of its start), and `job_ns` the time on this rank's monotonic clock, in nanoseconds, at
 * which it got it: so files of two jobs, and times of two machines, are not mixed up. What a GPU's stream
 * does is not in it. False: writing failed (errno), it keeps no ring, or a rank has given up for a reason of
 * its own, so that none is lost.
 *
 * Async-signal-safe: it takes no lock, allocates nothing and may be called from a handler of any signal on
 * any thread, while other calls of this communicator are under way, but not after weft_comm_free(). A record
 * that changes meanwhile may be half old. */
WEFT_API bool weft_comm_write_ring(weft_comm *comm, int fd, uint64_t job, uint64_t job_ns);
/** abort of weft_comm_calls */
WEFT_API void weft_comm_abort(weft_comm *comm, const char *reason);
/** free of weft_comm_calls; a NULL communicator is fine */
WEFT_API void weft_comm_free(weft_comm *comm);

/** A setting that ranks compare. */
typedef struct weft_setting {
    const char *name;  /**< as messages call it */
    const char *value; /**< as messages show it; NULL: not known on this rank, others are compared */
} weft_setting;

/** Checks that the ranks have equal settings. It is collective: every rank gives the same names in the same
 * order. When two ranks that know a setting differ, all ranks get WEFT_PEER with the first such setting: "the
 * ranks do not agree: --seed 0 on rank 0, 5 on rank 1". The communicator stays usable. Sessions do this for
 * their plans, weft_loader_agree() for data. */
WEFT_API weft_status weft_comm_compare(weft_comm *comm, const weft_setting *settings, int n,
                                       weft_error *error);
/** @} */

/** @name Communicators that Weft brings
 * @{ */

/** What happened on the stream. Times are nanoseconds of the monotonic clock. */
typedef struct weft_comm_event {
    const weft_collective *collective; /**< valid during the call */
    const char *group_name;            /**< "world", "group 1" */
    uint64_t started_ns;               /**< when start was called */
    uint64_t began_ns;                 /**< when it was first on the stream */
    uint64_t met_ns;                   /**< when all ranks had entered */
    uint64_t finished_ns;              /**< when it had finished */
    uint64_t reserved[WEFT_RESERVED];  /**< zeros (status.h) */
} weft_comm_event;

/** The default deadline in seconds. */
#define WEFT_COMM_DEADLINE 300.0

/** Options of a communicator. Zeroes mean the defaults; negative times are WEFT_ARGUMENT. */
typedef struct weft_comm_options {
    /** Its log gets one line on how the ranks of this machine exchange data, and why not through memory. */
    const weft_env *env;
    /** For each step of a collective (to meet, to move a piece), and for the start of all ranks, which gets
     * 30 s at least; 0: WEFT_COMM_DEADLINE. */
    double deadline_seconds;
    /** Between two looks for progress; 0: 50 us on one machine, 500 us on several. */
    double nap_seconds;
    /** Bytes per rank of memory that the ranks of one machine share; collectives among them go through it. 0:
     * 8 MiB (threads: 0); negative: no window. The same on all ranks; taken once, at the start. */
    int64_t window_bytes;
    /** Called on the communicator's thread after each collective. NULL: not. */
    void (*event)(void *context, const weft_comm_event *event);
    /** Called once, on the communicator's thread, when a rank is lost: it has not come before the deadline,
     * its process has ended, or it entered another collective. That is before any call returns the error.
     * `is_found_here`: this rank found it out, and the error is its own report; else another rank did. It
     * must not call the communicator except for weft_comm_write_ring(). NULL: not. */
    void (*lost)(void *context, const weft_error *error, bool is_found_here);
    /** The first argument of `event` and `lost`. */
    void *event_context;
    uint64_t reserved[WEFT_RESERVED]; /**< zeros (status.h) */
} weft_comm_options;
/** Its plain fields (field.h). */
WEFT_API const weft_field *weft_comm_fields(void);

/** A world of one rank, without threads. NULL on failure. Free it with weft_comm_free(), as all that
 * follow. */
WEFT_API weft_comm *weft_comm_self(const weft_comm_options *options, weft_error *error);

/** Ranks as threads of one process, for tests: fills comms[world]. The caller starts a thread for each rank,
 * which compiles a plan with this rank and one thread, and uses and frees its own communicator. */
WEFT_API weft_status weft_comm_threads(int world, const weft_comm_options *options, weft_comm **comms,
                                       weft_error *error);

/** How this process was started, as its environment says. */
typedef struct weft_launch {
    const char *launcher; /**< "mpi", "slurm", "env", or "none": one rank, started alone */
    int rank;             /**< this process, from 0 */
    int world;            /**< processes in all */
    int local_rank;       /**< this process among those on this machine, from 0 */
    int local_world;      /**< processes on this machine; 0: unknown */
    const char *address;  /**< MASTER_ADDR, owned by the environment; NULL: unknown */
    /** WEFT_MEET_PORT, else MASTER_PORT; the next one where torchrun's agent listens there itself
     * (TORCHELASTIC_USE_AGENT_STORE); 0: unknown */
    int port;
    const char *token;                /**< WEFT_JOB_TOKEN, owned by the environment; NULL: none */
    uint64_t reserved[WEFT_RESERVED]; /**< zeros (status.h) */
} weft_launch;

/** Reads from an environment (pass `environ`) how this process was started. `launcher` is "mpi" (OMPI_*,
 * PMIX_*, PMI_*), "slurm" (SLURM_*), "env" (torchrun's RANK, WORLD_SIZE, LOCAL_RANK ...), or "auto" or NULL
 * for the first of them that is there. WEFT_NAME when its variables are missing, WEFT_ARGUMENT when they make
 * no sense. */
WEFT_API weft_status weft_launch_read(const char *launcher, char *const *environment, weft_launch *launch,
                                      weft_error *error);

/** The world of MPI; the program links libweft_mpi. It initializes MPI on its own thread unless the
 * program has done so (with MPI_THREAD_SERIALIZED at least). `launch` may be NULL; else MPI must agree with
 * it. NULL on failure; WEFT_UNSUPPORTED in a build without MPI. A process has at most one. */
WEFT_API weft_comm *weft_comm_mpi(const weft_launch *launch, const weft_comm_options *options,
                                  weft_error *error);

/** The world of ranks that torchrun, srun or `graphtool launch` started, without MPI: over UCX; the program
 * links libweft_ucx. Rank 0 listens at launch->address and port, where the others meet it and all prove
 * launch->token (without one only connections from the same machine are taken); the data then go by UCX,
 * which does not encrypt. `launch` NULL: what weft_launch_read() finds. A world of one is weft_comm_self(). A
 * rank that is missing at the deadline is named. UCX is kept from handling errors' signals and from printing
 * unless UCX_HANDLE_ERRORS or UCX_LOG_LEVEL is set; SIGHUP it takes as soon as it is loaded, unless
 * UCX_DEBUG_SIGNO=0 stands in the environment then. NULL on failure; WEFT_UNSUPPORTED in a build without UCX.
 * There is no job to end: weft_comm_abort() informs the other ranks and returns, and the caller ends. */
WEFT_API weft_comm *weft_comm_ucx(const weft_launch *launch, const weft_comm_options *options,
                                  weft_error *error);

/** Ranks that are all on one machine, without MPI or UCX: over Unix sockets, and most data through shared
 * memory. They meet at launch->address and port as those of weft_comm_ucx() do, token and all. `launch`
 * NULL: what weft_launch_read() finds; a world of one is weft_comm_self(). NULL on failure;
 * WEFT_UNSUPPORTED when ranks are on several machines. weft_comm_abort() as with UCX. */
WEFT_API weft_comm *weft_comm_local(const weft_launch *launch, const weft_comm_options *options,
                                    weft_error *error);

/** Those that join a launcher's ranks through the host's memory: the name (graphtool's --comm) and the
 * function of each. A program that uses the list links the libraries of all. */
#define WEFT_COMM_LIST(X)                                                                                    \
    X(mpi, weft_comm_mpi)                                                                                    \
    X(ucx, weft_comm_ucx)                                                                                    \
    X(local, weft_comm_local)

/** The ranks of `control` over NCCL, each with a GPU (that of weft_cuda_select()): sessions of CUDA plans put
 * their collectives on a stream. All ranks call it. `control` (MPI's, say) distributes NCCL's id, exchanges
 * what is in the host's memory, and has the deadline. The new communicator owns it; after a failure (NULL)
 * the caller still does. WEFT_DEVICE when two ranks share a GPU: then open sessions on `control` itself, and
 * data go through the host. WEFT_UNSUPPORTED in a build without CUDA. Close sessions that captured its
 * collectives before you free it. With `control` NULL it is weft_comm_nccl_launch() with what
 * weft_launch_read() finds. */
WEFT_API weft_comm *weft_comm_nccl(weft_comm *control, const weft_comm_options *options, weft_error *error);

/** NCCL without MPI: the launcher's ranks meet at launch->address and port as those of weft_comm_ucx() do,
 * token and all; a rank that does not come is named. What is in the host's memory goes through NCCL too, by
 * way of the GPU. Later a missing rank is an error at the deadline, but NCCL does not name the rank; nor
 * does it pass on why another rank gave up. The deadline is the only option that counts. */
WEFT_API weft_comm *weft_comm_nccl_launch(const weft_launch *launch, const weft_comm_options *options,
                                          weft_error *error);
/** @} */

#ifdef __cplusplus
}
#endif
#endif
