/* nccl.c - ranks with one GPU each, over NCCL. Sums and moves run on the caller's stream (nccl/move.c). Host
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
    if (status || c->kind == WEFT_COLLECTIVE_BARRIER || comm->world == 1) return status;
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

/* Of what goes through the host. */
static bool write_ring(weft_comm *comm, int fd, uint64_t job, uint64_t job_ns) {
    return weft_comm_write_ring(((nccl_comm *)comm)->control, fd, job, job_ns);
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
                                      .abort = nccl_abort,
                                      .free = nccl_free,
                                      .enqueue = enqueue,
                                      .poll = nccl_poll,
                                      .fail = nccl_reason,
                                      .write_ring = write_ring};

/* The memory of a communicator like `like`; NULL with *error. It is taken before ranks meet: calls of NCCL in
 * which all take part have no deadline, so a rank that has failed must tell the others before these calls. */
static nccl_comm *comm_new(const weft_comm *like, nccl_comm *world, const weft_env *env, weft_error *error) {
    nccl_comm *n = mem_new(env, sizeof *n);
    if (!n) error_memory(error, "a communicator");
    if (n && nccl_init(n, like, world, env, error)) return n;
    mem_free(env, n, sizeof *n);
    return NULL;
}

/* Puts it on top of its control communicator, which it owns from now on. */
static void put_on(nccl_comm *n, weft_comm *control) {
    n->comm = *control;
    n->comm.calls = &calls;
    n->comm.kind = "nccl";
    n->control = control;
}

/* Makes a group: NCCL's is split from its world, with ranks in the order of the list. Every rank of the world
 * takes part. */
static weft_status make_group(weft_comm *comm, const int *ranks, int count, weft_comm **group,
                              weft_error *error) {
    nccl_comm *n = (nccl_comm *)comm, *g = NULL;
    weft_comm *control, like;
    weft_error why;
    weft_status status = nccl_failure(n, error);
    if (status) return status;
    if (nccl_is_member(comm, ranks, count, &like) && !(g = comm_new(&like, n->world, &n->env, &why)))
        return nccl_give_up(n, &why, error);
    if ((status = weft_comm_group(n->control, ranks, count, &control, error))) {
        if (g) nccl_release(g, sizeof *g);
        return status;
    }
    if (g) put_on(g, control);
    status = nccl_split(n, g, error);
    if (!status) *group = g ? &g->comm : NULL;
    if (status && g) nccl_free(&g->comm);
    return status;
}

enum { GPU_NAME = 96 }; /* bytes that name a GPU among the ranks */

/* Writes the GPU's UUID, which two ranks share only if they share the GPU. */
static weft_status name_gpu(char name[GPU_NAME], weft_error *error) {
    int index = 0;
    struct cudaDeviceProp about;
    weft_status status = nccl_cuda(error, "the GPU of this rank", cudaGetDevice(&index));
    if (!status) status = nccl_cuda(error, "the GPU of this rank", cudaGetDeviceProperties(&about, index));
    if (!status) memcpy(name, about.uuid.bytes, sizeof about.uuid.bytes);
    return status;
}

/* Two ranks on one GPU would wait for each other for ever, so this fails and names them. `names` has room for
 * all ranks, and this rank's is in it. */
static weft_status compare_gpus(weft_comm *control, char *names, weft_error *error) {
    const char *own = names + (size_t)control->rank * GPU_NAME;
    weft_collective c = {.kind = WEFT_COLLECTIVE_ALL_GATHER,
                         .dtype = WEFT_U8,
                         .buffer = names,
                         .count = (size_t)control->world * GPU_NAME,
                         .name = "gpus"};
    weft_status status = weft_comm_run(control, &c, error);
    for (int r = 0; r < control->world && !status; r++)
        if (r != control->rank && memcmp(own, names + (size_t)r * GPU_NAME, GPU_NAME) == 0)
            status = error_set(
                error, WEFT_DEVICE,
                "ranks %d and %d share a GPU, and NCCL wants one each: start fewer ranks, or train over MPI "
                "alone (--comm mpi), which goes through the host",
                r < control->rank ? r : control->rank, r < control->rank ? control->rank : r);
    return status;
}

/* What a rank can fail in alone: library, memory, GPU. The other ranks are already waiting in compare_gpus,
 * or will, and hear the reason there. *names becomes room for all ranks, which the caller frees. */
static nccl_comm *prepare(weft_comm *control, bool is_nccl, const weft_env *env, char **names,
                          weft_error *error) {
    weft_status status = is_nccl ? WEFT_OK : nccl_library_check(control, error);
    *names = status ? NULL : mem_new(env, (size_t)control->world * GPU_NAME);
    if (!status && !*names) status = error_memory(error, "a communicator");
    if (!status) status = name_gpu(*names + (size_t)control->rank * GPU_NAME, error);
    nccl_comm *n = status ? NULL : comm_new(control, NULL, env, error);
    if (!n) weft_comm_fail(control, error->text);
    return n;
}

/* Joins the ranks of the control communicator: rank 0 makes NCCL's id and broadcasts it. *status is for a
 * failure of the broadcast, the result for one of NCCL. */
static ncclResult_t join(nccl_comm *n, weft_status *status, weft_error *error) {
    ncclUniqueId id, none;
    memset(&none, 0, sizeof none);
    id = none;
    ncclResult_t result = n->comm.rank == 0 ? ncclGetUniqueId(&id) : ncclSuccess;
    if (result != ncclSuccess) id = none;
    weft_collective c = {.kind = WEFT_COLLECTIVE_BROADCAST,
                         .dtype = WEFT_U8,
                         .buffer = &id,
                         .count = sizeof id,
                         .name = "nccl id"};
    *status = weft_comm_run(n->control, &c, error);
    if (*status || result != ncclSuccess) return result;
    /* rank 0 has no id and reports the reason */
    if (memcmp(&id, &none, sizeof id) == 0) return ncclRemoteError;
    return ncclCommInitRank(&n->nccl, n->comm.world, id, n->comm.rank);
}

/* The communicator on top of `control`. is_nccl: control is that of host.c, which has an NCCL communicator to
 * split from. */
static weft_comm *nccl_on(weft_comm *control, bool is_nccl, const weft_env *env, weft_error *error) {
    weft_error own;
    char *names;
    if (!error) error = &own;
    nccl_comm *n = prepare(control, is_nccl, env, &names, error);
    weft_status status = n ? compare_gpus(control, names, error) : WEFT_DEVICE;
    ncclResult_t result = ncclSuccess;
    mem_free(env, names, (size_t)control->world * GPU_NAME);
    if (n) put_on(n, control);
    if (!status) result = is_nccl ? nccl_host_split(control, &n->nccl) : join(n, &status, error);
    if (!status && result == ncclSuccess) return &n->comm;
    if (!status) nccl_fail(error, n, result, "joining the others");
    if (n) nccl_release(n, sizeof *n);
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
