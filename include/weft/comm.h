/* comm.h - communicators: how the ranks of a world exchange tensors. A communicator is a small table of
 * functions; Weft brings self, threads and MPI, and a program may bring its own by filling the table.
 *
 * Order: collectives of one world form one stream. They begin and finish in the order in which they were started,
 * over all groups; every rank must start those it takes part in in that same order. Each carries an order number
 * and a few facts (run, program, kind, elements ...) that ranks compare before any data moves: ranks that differ
 * get WEFT_PEER and a text that names the first difference on both sides.
 * Sums: contributions are added by an aligned binary tree over ranks (for three: in order). The bits depend on
 * the contributions and their order alone: not on how a buffer is cut, who adds, or what else is under way;
 * every rank gets the same bits. `unordered` gives that up.
 * Errors are sticky: after one failed, every call gives that error. Nothing waits for ever: a collective that does
 * not finish within the deadline fails and its text tells which ranks have not entered it.
 * Threads: start, test, wait, poll and place of one communicator (its groups included) are called by one thread at a
 * time. Data move in the background, on a thread of the communicator's own.
 */
#ifndef WEFT_COMM_H
#define WEFT_COMM_H

#include "weft/env.h"
#include "weft/model.h"

#ifdef __cplusplus
extern "C" {
#endif

/* All work in place on one buffer of `count` elements. "r's range" is counts[r] elements after those of the ranks
 * before it; without counts the equal cut of weft_comm_range. */
#define WEFT_COLLECTIVE_LIST(X)                                                                              \
    X(BARRIER, 0, "barrier")               /* no data: returns when all have entered */                      \
    X(ALL_REDUCE, 1, "all_reduce")         /* everyone ends with the sum */                                  \
    X(REDUCE, 2, "reduce")                 /* the root ends with it; the others' buffers are used up */      \
    X(REDUCE_SCATTER, 3, "reduce_scatter") /* r ends with the sum of its range; the rest is used up */       \
    X(ALL_GATHER, 4, "all_gather")         /* r gives its range, all end with the whole */                   \
    X(BROADCAST, 5, "broadcast")           /* all end with the root's */

typedef enum weft_collective_kind {
#define X(name, number, text) WEFT_##name = number,
    WEFT_COLLECTIVE_LIST(X)
#undef X
} weft_collective_kind;

/* "all_reduce"; "?" outside the list. */
WEFT_API const char *weft_collective_name(weft_collective_kind kind);

typedef struct weft_collective {
    weft_collective_kind kind;
    weft_dtype dtype; /* sums: f32, f64, bf16 (added in f32, rounded once); the others move any type */
    weft_dtype
        wire; /* of sums of f32: WEFT_BF16 halves what travels (contributions and the sum are rounded to
                         bf16, added in f32; with one rank nothing travels); else 0 */
    /* Sums may be added in any order: on MPI by its own collectives, but where the ranks share a window, which is
     * faster. Other bits, the same on every rank. Self and threads keep the order. */
    bool unordered;
    void *buffer;         /* count elements; the caller's, untouched by him from start to done */
    size_t count;         /* elements, 0 is fine; the same on all ranks */
    const size_t *counts; /* one a rank, count in all; kept until done; NULL: the equal cut */
    int root;             /* rank in the group; for reduce and broadcast */
    void *scratch;        /* sums: weft_collective_scratch bytes, 64-byte aligned, used from start to done */
    size_t scratch_bytes;
    /* For the check and for messages; the same on all ranks. Texts are copied, up to 39 bytes. */
    uint64_t order;      /* its place in the plan's total order over all groups */
    uint64_t run;        /* which run of a session this belongs to; 0: none */
    const char *program; /* "d_step"; NULL: none */
    const char *name;    /* "bucket generator.2"; NULL: none */
} weft_collective;

/* Bytes of scratch a collective needs in a world of this size: a bound that does not grow beyond
 * 2 Mi elements of a buffer and is 0 for what is not a sum and for one rank. A communicator of the user's must do with it. */
WEFT_API size_t weft_collective_scratch(weft_collective_kind kind, weft_dtype dtype, weft_dtype wire,
                                        size_t count, int world);

/* The equal cut: the first count % world ranks have one element more. */
WEFT_API void weft_comm_range(size_t count, int world, int rank, size_t *begin, size_t *end);

/* ---- the table ---- */

typedef struct weft_comm weft_comm;

typedef struct weft_comm_calls {
    /* Puts a collective on the stream and returns; *ticket names it. Waits only if 256 are under way. */
    weft_status (*start)(weft_comm *comm, const weft_collective *collective, uint64_t *ticket,
                         weft_error *error);
    /* Has it finished? Never waits. */
    weft_status (*test)(weft_comm *comm, uint64_t ticket, bool *is_done, weft_error *error);
    /* Returns when it has finished, or with the error that ended the communicator. */
    weft_status (*wait)(weft_comm *comm, uint64_t ticket, weft_error *error);
    /* A group of n different ranks of the world, in this order: called on the world by all its ranks with the same
     * list, as if it were a collective. Ranks outside get NULL in *group. Groups share the world's stream; they are
     * freed before it. */
    weft_status (*group)(weft_comm *world, const int *ranks, int n, weft_comm **group, weft_error *error);
    /* Where the caller's thread is ("data loader wait"), for the other ranks' messages; up to 63 bytes, copied. */
    void (*place)(weft_comm *comm, const char *place);
    /* Gives up: every rank's collectives fail with this reason; a launcher's job is ended (MPI_Abort). Any thread;
     * returns within 2 s, or not at all. */
    void (*abort)(weft_comm *comm, const char *reason);
    /* Finishes what is under way, then frees. All ranks of a world free it (MPI_Finalize is a collective). After a
     * failure it returns at once, and on MPI what a failed collective uses must stay in memory: abort instead. */
    void (*free)(weft_comm *comm);
    /* For GPUs: puts a collective whose buffers are in a GPU's memory onto `stream` (a cudaStream_t) and returns at once;
     * it is done when the stream is behind it. The stream may be captured: what is captured is started again and again,
     * in the same order on all ranks. NULL: it knows host memory alone, and sessions go by way of it. */
    weft_status (*enqueue)(weft_comm *comm, const weft_collective *collective, void *stream,
                           weft_error *error);
    /* Has this communicator failed, or has another rank given up? Never waits. Whoever waits for a stream asks now and
     * then: once a call of a communicator that enqueues has given an error, nothing it put on a stream waits for other
     * ranks any more. NULL: nothing to ask. */
    weft_status (*poll)(weft_comm *comm, weft_error *error);
    /* Every rank's collectives fail with this reason; unlike behind abort, the job goes on. NULL: the others find out by
     * their deadlines. */
    void (*fail)(weft_comm *comm, const char *reason);
} weft_comm_calls;

/* The head of every communicator: the user's own puts it first in a struct of his. */
struct weft_comm {
    const weft_comm_calls *calls;
    const char *kind;            /* "self", "threads", "mpi" */
    int rank, world;             /* in this group */
    int local_rank, local_world; /* among the ranks of this machine */
};

/* The calls above; these check that the collective makes sense before they pass it on. */
WEFT_API weft_status weft_comm_start(weft_comm *comm, const weft_collective *collective, uint64_t *ticket,
                                     weft_error *error);
WEFT_API weft_status weft_comm_test(weft_comm *comm, uint64_t ticket, bool *is_done, weft_error *error);
WEFT_API weft_status weft_comm_wait(weft_comm *comm, uint64_t ticket, weft_error *error);
/* start, wait */
WEFT_API weft_status weft_comm_run(weft_comm *comm, const weft_collective *collective, weft_error *error);
WEFT_API weft_status weft_comm_group(weft_comm *world, const int *ranks, int n, weft_comm **group,
                                     weft_error *error);
WEFT_API void weft_comm_place(weft_comm *comm, const char *place);
WEFT_API weft_status weft_comm_poll(weft_comm *comm, weft_error *error);
WEFT_API void weft_comm_fail(weft_comm *comm, const char *reason);
WEFT_API void weft_comm_abort(weft_comm *comm, const char *reason);
WEFT_API void weft_comm_free(weft_comm *comm); /* NULL is fine */

/* ---- what ranks must have alike ---- */

typedef struct weft_setting {
    const char *name, *value; /* as messages have them; value NULL: not known on this rank, others are compared */
} weft_setting;

/* Collective: every rank gives the same settings in the same order. WEFT_PEER on all ranks when two that know one
 * differ, with the first such: "the ranks do not agree: --seed 0 on rank 0, 5 on rank 1". Nothing else happens then: the
 * communicator stays as it is. Sessions do so for their plans, weft_loader_agree for data. */
WEFT_API weft_status weft_comm_compare(weft_comm *comm, const weft_setting *settings, int n,
                                       weft_error *error);

/* ---- those that Weft brings ---- */

/* What happened on the stream; times are of the monotonic clock in nanoseconds. */
typedef struct weft_comm_event {
    const weft_collective *collective;
    const char *group_name; /* "world", "group 1" */
    uint64_t started_ns;    /* the call of start */
    uint64_t began_ns;      /* at the head of the stream */
    uint64_t met_ns;        /* all ranks had entered */
    uint64_t finished_ns;
} weft_comm_event;

#define WEFT_COMM_DEADLINE 300.0 /* seconds */

/* Zeroes mean the defaults. Negative times are WEFT_ARGUMENT. */
typedef struct weft_comm_options {
    const weft_env *env; /* its log is told once how the ranks of this machine talk, and why not through memory */
    double deadline_seconds; /* for each step of a collective (to meet, to move a piece); 0: WEFT_COMM_DEADLINE */
    double nap_seconds;      /* between two looks for progress; 0: 50 us on one machine, 500 us on several */
    /* Memory that the ranks of one machine share, a rank: collectives among them go through it. 0: 8 MiB (threads:
     * none); negative: none. The same on all ranks; taken once, at the start. */
    int64_t window_bytes;
    /* Called on the communicator's thread after each collective. */
    void (*event)(void *context, const weft_comm_event *event);
    void *event_context;
} weft_comm_options;

/* One rank; no threads. NULL on failure. */
WEFT_API weft_comm *weft_comm_self(const weft_comm_options *options, weft_error *error);

/* Ranks as threads of one process, for tests: fills comms[world]; each is used and freed by its own thread. */
WEFT_API weft_status weft_comm_threads(int world, const weft_comm_options *options, weft_comm **comms,
                                       weft_error *error);

/* How this process was started, read from the environment (pass `environ`). */
typedef struct weft_launch {
    const char *launcher; /* "mpi", "slurm", "env", or "none": one rank, started alone */
    int rank, world;
    int local_rank, local_world; /* local_world 0: not told */
    const char *address;         /* MASTER_ADDR, points into the environment; NULL: not told */
    int port;                    /* MASTER_PORT; 0: not told */
} weft_launch;

/* launcher: "auto" (or NULL; the first of mpi, slurm, env that is there), "mpi" (OMPI_*, PMIX_*, PMI_*), "slurm"
 * (SLURM_*), "env" (torchrun's RANK, WORLD_SIZE, LOCAL_RANK ...). WEFT_NAME when its variables are missing,
 * WEFT_ARGUMENT when they make no sense. */
WEFT_API weft_status weft_launch_read(const char *launcher, char *const *environment, weft_launch *launch,
                                      weft_error *error);

/* The world of MPI, for which the program links libweft_mpi. Initializes MPI on a thread of its own unless the
 * program has (with MPI_THREAD_SERIALIZED at least). `launch` may be NULL; else MPI must agree with it. NULL on
 * failure; WEFT_UNSUPPORTED in a build without MPI. One a process. */
WEFT_API weft_comm *weft_comm_mpi(const weft_launch *launch, const weft_comm_options *options,
                                  weft_error *error);

/* The ranks of `control` with a GPU each (that of weft_cuda_select), over NCCL: sessions of plans for CUDA put their
 * collectives on a stream. Called by all ranks. `control` (MPI, say) hands NCCL's id round, carries what lies in the host's
 * memory, and has the deadline; it belongs to the new communicator, but after a failure, NULL, to the caller. WEFT_DEVICE
 * when two ranks share a GPU: sessions take `control` itself then, and go by way of the host. WEFT_UNSUPPORTED in a build
 * without CUDA. Sessions that captured its collectives are closed before it is freed.
 * `control` NULL: as weft_comm_nccl_launch with what weft_launch_read finds by itself. */
WEFT_API weft_comm *weft_comm_nccl(weft_comm *control, const weft_comm_options *options, weft_error *error);

/* The same without MPI: the launcher's ranks meet at launch->address and port (or NCCL_COMM_ID, if it is set; else it is set
 * for the length of this call, as NCCL looks nowhere else), and what lies in the host's memory goes through NCCL too, by way
 * of the GPU. A rank that does not come ends in an error at the deadline, but NCCL does not tell which; nor does it hand on
 * why another rank gave up. Of options the deadline counts. */
WEFT_API weft_comm *weft_comm_nccl_launch(const weft_launch *launch, const weft_comm_options *options,
                                          weft_error *error);

#ifdef __cplusplus
}
#endif
#endif
