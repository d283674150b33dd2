/* comm.h - inside the NCCL communicators: nccl.c is the table of those that put collectives on a stream, nccl/host.c that
 * of those for the host's memory where there is no MPI; nccl/move.c is one collective on a stream, nccl/comm.c what all of
 * them share: memory, and how they end when something is wrong. */
#ifndef WEFT_DIST_NCCL_COMM_H
#define WEFT_DIST_NCCL_COMM_H

#include "dist/core/collective.h"

#include <cuda_runtime_api.h>
#include <nccl.h>
#include <pthread.h>
#include <stdatomic.h>

enum { NCCL_NEEDED = 21800 }; /* 2.18: ncclCommSplit */
#if NCCL_VERSION_CODE < 21800
#error "NCCL 2.18 or later is needed: earlier ones cannot split a communicator"
#endif

/* ncclCommAbort frees kernels that wait for other ranks at once, but returns only when the captured graphs that hold the
 * communicator are gone, and those are the session's: it has a thread of its own. */
typedef struct nccl_ending {
    ncclComm_t nccl;
    pthread_t thread;
    bool is_under_way; /* the thread is there */
    atomic_bool is_over;
} nccl_ending;

typedef struct nccl_comm {
    weft_comm comm;                 /* first: what the caller holds */
    weft_comm *control;             /* the same ranks on the host; ours. NULL: this is it */
    struct nccl_comm *world, *next; /* the world (perhaps itself), and from it on all of its groups */
    weft_env env;
    range *work, *dest;   /* [world]: of one round */
    pthread_mutex_t lock; /* the world's, for these three of all: abort may come from any thread */
    weft_error failure;   /* the world's: the first */
    ncclComm_t nccl;      /* NULL: it has been given up */
    nccl_ending ending;
} nccl_comm;

weft_status nccl_fail(weft_error *error, const nccl_comm *n, ncclResult_t result, const char *doing);

/* Returns from the enclosing function, which has `n` and `error`, unless the call went well. */
#define NCCL_TRY(call, doing)                                                                                \
    do {                                                                                                     \
        ncclResult_t nccl_result_ = (call);                                                                  \
        if (nccl_result_ != ncclSuccess) return nccl_fail(error, n, nccl_result_, doing);                    \
    } while (0)

/* ---- nccl/move.c ---- */
/* Puts a collective of at least two ranks, which has been checked, on the stream. */
weft_status nccl_put(nccl_comm *n, const weft_collective *c, cudaStream_t stream, weft_error *error);

/* ---- nccl/join.c ---- */
/* Fills n->nccl: all ranks of the launcher call it. */
weft_status nccl_join(nccl_comm *n, const weft_launch *launch, double deadline_seconds, weft_error *error);

/* ---- nccl/host.c ---- */
/* The launcher's ranks, which meet at NCCL_COMM_ID, else at launch->address and port. */
weft_comm *nccl_host_comm(const weft_launch *launch, const weft_comm_options *options, weft_error *error);
/* Another communicator of NCCL's for the same ranks. */
ncclResult_t nccl_host_split(weft_comm *host, ncclComm_t *other);

/* ---- nccl/comm.c ---- */
/* The library is loaded when it is called first, and another than was built with: whether it is new enough. */
weft_status nccl_library_check(const weft_comm *like, weft_error *error);
/* Ranks as those of `like`; `world` NULL: this becomes one. The table, `control` and `nccl` are left to fill in. */
bool nccl_init(nccl_comm *n, const weft_comm *like, nccl_comm *world, const weft_env *env, weft_error *error);
/* `bytes`: of the struct that n begins. */
void nccl_release(nccl_comm *n, size_t bytes);
/* A new group takes its place among those of its world; before its memory goes it leaves. */
void nccl_enter_world(nccl_comm *group, ncclComm_t nccl);
void nccl_leave_world(nccl_comm *group);
/* WEFT_OK unless NCCL has met an error; the lock of the world is taken here. */
weft_status nccl_ask(nccl_comm *world, weft_error *error);
/* WEFT_OK, or the failure of the world. */
weft_status nccl_failure(nccl_comm *n, weft_error *error);
/* Ends the world and its groups here unless they have ended, and tells the other ranks why. Returns the status of the
 * first failure, and fills *error with it. */
weft_status nccl_give_up(nccl_comm *n, const weft_error *why, weft_error *error);
/* The same without telling anyone, for abort; waits at most 2 s for a call that is under way. */
void nccl_end_here(nccl_comm *n, const weft_error *why);
/* Once nothing uses n any more: whether its memory may go. A call of NCCL that hangs keeps it. */
bool nccl_has_ended(nccl_comm *n);

#endif
