/* host.c - a communicator for host memory that is made of NCCL, for worlds without MPI: buffers travel
 * through the GPU, on a stream of their own. Ranks compare descriptors before data move, as everywhere: each
 * collective begins with a gather of all ranks' descriptors. A barrier is only that gather, so it need not be
 * waited for; the others are done when `start` returns.
 *
 * Its kernels run beside those of a session's communicators. NCCL allows that where both fit on the GPU at
 * once, and these are small (descriptors of all ranks; data only while no run is under way).
 *
 * NCCL cannot report which ranks are missing at the deadline, nor why another rank gave up. Each rank
 * finds a difference of descriptors itself, and learns of any other failure by its deadline or by NCCL's
 * own errors. */
#include "dist/nccl/comm.h"

#include "dist/core/clock.h"
#include "dist/core/comm_options.h"
#include "dist/core/descriptor.h"
#include "graph/core/type.h"

#include <sched.h>
#include <stdio.h>

/* Each staging buffer is at least twice as large as the one before it. */
enum { RING = 32, STAGINGS = 64, STAGING_LEAST = 1 << 20 };

typedef struct nccl_host nccl_host;

/* A collective whose descriptors are being gathered. */
typedef struct host_call {
    nccl_host *of;
    uint64_t sequence, since_ns; /* number in its group, from 1; when it was started */
    cudaEvent_t seen;            /* recorded after the gather: all descriptors are here */
    descriptor mine, *all;       /* mine; [world], pinned: of all ranks */
} host_call;

/* What a world and its groups share: one stream, first in, first out. */
typedef struct host_stream {
    cudaStream_t stream;
    cudaEvent_t moved; /* recorded after the data of a collective */
    host_call ring[RING];
    descriptor *pinned, *device; /* [RING][world], host memory; [world], GPU memory */
    uint64_t issued, finished;   /* collectives started; those whose descriptors were compared */
    uint32_t n_groups;
    double deadline_seconds;
    /* GPU memory; the last one is used. Earlier ones are kept until the end, as cudaFree waits for all
     * streams. */
    char *stagings[STAGINGS];
    int n_stagings;
    size_t staging_bytes;
} host_stream;

struct nccl_host {
    nccl_comm n; /* first: what the caller holds */
    host_stream *stream;
    uint64_t sequence;
    char name[24];
    int *ranks; /* [comm.world]: ranks in the world */
};

#define CUDA_TRY(call)                                                                                       \
    do {                                                                                                     \
        weft_status cuda_status_ = nccl_cuda(error, "the host's collectives through the GPU", call);         \
        if (cuda_status_) return cuda_status_;                                                               \
    } while (0)

/* ---- waiting ---- */

/* Fails on an error of NCCL, or when the collective f is older than the deadline. */
static weft_status check_stalled(const nccl_host *h, const descriptor *f, uint64_t since_ns,
                                 weft_error *error) {
    double seconds = clock_since(since_ns);
    weft_status status = nccl_ask(h->n.world, error);
    if (status || seconds < h->stream->deadline_seconds) return status;
    return error_set(error, WEFT_PEER,
                     "%s of %s on rank %d: not finished after %.1f s: some of %d ranks have not entered it "
                     "(NCCL does not report which)",
                     descriptor_title(f).text, h->name, h->n.world->comm.rank, seconds, h->n.comm.world);
}

/* Looks at the oldest gather: if it is finished, compares the descriptors of all ranks. */
static weft_status look(host_stream *l, weft_error *error) {
    const host_call *k = &l->ring[l->finished % RING];
    const nccl_host *h = k->of;
    weft_status status = WEFT_OK;
    cudaError_t result = cudaEventQuery(k->seen);
    if (result == cudaErrorNotReady) return check_stalled(h, &k->mine, k->since_ns, error);
    CUDA_TRY(result);
    for (int r = 0; r < h->n.comm.world && !status; r++) {
        const rendezvous m = {k->sequence, h->name, h->n.world->comm.rank, h->ranks[r]};
        status = descriptor_compare(&k->mine, &k->all[r], &m, error);
    }
    if (!status) l->finished++;
    return status;
}

