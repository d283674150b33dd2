/* nccl.c - ranks with one GPU each, over NCCL. Sums and moves go on the caller's stream (nccl/move.c). Host
 * memory goes through a control communicator of the same ranks; a failure of either one is a failure of both
 * (nccl/comm.c). */
#include "dist/nccl/comm.h"

#include <string.h>

/* ---- on a stream ---- */

/* Only puts work on the stream; a failure of NCCL ends the world. */
static weft_status enqueue(weft_comm *comm, const weft_collective *c, void *stream, weft_error *error) {
    nccl_comm *n = (nccl_comm *)comm;
    weft_error why;
    weft_status status = collective_check(c, comm->world, error);
    if (!status) status = nccl_failure(n, error);
    if (status || c->kind == WEFT_BARRIER || comm->world == 1) return status;
    status = nccl_put(n, c, stream, &why);
    return status ? nccl_give_up(n, &why, error) : WEFT_OK;
}

/* Looks at the sticky failure, then at the host, then at NCCL. */
static weft_status nccl_poll(weft_comm *comm, weft_error *error) {
    nccl_comm *world = ((nccl_comm *)comm)->world;
    weft_error why;
    weft_status status = nccl_failure(world, error);
    if (status) return status;
    /* the host first: another rank's reason explains more than a lost connection */
    status = weft_comm_poll(world->control, &why);
    if (!status) status = nccl_ask(world, &why);
    return status ? nccl_give_up(world, &why, error) : WEFT_OK;
}

/* ---- collectives of host memory: the control communicator's, whose failure ends this one ---- */

static weft_status start(weft_comm *comm, const weft_collective *c, uint64_t *ticket, weft_error *error) {
    nccl_comm *n = (nccl_comm *)comm;
    weft_error why;
    weft_status status = nccl_failure(n, error);
    if (status) return status;
    status = n->control->calls->start(n->control, c, ticket, &why);
    return status ? nccl_give_up(n, &why, error) : WEFT_OK;
}

static weft_status test(weft_comm *comm, uint64_t ticket, bool *is_done, weft_error *error) {
    nccl_comm *n = (nccl_comm *)comm;
    weft_error why;
    weft_status status = weft_comm_test(n->control, ticket, is_done, &why);
    return status ? nccl_give_up(n, &why, error) : WEFT_OK;
}

static weft_status wait(weft_comm *comm, uint64_t ticket, weft_error *error) {
    nccl_comm *n = (nccl_comm *)comm;
    weft_error why;
    weft_status status = weft_comm_wait(n->control, ticket, &why);
    return status ? nccl_give_up(n, &why, error) : WEFT_OK;
}

static void set_place(weft_comm *comm, const char *where) {
    weft_comm_place(((nccl_comm *)comm)->control, where);
}

/* Sends the reason to all ranks by the control communicator. */
static void fail(weft_comm *comm, const char *reason) {
    weft_error why;
    error_set(&why, WEFT_PEER, "%s", reason ? reason : "no reason given");
    nccl_give_up((nccl_comm *)comm, &why, NULL);
}

/* Abort: ends this rank's communicators without a message, then aborts the job by the control
 * communicator. */
static void give_up(weft_comm *comm, const char *reason) {
    nccl_comm *n = (nccl_comm *)comm;
    weft_error why;
    error_set(&why, WEFT_PEER, "rank %d was aborted: %s", comm->rank, reason ? reason : "no reason given");
    nccl_end_here(n, &why);
    weft_comm_abort(n->control, reason);
}

/* ---- the end ---- */

/* A group leaves its world's list first. The memory is kept if an abort hangs. */
static void nccl_free(weft_comm *comm) {
    nccl_comm *n = (nccl_comm *)comm;
    if (n->world != n) nccl_leave_world(n);
    if (n->nccl) ncclCommDestroy(n->nccl);
    weft_comm_free(n->control);
    if (nccl_has_ended(n)) nccl_release(n, sizeof *n);
}

/* ---- making them ---- */

static weft_status make_group(weft_comm *comm, const int *ranks, int count, weft_comm **group,
                              weft_error *error);

static const weft_comm_calls calls = {.start = start,
                                      .test = test,
                                      .wait = wait,
                                      .group = make_group,
                                      .place = set_place,
                                      .abort = give_up,
                                      .free = nccl_free,
                                      .enqueue = enqueue,
                                      .poll = nccl_poll,
                                      .fail = fail};

/* A communicator around a control communicator, which it owns only on success; NULL with *error. */
static nccl_comm *wrap(weft_comm *control, nccl_comm *world, const weft_env *env, weft_error *error) {
    nccl_comm *n = mem_new(env, sizeof *n);
    if (!n) error_memory(error, "a communicator");
    if (!n || !nccl_init(n, control, world, env, error)) {
        mem_free(env, n, sizeof *n);
        return NULL;
    }
    n->comm.calls = &calls;
    n->comm.kind = "nccl";
    n->control = control;
    return n;
}

/* Makes a group: NCCL's is split from its world, with ranks in the order of the list. Every rank of the world
 * takes part. */
