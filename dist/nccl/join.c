/* join.c - how ranks meet without MPI (dist/meet): rank 0 hands round NCCL's id, so a rank that is missing is
 * named. Then NCCL connects them; it waits for the others without a limit, so that is done by a thread of its
 * own, which is abandoned at the deadline. */
#include "dist/core/clock.h"
#include "dist/meet/meet.h"
#include "dist/nccl/comm.h"

#include <string.h>

/* Shared with the thread, which may outlive the call: then it is never freed. */
typedef struct joining {
    int rank, world, device;
    ncclUniqueId id;
    ncclComm_t nccl;
    ncclResult_t result;
    pthread_t thread;
    atomic_bool is_over;
} joining;

/* The thread: the current device is per thread, so it is set first. */
static void *join_main(void *context) {
    joining *j = context;
    j->result = cudaSetDevice(j->device) == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
    if (j->result == ncclSuccess) j->result = ncclCommInitRank(&j->nccl, j->world, j->id, j->rank);
    atomic_store(&j->is_over, true);
    return NULL;
}

/* Has the thread finished within so many seconds? */
static bool is_over_within(joining *j, double seconds) {
    for (double waited = 0; waited < seconds && !atomic_load(&j->is_over); waited += 1e-3) clock_nap(1e-3);
    return atomic_load(&j->is_over);
}

/* Joins n to the others, and frees j unless the thread hangs. */
static weft_status join_within(joining *j, const weft_env *env, double seconds, nccl_comm *n,
                               weft_error *error) {
    if (pthread_create(&j->thread, NULL, join_main, j)) {
        mem_free(env, j, sizeof *j);
        return error_set(error, WEFT_MEMORY, "a thread for joining the others could not be made");
    }
    if (!is_over_within(j, seconds)) {
        pthread_detach(j->thread); /* j stays allocated */
        return error_set(
            error, WEFT_PEER,
            "rank %d of %d: NCCL has not connected all ranks within %.1f s, though all have met (it "
            "does not report which one it waits for; NCCL_SOCKET_IFNAME names the network to use)",
            j->rank, j->world, seconds);
    }
    pthread_join(j->thread, NULL);
    n->nccl = j->nccl;
    weft_status status =
        j->result == ncclSuccess ? WEFT_OK : nccl_fail(error, n, j->result, "joining the others");
    mem_free(env, j, sizeof *j);
    return status;
}

/* What this rank needs before it meets the others. NULL with *error. */
static joining *joining_new(nccl_comm *n, const weft_launch *launch, weft_error *error) {
    int device;
    if (nccl_library_check(&n->comm, error)) return NULL;
    if (cudaGetDevice(&device) != cudaSuccess) {
        error_set(error, WEFT_DEVICE, "rank %d of %d has no GPU", launch->rank, launch->world);
        return NULL;
    }
    joining *j = mem_new(&n->env, sizeof *j);
    if (!j) {
        error_memory(error, "a communicator");
        return NULL;
    }
    j->rank = launch->rank;
    j->world = launch->world;
    j->device = device;
    ncclResult_t result = launch->rank == 0 ? ncclGetUniqueId(&j->id) : ncclSuccess;
    if (result == ncclSuccess) return j;
    mem_free(&n->env, j, sizeof *j);
    nccl_fail(error, n, result, "making an id");
    return NULL;
}

/* Rank 0 gives the id, the others nothing; `why` a rank fails goes round as well. */
static weft_status hand_round(nccl_comm *n, const weft_launch *launch, double seconds, joining *j,
                              const char *why, weft_error *error) {
    const meet_options options = {&n->env, launch, "nccl", seconds};
    meeting m;
    size_t bytes;
    meet_begin(&m, &options);
    weft_status status = meet_round(&m, j ? &j->id : NULL, j && !launch->rank ? sizeof j->id : 0, why, error);
    const void *id = status ? NULL : meet_card(&m, 0, &bytes);
    if (!status && bytes != sizeof(ncclUniqueId))
        status = error_set(error, WEFT_PEER, "rank %d: rank 0 gave no id of NCCL", launch->rank);
    if (!status && j) memcpy(&j->id, id, sizeof j->id);
    meet_end(&m);
    return status;
}

weft_status nccl_join(nccl_comm *n, const weft_launch *launch, double seconds, weft_error *error) {
    weft_error own = {0};
    joining *j = joining_new(n, launch, &own);
    weft_status status = own.status;
    if (launch->world > 1) status = hand_round(n, launch, seconds, j, j ? NULL : own.text, error);
    if (!j) {
        if (error) *error = own;
        return own.status;
    }
    if (!status) return join_within(j, &n->env, seconds, n, error);
    mem_free(&n->env, j, sizeof *j);
    return status;
}