/* Yields for 50 us, then sleeps 0.1 ms at a time. */
static void nap(uint64_t since_ns) {
    if (clock_now() - since_ns < 50000)
        sched_yield();
    else
        clock_nap(1e-4);
}

/* Waits until the collective with this ticket, and all before it, have been compared. */
static weft_status until(host_stream *l, uint64_t ticket, weft_error *error) {
    weft_status status = WEFT_OK;
    for (uint64_t since = clock_now(); l->finished < ticket && !status;) {
        uint64_t before = l->finished;
        status = look(l, error);
        if (l->finished == before) nap(since);
    }
    return status;
}

/* ---- one collective ---- */

/* Puts the gather of the descriptors on the stream. Waits only if all RING entries are under way. */
static weft_status announce(nccl_host *h, const weft_collective *c, weft_error *error) {
    host_stream *l = h->stream;
    size_t bytes = (size_t)h->n.comm.world * sizeof(descriptor);
    weft_status status = l->issued - l->finished < RING ? WEFT_OK : until(l, l->finished + 1, error);
    if (status) return status;
    host_call *k = &l->ring[l->issued % RING];
    k->of = h;
    k->sequence = ++h->sequence;
    k->since_ns = clock_now();
    k->mine = descriptor_of(c, h->n.comm.world);
    k->all[h->n.comm.rank] = k->mine;
    const weft_collective gather = {
        .kind = WEFT_COLLECTIVE_ALL_GATHER, .dtype = WEFT_U8, .buffer = l->device, .count = bytes};
    descriptor *own = l->device + h->n.comm.rank;
    CUDA_TRY(cudaMemcpyAsync(own, &k->all[h->n.comm.rank], sizeof *own, cudaMemcpyHostToDevice, l->stream));
    if ((status = nccl_put(&h->n, &gather, l->stream, error))) return status;
    CUDA_TRY(cudaMemcpyAsync(k->all, l->device, bytes, cudaMemcpyDeviceToHost, l->stream));
    CUDA_TRY(cudaEventRecord(k->seen, l->stream));
    l->issued++;
    return WEFT_OK;
}

/* Makes the last staging buffer hold `bytes`. */
static weft_status make_room(host_stream *l, size_t bytes, weft_error *error) {
    size_t room = l->staging_bytes ? l->staging_bytes : STAGING_LEAST;
    if (l->n_stagings && bytes <= l->staging_bytes) return WEFT_OK;
    while (room < bytes)
        if (!size_mul(&room, room, 2)) return error_memory(error, "a collective through the GPU");
    CUDA_TRY(cudaMalloc((void **)&l->stagings[l->n_stagings], room));
    l->n_stagings++;
    l->staging_bytes = room;
    return WEFT_OK;
}

/* Moves the data, after the ranks have been found to agree: to the GPU, the collective, and back. */
static weft_status move_data(nccl_host *h, const weft_collective *c, weft_error *error) {
    host_stream *l = h->stream;
    weft_collective there = *c;
    size_t bytes = c->count * dtype_bytes(c->dtype), all;
    there.scratch_bytes = weft_collective_scratch(c->kind, c->dtype, c->wire, c->count, h->n.comm.world);
    if (!size_add(&all, size_align(bytes, MEM_ALIGN), there.scratch_bytes)) all = SIZE_MAX;
    weft_status status = WEFT_OK;
    if (!bytes || h->n.comm.world == 1) return WEFT_OK;
    if ((status = make_room(l, all, error))) return status;
    there.buffer = l->stagings[l->n_stagings - 1];
    there.scratch = (char *)there.buffer + size_align(bytes, MEM_ALIGN);
    CUDA_TRY(cudaMemcpyAsync(there.buffer, c->buffer, bytes, cudaMemcpyHostToDevice, l->stream));
    if ((status = nccl_put(&h->n, &there, l->stream, error))) return status;
    CUDA_TRY(cudaEventRecord(l->moved, l->stream));
    const descriptor f = descriptor_of(c, h->n.comm.world);
    cudaError_t result;
    for (uint64_t since = clock_now(); (result = cudaEventQuery(l->moved)) == cudaErrorNotReady; nap(since))
        if ((status = check_stalled(h, &f, since, error))) return status;
    CUDA_TRY(result);
    /* Only now: a copy to pageable memory blocks until the stream gets there, and the thread could not notice
     * a failure. */
    CUDA_TRY(cudaMemcpyAsync(c->buffer, there.buffer, bytes, cudaMemcpyDeviceToHost, l->stream));
    CUDA_TRY(cudaStreamSynchronize(l->stream));
    return WEFT_OK;
}

