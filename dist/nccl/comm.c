/* comm.c - what the NCCL communicators share. The first failure of any group is the failure of the whole
 * world, as in all communicators. Aborting frees the kernels that wait for ranks that will not come, so that
 * streams can finish. */
#include "dist/nccl/comm.h"

#include "dist/core/clock.h"

enum { ABORT_SECONDS = 2, CLOSE_SECONDS = 10 };

weft_status nccl_fail(weft_error *error, const nccl_comm *n, ncclResult_t result, const char *doing) {
    return error_set(error, WEFT_PEER, "rank %d of %d: NCCL: %s: %s (%s)", n->comm.rank, n->comm.world, doing,
                     ncclGetErrorString(result), ncclGetLastError(n->nccl));
}

weft_status nccl_cuda(weft_error *error, const char *what, cudaError_t result) {
    if (result == cudaSuccess) return WEFT_OK;
    return error_set(error, WEFT_DEVICE, "%s: %s", what, cudaGetErrorString(result));
}

/* A library that cannot be loaded reports no version; the next call fails with the reason. */
weft_status nccl_library_check(const weft_comm *like, weft_error *error) {
    int version = 0;
    if (ncclGetVersion(&version) != ncclSuccess || version >= NCCL_NEEDED) return WEFT_OK;
    return error_set(
        error, WEFT_DEVICE,
        "rank %d of %d: the NCCL of this machine is version code %d, and groups of ranks need 2.18 "
        "(%d) or later: install that, or train over MPI alone (--comm mpi)",
        like->rank, like->world, version, NCCL_NEEDED);
}

/* ---- memory ---- */

/* work and dest are one allocation. Only a world has a lock. */
bool nccl_init(nccl_comm *n, const weft_comm *like, nccl_comm *world, const weft_env *env,
               weft_error *error) {
    range *ranges = mem_new_array(env, 2 * (size_t)like->world, sizeof *ranges);
    if (!ranges || (!world && pthread_mutex_init(&n->lock, NULL))) {
        mem_free(env, ranges, 2 * (size_t)like->world * sizeof *ranges);
        return !error_memory(error, "a communicator");
    }
    n->comm = *like;
    n->world = world ? world : n;
    if (env) n->env = *env;
    n->work = ranges;
    n->dest = ranges + like->world;
    return true;
}

/* The caller has made sure that nothing runs any more (nccl_has_ended). */
void nccl_release(nccl_comm *n, size_t bytes) {
    weft_env env = n->env;
    mem_free(&env, n->work, 2 * (size_t)n->comm.world * sizeof *n->work);
    if (n->world == n) pthread_mutex_destroy(&n->lock);
    mem_free(&env, n, bytes);
}

/* The list may be walked by an abort on another thread, hence the lock. */
static void enter_world(nccl_comm *group, ncclComm_t nccl) {
    nccl_comm *world = group->world;
    pthread_mutex_lock(&world->lock);
    group->nccl = nccl;
    group->next = world->next;
    world->next = group;
    pthread_mutex_unlock(&world->lock);
}

void nccl_leave_world(nccl_comm *group) {
    pthread_mutex_lock(&group->world->lock);
    nccl_comm **at = &group->world->next;
    while (*at && *at != group) at = &(*at)->next;
    if (*at) *at = group->next;
    pthread_mutex_unlock(&group->world->lock);
}

/* ---- errors ---- */

/* Fails with NCCL's asynchronous error of one communicator, if it has one. */
static weft_status ask_one(nccl_comm *n, weft_error *error) {
    ncclResult_t met = ncclSuccess;
    if (!n->nccl) return WEFT_OK;
    NCCL_TRY(ncclCommGetAsyncError(n->nccl, &met), "asking for errors");
    if (met != ncclInProgress) NCCL_TRY(met, "its running work");
    return WEFT_OK;
}

weft_status nccl_ask(nccl_comm *world, weft_error *error) {
    weft_status status = WEFT_OK;
    pthread_mutex_lock(&world->lock);
    for (nccl_comm *n = world; n && !status; n = n->next) status = ask_one(n, error);
    pthread_mutex_unlock(&world->lock);
    return status;
}