static weft_status make_group(weft_comm *comm, const int *ranks, int count, weft_comm **group,
                              weft_error *error) {
    nccl_comm *n = (nccl_comm *)comm, *g = NULL;
    weft_comm *control;
    ncclComm_t part = NULL;
    int place_in = 0, is_in = 0;
    weft_status status = nccl_failure(n, error);
    if (!status) status = weft_comm_group(n->control, ranks, count, &control, error);
    if (status) return status;
    for (int i = 0; i < count; i++)
        if (ranks[i] == comm->rank) is_in = 1, place_in = i;
    if (control && !(g = wrap(control, n->world, &n->env, error))) {
        weft_comm_free(control);
        return WEFT_MEMORY;
    }
    ncclResult_t result = ncclCommSplit(n->nccl, is_in ? 0 : NCCL_SPLIT_NOCOLOR, place_in, &part, NULL);
    if (g) nccl_enter_world(g, part);
    if (result == ncclSuccess) {
        *group = g ? &g->comm : NULL;
        return WEFT_OK;
    }
    if (g) nccl_free(&g->comm);
    weft_error why;
    nccl_fail(&why, n, result, "making a group");
    return nccl_give_up(n, &why, error);
}

static weft_status device_status(cudaError_t result, weft_error *error) {
    if (result == cudaSuccess) return WEFT_OK;
    return error_set(error, WEFT_DEVICE, "the GPU of this rank: %s", cudaGetErrorString(result));
}

/* Two ranks on one GPU would wait for each other for ever, so this fails and names them. GPUs are compared by
 * UUID. */
static weft_status check_gpus(weft_comm *control, const weft_env *env, weft_error *error) {
    enum { NAME = 96 };
    int index = 0;
    size_t bytes = (size_t)control->world * NAME;
    char *names = mem_new(env, bytes);
    if (!names) return error_memory(error, "a communicator");
    char *own = names + (size_t)control->rank * NAME;
    struct cudaDeviceProp about;
    weft_status status = device_status(cudaGetDevice(&index), error);
    if (!status) status = device_status(cudaGetDeviceProperties(&about, index), error);
    if (!status) {
        memcpy(own, about.uuid.bytes, sizeof about.uuid.bytes); /* equal on two ranks: the same GPU */
        weft_collective c = {
            .kind = WEFT_ALL_GATHER, .dtype = WEFT_U8, .buffer = names, .count = bytes, .name = "gpus"};
        status = weft_comm_run(control, &c, error);
    }
    for (int r = 0; r < control->world && !status; r++)
        if (r != control->rank && memcmp(own, names + (size_t)r * NAME, NAME) == 0)
            status = error_set(
                error, WEFT_DEVICE,
                "ranks %d and %d share a GPU, and NCCL wants one each: start fewer ranks, or train over MPI "
                "alone (--comm mpi), which goes through the host",
                r < control->rank ? r : control->rank, r < control->rank ? control->rank : r);
    mem_free(env, names, bytes);
    return status;
}

/* Joins the ranks of the control communicator: rank 0 makes NCCL's id and broadcasts it. *status is for a
 * failure of the broadcast, the result for one of NCCL. */
static ncclResult_t join(nccl_comm *n, weft_status *status, weft_error *error) {
    ncclUniqueId id, none;
    memset(&none, 0, sizeof none);
    id = none;
    ncclResult_t result = n->comm.rank == 0 ? ncclGetUniqueId(&id) : ncclSuccess;
    if (result != ncclSuccess) id = none;
    weft_collective c = {
        .kind = WEFT_BROADCAST, .dtype = WEFT_U8, .buffer = &id, .count = sizeof id, .name = "nccl id"};
    *status = weft_comm_run(n->control, &c, error);
    if (*status || result != ncclSuccess) return result;
    /* rank 0 has no id and reports the reason */
    if (memcmp(&id, &none, sizeof id) == 0) return ncclRemoteError;
    return ncclCommInitRank(&n->nccl, n->comm.world, id, n->comm.rank);
}

/* The communicator on top of `control`. is_nccl: control is that of host.c, which has an NCCL communicator to
 * split from. */
static weft_comm *nccl_on(weft_comm *control, bool is_nccl, const weft_env *env, weft_error *error) {
    weft_status status = is_nccl ? WEFT_OK : nccl_library_check(control, error);
    if (status) weft_comm_fail(control, error->text); /* the other ranks are already waiting */
    if (!status) status = check_gpus(control, env, error);
    nccl_comm *n = status ? NULL : wrap(control, NULL, env, error);
    if (!n) return NULL;
    ncclResult_t result = is_nccl ? nccl_host_split(control, &n->nccl) : join(n, &status, error);
    if (!status && result == ncclSuccess) return &n->comm;
    if (!status) nccl_fail(error, n, result, "joining the others");
    nccl_release(n, sizeof *n);
    return NULL;
}

weft_comm *weft_comm_nccl_launch(const weft_launch *launch, const weft_comm_options *options,
                                 weft_error *error) {
    if (!launch) {
        error_set(error, WEFT_ARGUMENT, "weft_comm_nccl_launch: launch is NULL");
        return NULL;
    }
    weft_comm *host = nccl_host_comm(launch, options, error);
    weft_comm *comm = host ? nccl_on(host, true, options ? options->env : NULL, error) : NULL;
    if (!comm) weft_comm_free(host);
    return comm;
}

extern char **environ; /* POSIX declares it nowhere */

weft_comm *weft_comm_nccl(weft_comm *control, const weft_comm_options *options, weft_error *error) {
    weft_launch launch;
    if (control) return nccl_on(control, false, options ? options->env : NULL, error);
    return weft_launch_read(NULL, environ, &launch, error) ? NULL
                                                           : weft_comm_nccl_launch(&launch, options, error);
}
