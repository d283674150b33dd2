/* join.c - how ranks meet without MPI: at the address in NCCL_COMM_ID, which NCCL reads from the environment
 * on every rank. NCCL waits for the others without a limit, so it joins on a thread of its own, which is
 * abandoned at the deadline. */
#include "dist/nccl/comm.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* Shared with the thread, which may outlive the call: then it is never freed. */
typedef struct joining {
    int rank, world, device;
    ncclComm_t nccl;
    ncclResult_t result;
    pthread_t thread;
    atomic_bool is_over;
} joining;

/* The thread: the current device is per thread, so it is set first. */
static void *join_main(void *context) {
    joining *j = context;
    ncclUniqueId id;
    j->result = cudaSetDevice(j->device) == cudaSuccess ? ncclGetUniqueId(&id) : ncclUnhandledCudaError;
    if (j->result == ncclSuccess) j->result = ncclCommInitRank(&j->nccl, j->world, id, j->rank);
    atomic_store(&j->is_over, true);
    return NULL;
}

/* Has the thread finished within so many seconds? */
static bool is_over_within(joining *j, double seconds) {
    const struct timespec nap = {.tv_nsec = 1000000};
    for (double waited = 0; waited < seconds && !atomic_load(&j->is_over); waited += 1e-3)
        nanosleep(&nap, NULL);
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
            "rank %d of %d: not all ranks have met over NCCL within %.1f s (it does not report which are "
            "missing; rank 0 must be reachable at MASTER_ADDR and MASTER_PORT, or NCCL_COMM_ID)",
            j->rank, j->world, seconds);
    }
    pthread_join(j->thread, NULL);
    n->nccl = j->nccl;
    weft_status status =
        j->result == ncclSuccess ? WEFT_OK : nccl_fail(error, n, j->result, "joining the others");
    mem_free(env, j, sizeof *j);
    return status;
}

/* NCCL_COMM_ID is set for the length of this call unless the user has set it, as NCCL reads it nowhere
 * else. */
weft_status nccl_join(nccl_comm *n, const weft_launch *launch, double seconds, weft_error *error) {
    char address[300];
    bool sets_address = launch->world > 1 && !getenv("NCCL_COMM_ID");
    int device;
    if (sets_address && (!launch->address || !launch->port))
        return error_set(error, WEFT_NAME,
                         "rank %d of %d: the address where ranks meet is unknown: set MASTER_ADDR and "
                         "MASTER_PORT, or NCCL_COMM_ID",
                         launch->rank, launch->world);
    weft_status status = nccl_library_check(&n->comm, error);
    if (status) return status;
    if (cudaGetDevice(&device) != cudaSuccess)
        return error_set(error, WEFT_DEVICE, "rank %d of %d has no GPU", launch->rank, launch->world);
    joining *j = mem_new(&n->env, sizeof *j);
    if (!j) return error_memory(error, "a communicator");
    j->rank = launch->rank;
    j->world = launch->world;
    j->device = device;
    if (sets_address) {
        snprintf(address, sizeof address, "%s:%d", launch->address, launch->port);
        setenv("NCCL_COMM_ID", address, 1);
    }
    status = join_within(j, &n->env, seconds, n, error);
    if (sets_address) unsetenv("NCCL_COMM_ID");
    return status;
}