/* Any thread may call it. */
weft_status nccl_failure(nccl_comm *n, weft_error *error) {
    pthread_mutex_lock(&n->world->lock);
    weft_status status = n->world->failure.status;
    if (status && error) *error = n->world->failure;
    pthread_mutex_unlock(&n->world->lock);
    return status;
}

/* ---- giving up ---- */

/* The thread of one abort. */
static void *abort_nccl(void *context) {
    nccl_ending *e = context;
    ncclCommAbort(e->nccl);
    atomic_store(&e->is_over, true);
    return NULL;
}

/* Starts the abort of one communicator; waits for it if no thread can be made. The lock is held. */
static void end_one(nccl_comm *n) {
    if (!n->nccl) return;
    n->ending.nccl = n->nccl;
    n->nccl = NULL;
    n->ending.is_under_way = pthread_create(&n->ending.thread, NULL, abort_nccl, &n->ending) == 0;
    if (!n->ending.is_under_way) abort_nccl(&n->ending);
}

/* Aborts all unless that has been done; true if this is the first failure. The lock is held. */
static bool end_all(nccl_comm *world, const weft_error *why) {
    if (world->failure.status) return false;
    world->failure = *why;
    for (nccl_comm *n = world; n; n = n->next) end_one(n);
    return true;
}

/* The other ranks are sent the reason by the control communicator, outside the lock. */
weft_status nccl_give_up(nccl_comm *n, const weft_error *why, weft_error *error) {
    nccl_comm *world = n->world;
    pthread_mutex_lock(&world->lock);
    bool is_first = end_all(world, why);
    pthread_mutex_unlock(&world->lock);
    if (is_first) weft_comm_fail(world->control, why->text);
    return nccl_failure(world, error);
}

void nccl_reason(weft_comm *comm, const char *reason) {
    weft_error why;
    error_set(&why, WEFT_PEER, "%s", reason);
    nccl_give_up((nccl_comm *)comm, &why, NULL);
}

/* If the lock stays held, a call of NCCL hangs, and nothing is ended here. */
static void end_here(nccl_comm *n, const weft_error *why) {
    /* pthread_mutex_timedlock's clock may jump */
    for (int i = 0; pthread_mutex_trylock(&n->world->lock); clock_nap(1e-3))
        if (i++ == ABORT_SECONDS * 1000) return;
    end_all(n->world, why);
    pthread_mutex_unlock(&n->world->lock);
}

void nccl_abort(weft_comm *comm, const char *reason) {
    nccl_comm *n = (nccl_comm *)comm;
    weft_error why;
    error_set(&why, WEFT_PEER, "rank %d was aborted: %s", n->world->comm.rank, reason);
    end_here(n, &why);
    weft_comm_abort(n->control, reason);
}

/* ---- groups ---- */

bool nccl_is_member(const weft_comm *comm, const int *ranks, int count, weft_comm *like) {
    bool is_in = false;
    *like = *comm;
    like->world = count;
    for (int i = 0; i < count; i++)
        if (ranks[i] == comm->rank) is_in = true, like->rank = i;
    return is_in;
}

weft_status nccl_split(nccl_comm *world, nccl_comm *g, weft_error *error) {
    ncclComm_t part = NULL;
    weft_error why;
    ncclResult_t result =
        ncclCommSplit(world->nccl, g ? 0 : NCCL_SPLIT_NOCOLOR, g ? g->comm.rank : 0, &part, NULL);
    if (g) enter_world(g, part);
    if (result == ncclSuccess) return WEFT_OK;
    nccl_fail(&why, world, result, "making a group");
    return nccl_give_up(world, &why, error);
}

/* ---- the end ---- */

/* Waits up to CLOSE_SECONDS for the abort, then abandons its thread. */
bool nccl_has_ended(nccl_comm *n) {
    nccl_ending *e = &n->ending;
    if (!e->is_under_way) return true;
    for (int i = 0; i < CLOSE_SECONDS * 1000 && !atomic_load(&e->is_over); i++) clock_nap(1e-3);
    if (!atomic_load(&e->is_over)) {
        pthread_detach(e->thread);
        return false;
    }
    pthread_join(e->thread, NULL);
    return true;
}