/* ---- the table ---- */

/* A barrier is done when its descriptors are compared; the data of others are moved before this returns. */
static weft_status host_start(weft_comm *comm, const weft_collective *c, uint64_t *ticket,
                              weft_error *error) {
    nccl_host *h = (nccl_host *)comm;
    weft_error why;
    weft_status status = nccl_failure(&h->n, error);
    if (status) return status;
    status = announce(h, c, &why);
    *ticket = h->stream->issued;
    if (!status && c->kind != WEFT_COLLECTIVE_BARRIER) status = until(h->stream, *ticket, &why);
    if (!status && c->kind != WEFT_COLLECTIVE_BARRIER) status = move_data(h, c, &why);
    return status ? nccl_give_up(&h->n, &why, error) : WEFT_OK;
}

/* Compares what has arrived, so a difference is found also while no one waits. */
static weft_status host_poll(weft_comm *comm, weft_error *error) {
    nccl_host *h = (nccl_host *)comm;
    weft_error why;
    weft_status status = nccl_failure(&h->n, error);
    if (status) return status;
    if (h->stream->finished < h->stream->issued)
        status = look(h->stream, &why);
    else
        status = nccl_ask(h->n.world, &why);
    return status ? nccl_give_up(&h->n, &why, error) : WEFT_OK;
}

static weft_status host_test(weft_comm *comm, uint64_t ticket, bool *is_done, weft_error *error) {
    host_stream *l = ((nccl_host *)comm)->stream;
    weft_status status = l->finished < ticket ? host_poll(comm, error) : WEFT_OK;
    *is_done = l->finished >= ticket;
    return status;
}

static weft_status host_wait(weft_comm *comm, uint64_t ticket, weft_error *error) {
    nccl_host *h = (nccl_host *)comm;
    weft_error why;
    if (h->stream->finished >= ticket) return WEFT_OK;
    weft_status status = nccl_failure(&h->n, error);
    if (status) return status;
    status = until(h->stream, ticket, &why);
    return status ? nccl_give_up(&h->n, &why, error) : WEFT_OK;
}

/* ---- begin and end ---- */

static void host_stream_free(host_stream *l, const weft_env *env) {
    for (int i = 0; i < RING; i++)
        if (l->ring[i].seen) cudaEventDestroy(l->ring[i].seen);
    if (l->moved) cudaEventDestroy(l->moved);
    if (l->stream) cudaStreamDestroy(l->stream);
    for (int i = 0; i < l->n_stagings; i++) cudaFree(l->stagings[i]);
    if (l->device) cudaFree(l->device);
    if (l->pinned) cudaFreeHost(l->pinned);
    mem_free(env, l, sizeof *l);
}

/* The world finishes what is under way, then frees what its groups share. */
static void host_free(weft_comm *comm) {
    nccl_host *h = (nccl_host *)comm;
    weft_env env = h->n.env;
    bool is_world = h->n.world == &h->n;
    if (is_world && h->n.nccl) host_wait(comm, h->stream->issued, NULL);
    if (!is_world) nccl_leave_world(&h->n);
    if (h->n.nccl) ncclCommDestroy(h->n.nccl);
    if (!nccl_has_ended(&h->n)) return;
    if (is_world && h->stream) host_stream_free(h->stream, &env);
    mem_free(&env, h->ranks, (size_t)comm->world * sizeof *h->ranks);
    nccl_release(&h->n, sizeof *h);
}

