/* comm.h - inside the NCCL communicators. nccl.c is the table of those that put collectives on a stream;
 * host.c is the table for host memory where there is no MPI; move.c is one collective on a stream; join.c is
 * how ranks meet without MPI; comm.c is what all of them share: memory, and the end after a failure. */
#ifndef WEFT_DIST_NCCL_COMM_H
#define WEFT_DIST_NCCL_COMM_H

#include "dist/core/collective.h"

#include <cuda_runtime_api.h>
#include <nccl.h>
#include <pthread.h>
#include <stdatomic.h>

enum { NCCL_NEEDED = 21800 }; /* version code of 2.18, the first with ncclCommSplit */
#if NCCL_VERSION_CODE < 21800
#error "NCCL 2.18 or later is needed: earlier ones cannot split a communicator"
#endif

/* ncclCommAbort frees kernels that wait for other ranks at once, but it returns only when the captured graphs
 * that hold the communicator are gone. Those belong to the session, so each abort has a thread of its own. */
typedef struct nccl_ending {
    ncclComm_t nccl;
    pthread_t thread;
    bool is_under_way;   /* the thread has been started */
    atomic_bool is_over; /* ncclCommAbort has returned */
} nccl_ending;

typedef struct nccl_comm {
    weft_comm comm;     /* first: what the caller holds */
    weft_comm *control; /* the same ranks on the host, owned; NULL: this is that communicator */
    /* the world (perhaps this one); next in the list of the world and all its groups */
    struct nccl_comm *world, *next;
    weft_env env;
    range *work, *dest; /* [world] each: of one round, see cut_round; one block */
    /* The world's lock protects failure, nccl and ending of all its groups, as abort may come from any
     * thread. */
    pthread_mutex_t lock;
    weft_error failure; /* of the world: the first failure */
    ncclComm_t nccl;    /* NULL: it has been aborted */
    nccl_ending ending;
} nccl_comm;

/* WEFT_DEVICE with CUDA's text, unless the call succeeds; `what` begins the message. */
weft_status nccl_cuda(weft_error *error, const char *what, cudaError_t result);
/* WEFT_PEER with NCCL's text; `doing` names the step. */
weft_status nccl_fail(weft_error *error, const nccl_comm *n, ncclResult_t result, const char *doing);

/* Returns nccl_fail's status from the enclosing function, which has variables `n` and `error`, unless the
 * call succeeds. */
#define NCCL_TRY(call, doing)                                                                                \
    do {                                                                                                     \
        ncclResult_t nccl_result_ = (call);                                                                  \
        if (nccl_result_ != ncclSuccess) return nccl_fail(error, n, nccl_result_, doing);                    \
    } while (0)

/* ---- nccl/move.c ---- */
/* Puts a collective on the stream. It has been checked and has at least two ranks. */
weft_status nccl_put(nccl_comm *n, const weft_collective *c, cudaStream_t stream, weft_error *error);

/* ---- nccl/join.c ---- */
/* Fills n->nccl. All ranks of the launcher call it. */
weft_status nccl_join(nccl_comm *n, const weft_launch *launch, double deadline_seconds, weft_error *error);

/* ---- nccl/host.c ---- */
/* A communicator of the launcher's ranks, which meet at launch->address and port. */
weft_comm *nccl_host_comm(const weft_launch *launch, const weft_comm_options *options, weft_error *error);
/* A second NCCL communicator of the same ranks. */
ncclResult_t nccl_host_split(weft_comm *host, ncclComm_t *other);

/* ---- nccl/comm.c ---- */
/* Is the NCCL library new enough? It is loaded at the first call and may differ from the one built with. */
weft_status nccl_library_check(const weft_comm *like, weft_error *error);
/* Fills n with the ranks of `like`. `world` NULL: n becomes a world itself. The caller fills in the table,
 * `control` and `nccl`. */
bool nccl_init(nccl_comm *n, const weft_comm *like, nccl_comm *world, const weft_env *env, weft_error *error);
/* Frees n; `bytes` is the size of the struct that begins with n. */
void nccl_release(nccl_comm *n, size_t bytes);
/* Is this rank of `comm` in a group of these ranks? *like becomes the group, with this rank's place in it. */
bool nccl_is_member(const weft_comm *comm, const int *ranks, int count, weft_comm *like);
/* Splits a group's communicator from that of its world, whose ranks all call it; g NULL: this rank is not in
 * it. Adds it to the world's list; nccl_leave_world removes it before its memory is freed. */
weft_status nccl_split(nccl_comm *world, nccl_comm *g, weft_error *error);
void nccl_leave_world(nccl_comm *group);
/* Asks NCCL for asynchronous errors of the world and its groups. Takes the world's lock. */
weft_status nccl_ask(nccl_comm *world, weft_error *error);
/* WEFT_OK, or the failure of the world. */
weft_status nccl_failure(nccl_comm *n, weft_error *error);
/* Aborts the world and its groups on this rank, unless that has been done, and sends the other ranks the
 * reason. Returns the status of the first failure and fills *error with it. */
weft_status nccl_give_up(nccl_comm *n, const weft_error *why, weft_error *error);
/* The functions `fail` and `abort` of both tables. `abort` ends this rank's communicators without a message,
 * then aborts the job by the control communicator; it waits at most 2 s for a call that holds the lock. */
void nccl_reason(weft_comm *comm, const char *reason);
void nccl_abort(weft_comm *comm, const char *reason);
/* Called when nothing uses n any more: may its memory be freed? Not while ncclCommAbort hangs. */
bool nccl_has_ended(nccl_comm *n);

#endif