/* Allocates the shared stream; host_free frees it, also when this fails. */
static weft_status host_stream_open(nccl_host *h, double deadline_seconds, weft_error *error) {
    size_t world = (size_t)h->n.comm.world, bytes;
    host_stream *l = h->stream = mem_new(&h->n.env, sizeof *l);
    if (!l || !size_mul(&bytes, RING * world, sizeof(descriptor)))
        return error_memory(error, "a communicator");
    l->deadline_seconds = deadline_seconds;
    CUDA_TRY(cudaStreamCreateWithFlags(&l->stream, cudaStreamNonBlocking));
    CUDA_TRY(cudaEventCreateWithFlags(&l->moved, cudaEventDisableTiming));
    CUDA_TRY(cudaMallocHost((void **)&l->pinned, bytes));
    CUDA_TRY(cudaMalloc((void **)&l->device, world * sizeof(descriptor)));
    for (int i = 0; i < RING; i++) {
        l->ring[i].all = l->pinned + (size_t)i * world;
        CUDA_TRY(cudaEventCreateWithFlags(&l->ring[i].seen, cudaEventDisableTiming));
    }
    return WEFT_OK;
}

static weft_status host_group(weft_comm *comm, const int *ranks, int count, weft_comm **group,
                              weft_error *error);

static const weft_comm_calls host_calls = {.start = host_start,
                                           .test = host_test,
                                           .wait = host_wait,
                                           .group = host_group,
                                           .abort = nccl_abort,
                                           .free = host_free,
                                           .poll = host_poll,
                                           .fail = nccl_reason};

/* A world (world NULL) or a group of it, without its NCCL communicator; ranks NULL: 0, 1, 2 ... */
static nccl_host *host_new(const weft_comm *like, nccl_host *world, const int *ranks, const weft_env *env,
                           weft_error *error) {
    nccl_host *h = mem_new(env, sizeof *h);
    if (!h || !nccl_init(&h->n, like, world ? &world->n : NULL, env, error)) {
        if (!h) error_memory(error, "a communicator");
        mem_free(env, h, sizeof *h);
        return NULL;
    }
    h->n.comm.calls = &host_calls;
    h->n.comm.kind = "nccl host";
    h->stream = world ? world->stream : NULL;
    h->ranks = mem_new_array(env, (size_t)like->world, sizeof *h->ranks);
    if (!h->ranks) {
        error_memory(error, "a communicator");
        nccl_release(&h->n, sizeof *h);
        return NULL;
    }
    for (int i = 0; i < like->world; i++) h->ranks[i] = ranks ? ranks[i] : i;
    return h;
}

static weft_status host_group(weft_comm *comm, const int *ranks, int count, weft_comm **group,
                              weft_error *error) {
    nccl_host *world = (nccl_host *)comm, *h = NULL;
    weft_comm like;
    weft_error why;
    char list[NAME_BYTES];
    weft_collective barrier = group_barrier(ranks, count, list);
    weft_status status = nccl_failure(&world->n, error);
    if (status) return status;
    /* Before ranks meet: the split has no deadline, so a rank without memory must tell the others first. */
    if (nccl_is_member(comm, ranks, count, &like) &&
        !(h = host_new(&like, world, ranks, &world->n.env, &why)))
        return nccl_give_up(&world->n, &why, error);
    status = weft_comm_run(comm, &barrier, error);
    uint32_t id = ++world->stream->n_groups;
    if (h) snprintf(h->name, sizeof h->name, "group %u", id);
    if (!status) status = nccl_split(&world->n, h ? &h->n : NULL, error);
    if (!status) *group = h ? &h->n.comm : NULL;
    if (status && h) host_free(&h->n.comm);
    return status;
}

/* Called by all ranks, like any split. */
ncclResult_t nccl_host_split(weft_comm *host, ncclComm_t *other) {
    return ncclCommSplit(((nccl_comm *)host)->nccl, 0, host->rank, other, NULL);
}

weft_comm *nccl_host_comm(const weft_launch *launch, const weft_comm_options *options, weft_error *error) {
    const weft_env *env = options ? options->env : NULL;
    double deadline = comm_deadline(options);
    if (comm_options_check(options, error)) return NULL;
    const weft_comm like = {.rank = launch->rank,
                            .world = launch->world,
                            .local_rank = launch->local_rank,
                            .local_world = launch->local_world ? launch->local_world : launch->world};
    nccl_host *h = host_new(&like, NULL, NULL, env, error);
    if (!h) return NULL;
    snprintf(h->name, sizeof h->name, "world");
    if (!host_stream_open(h, deadline, error) && !nccl_join(&h->n, launch, deadline, error))
        return &h->n.comm;
    host_free(&h->n.comm);
    return NULL;
}
