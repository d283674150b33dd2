/* nccl.c - ranks with a GPU each, over NCCL. What collectives move is cut as for all communicators (collective.h); each
 * round is two groups of sends and receives around a sum in the tree's order, all on the caller's stream. `unordered` sums
 * are NCCL's own. Memory of the host goes through a communicator of the same ranks there.
 */
#include "dist/collective.h"
#include "dist/nccl_sum.h"
#include "graph/type.h"

#include <nccl.h>
#include <stdio.h>
#include <string.h>

typedef struct nccl_comm {
    weft_comm comm;     /* first: what the caller holds */
    weft_comm *control; /* the same ranks on the host; ours */
    ncclComm_t nccl;
    weft_env env;
    range *work, *dest; /* [world]: of one round */
} nccl_comm;

static weft_status nccl_fail(weft_error *error, const nccl_comm *n, ncclResult_t result, const char *doing) {
    return error_set(error, WEFT_PEER, "rank %d of %d: NCCL: %s: %s (%s)", n->comm.rank, n->comm.world, doing,
                     ncclGetErrorString(result), n->nccl ? ncclGetLastError(n->nccl) : "no communicator yet");
}

#define NCCL_TRY(call, doing)                                                                                \
    do {                                                                                                     \
        ncclResult_t nccl_result_ = (call);                                                                  \
        if (nccl_result_ != ncclSuccess) return nccl_fail(error, n, nccl_result_, doing);                    \
    } while (0)

static weft_status kernel_status(cudaError_t result, weft_error *error) {
    if (result == cudaSuccess) return WEFT_OK;
    return error_set(error, WEFT_DEVICE, "a sum over ranks: %s", cudaGetErrorString(result));
}

/* ---- one collective on a stream ---- */

typedef struct moving {
    nccl_comm *n;
    const weft_collective *c;
    cudaStream_t stream;
    weft_dtype wire;
    size_t width, slot; /* bytes an element that travels; elements a slot of scratch */
    char *slots, *sent; /* others' contributions; bf16 on the wire: what travels */
    weft_error *error;
} moving;

static char *at(const moving *m, size_t element) {
    return (char *)m->c->buffer + element * dtype_bytes(m->c->dtype);
}

static size_t length(range r) {
    return r.end - r.begin;
}

/* What travels of a range of the buffer: itself, or its bf16 form in slot `slot`. */
static weft_status outgoing(const moving *m, range r, int slot, const void **from) {
    char *low = m->sent + (size_t)slot * m->slot * m->width;
    *from = m->wire ? low : at(m, r.begin);
    if (!m->wire || !length(r)) return WEFT_OK;
    return kernel_status(nccl_to_bf16(m->stream, low, (const float *)at(m, r.begin), length(r)), m->error);
}

static weft_status send_range(const moving *m, const void *from, size_t count, int peer) {
    const nccl_comm *n = m->n;
    weft_error *error = m->error;
    if (count) NCCL_TRY(ncclSend(from, count * m->width, ncclUint8, peer, n->nccl, m->stream), "sending");
    return WEFT_OK;
}

static weft_status receive_range(const moving *m, void *into, size_t count, int peer) {
    const nccl_comm *n = m->n;
    weft_error *error = m->error;
    if (count) NCCL_TRY(ncclRecv(into, count * m->width, ncclUint8, peer, n->nccl, m->stream), "receiving");
    return WEFT_OK;
}

/* Every rank's contributions to work[p] go to p, which adds them. */
static weft_status add_round(const moving *m) {
    nccl_comm *n = m->n;
    weft_error *error = m->error;
    int me = n->comm.rank, world = n->comm.world;
    weft_status status = WEFT_OK;
    for (int p = 0; p < world && m->wire && !status; p++) {
        const void *from;
        if (p != me) status = outgoing(m, n->work[p], p, &from);
    }
    if (status) return status;
    NCCL_TRY(ncclGroupStart(), "beginning a group");
    for (int p = 0; p < world && !status; p++) {
        if (p == me) continue;
        const char *from = m->wire ? m->sent + (size_t)p * m->slot * m->width : at(m, n->work[p].begin);
        status = send_range(m, from, length(n->work[p]), p);
        if (!status)
            status = receive_range(m, m->slots + (size_t)p * m->slot * m->width, length(n->work[me]), p);
    }
    ncclResult_t result = ncclGroupEnd();
    if (!status && result != ncclSuccess) status = nccl_fail(error, n, result, "exchanging contributions");
    if (status) return status;
    return kernel_status(nccl_sum(m->stream, m->c->dtype, m->wire, at(m, n->work[me].begin), m->slots,
                                  m->slot, length(n->work[me]), world, me),
                         error);
}

/* What p holds of a round goes to those who need it. On a bf16 wire sums are bf16 numbers already: nothing is lost. */
static weft_status move_round(const moving *m) {
    nccl_comm *n = m->n;
    weft_error *error = m->error;
    int me = n->comm.rank, world = n->comm.world;
    const void *own;
    weft_status status = outgoing(m, n->work[me], me, &own);
    if (status) return status;
    NCCL_TRY(ncclGroupStart(), "beginning a group");
    for (int p = 0; p < world && !status; p++) {
        if (p == me) continue;
        range give = range_common(n->work[me], n->dest[p]), take = range_common(n->work[p], n->dest[me]);
        const char *from = (const char *)own + (give.begin - n->work[me].begin) * m->width;
        char *into = m->wire ? m->slots + (size_t)p * m->slot * m->width : at(m, take.begin);
        status = send_range(m, from, length(give), p);
        if (!status) status = receive_range(m, into, length(take), p);
    }
    ncclResult_t result = ncclGroupEnd();
    if (!status && result != ncclSuccess) status = nccl_fail(error, n, result, "passing results on");
    for (int p = 0; p < world && m->wire && !status; p++) {
        range take = range_common(n->work[p], n->dest[me]);
        if (p != me)
            status = kernel_status(nccl_from_bf16(m->stream, (float *)at(m, take.begin),
                                                  m->slots + (size_t)p * m->slot * m->width, length(take)),
                                   error);
    }
    return status;
}

static weft_status move_all(nccl_comm *n, const weft_collective *c, cudaStream_t stream, weft_error *error) {
    size_t round = c->count < ROUND_ELEMENTS ? c->count : ROUND_ELEMENTS, world = (size_t)n->comm.world;
    bool is_sum = collective_is_sum(c->kind);
    cut_room room = {.sum = ROUND_ELEMENTS,
                     .range = round / world + 1,
                     .move = ROUND_MOVE_BYTES / dtype_bytes(c->dtype),
                     .to_owners = true};
    moving m = {.n = n, .c = c, .stream = stream, .wire = is_sum ? c->wire : (weft_dtype)0, .error = error};
    m.width = dtype_bytes(m.wire ? m.wire : c->dtype);
    m.slot = round / world + 1;
    m.slots = c->scratch;
    m.sent = m.slots + (m.wire ? size_align(m.slot * world * m.width, MEM_ALIGN) : 0);
    cut k = cut_of(c, n->comm.world, &room);
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < k.rounds && !status; i++) {
        cut_round(&k, i, n->work, n->dest);
        if (is_sum) status = add_round(&m);
        if (!status) status = move_round(&m);
    }
    return status;
}

/* ---- sums in NCCL's own order ---- */

static bool nccl_type(weft_dtype dtype, ncclDataType_t *type) {
    *type = dtype == WEFT_F64 ? ncclFloat64 : dtype == WEFT_BF16 ? ncclBfloat16 : ncclFloat32;
    return dtype == WEFT_F32 || dtype == WEFT_F64 || dtype == WEFT_BF16;
}

static bool has_own_call(const nccl_comm *n, const weft_collective *c) {
    if (!c->unordered || c->wire) return false;
    bool is_even = !c->counts && c->count % (size_t)n->comm.world == 0;
    return c->kind == WEFT_ALL_REDUCE || (c->kind == WEFT_REDUCE_SCATTER && is_even);
}

static weft_status add_unordered(nccl_comm *n, const weft_collective *c, cudaStream_t stream,
                                 weft_error *error) {
    ncclDataType_t type;
    if (!nccl_type(c->dtype, &type)) return error_set(error, WEFT_TYPE, "sums are of f32, f64 or bf16");
    size_t each = c->count / (size_t)n->comm.world;
    char *own = (char *)c->buffer + (size_t)n->comm.rank * each * dtype_bytes(c->dtype);
    if (c->kind == WEFT_ALL_REDUCE)
        NCCL_TRY(ncclAllReduce(c->buffer, c->buffer, c->count, type, ncclSum, n->nccl, stream), "all_reduce");
    else
        NCCL_TRY(ncclReduceScatter(c->buffer, own, each, type, ncclSum, n->nccl, stream), "reduce_scatter");
    return WEFT_OK;
}

static weft_status enqueue(weft_comm *comm, const weft_collective *c, void *stream, weft_error *error) {
    nccl_comm *n = (nccl_comm *)comm;
    ncclResult_t met;
    weft_status status = collective_check(c, comm->world, error);
    if (status) return status;
    NCCL_TRY(ncclCommGetAsyncError(n->nccl, &met), "asking for errors");
    NCCL_TRY(met, "an earlier collective");
    if (c->kind == WEFT_BARRIER || comm->world == 1) return WEFT_OK;
    return has_own_call(n, c) ? add_unordered(n, c, stream, error) : move_all(n, c, stream, error);
}

/* ---- the host's side ---- */

static weft_status start(weft_comm *comm, const weft_collective *c, uint64_t *ticket, weft_error *error) {
    return weft_comm_start(((nccl_comm *)comm)->control, c, ticket, error);
}

static weft_status test(weft_comm *comm, uint64_t ticket, bool *is_done, weft_error *error) {
    return weft_comm_test(((nccl_comm *)comm)->control, ticket, is_done, error);
}

static weft_status wait(weft_comm *comm, uint64_t ticket, weft_error *error) {
    return weft_comm_wait(((nccl_comm *)comm)->control, ticket, error);
}

static void place(weft_comm *comm, const char *where) {
    weft_comm_place(((nccl_comm *)comm)->control, where);
}

static void give_up(weft_comm *comm, const char *reason) {
    nccl_comm *n = (nccl_comm *)comm;
    if (n->nccl) ncclCommAbort(n->nccl);
    n->nccl = NULL;
    weft_comm_abort(n->control, reason);
}

static void free_ranges(nccl_comm *n) {
    mem_free(&n->env, n->work, 2 * (size_t)n->comm.world * sizeof *n->work);
    weft_env env = n->env;
    mem_free(&env, n, sizeof *n);
}

static void nccl_free(weft_comm *comm) {
    nccl_comm *n = (nccl_comm *)comm;
    if (n->nccl) ncclCommDestroy(n->nccl);
    weft_comm_free(n->control);
    free_ranges(n);
}

/* ---- making them ---- */

static weft_status make_group(weft_comm *comm, const int *ranks, int count, weft_comm **group,
                              weft_error *error);

static const weft_comm_calls calls = {.start = start,
                                      .test = test,
                                      .wait = wait,
                                      .group = make_group,
                                      .place = place,
                                      .abort = give_up,
                                      .free = nccl_free,
                                      .enqueue = enqueue};

static nccl_comm *wrap(weft_comm *control, const weft_env *env, weft_error *error) {
    nccl_comm *n = mem_new(env, sizeof *n);
    range *ranges = n ? mem_new_array(env, 2 * (size_t)control->world, sizeof *ranges) : NULL;
    if (!ranges) {
        error_memory(error, "a communicator");
        mem_free(env, n, sizeof *n);
        return NULL;
    }
    n->comm = *control;
    n->comm.calls = &calls;
    n->comm.kind = "nccl";
    n->control = control;
    if (env) n->env = *env;
    n->work = ranges;
    n->dest = ranges + control->world;
    return n;
}

/* NCCL's groups are split from its world, and ours know their ranks by the order of the list. */
static weft_status make_group(weft_comm *comm, const int *ranks, int count, weft_comm **group,
                              weft_error *error) {
    nccl_comm *n = (nccl_comm *)comm, *g = NULL;
    weft_comm *control;
    ncclComm_t part = NULL;
    int place_in = 0, is_in = 0;
    weft_status status = weft_comm_group(n->control, ranks, count, &control, error);
    if (status) return status;
    for (int i = 0; i < count; i++)
        if (ranks[i] == comm->rank) is_in = 1, place_in = i;
    if (control && !(g = wrap(control, &n->env, error))) {
        weft_comm_free(control);
        return WEFT_MEMORY;
    }
    NCCL_TRY(ncclCommSplit(n->nccl, is_in ? 0 : NCCL_SPLIT_NOCOLOR, place_in, &part, NULL), "making a group");
    if (g) g->nccl = part;
    *group = g ? &g->comm : NULL;
    return WEFT_OK;
}

/* Two ranks on one GPU would wait for each other for ever: the one on the same one is named instead. */
static weft_status check_gpus(weft_comm *control, const weft_env *env, weft_error *error) {
    enum { NAME = 96 };
    int index = 0;
    size_t bytes = (size_t)control->world * NAME;
    char *names = mem_new(env, bytes);
    if (!names) return error_memory(error, "a communicator");
    char *own = names + (size_t)control->rank * NAME;
    struct cudaDeviceProp about;
    weft_status status = kernel_status(cudaGetDevice(&index), error);
    if (!status) status = kernel_status(cudaGetDeviceProperties(&about, index), error);
    if (!status) {
        memcpy(own, about.uuid.bytes, sizeof about.uuid.bytes); /* the same for two ranks: the same GPU */
        weft_collective c = {
            .kind = WEFT_ALL_GATHER, .dtype = WEFT_U8, .buffer = names, .count = bytes, .name = "gpus"};
        status = weft_comm_run(control, &c, error);
    }
    for (int r = 0; r < control->world && !status; r++)
        if (r != control->rank && memcmp(own, names + (size_t)r * NAME, NAME) == 0)
            status = error_set(
                error, WEFT_DEVICE,
                "ranks %d and %d share a GPU, and NCCL wants one each: start fewer ranks, or train over MPI "
                "alone (--comm mpi), which goes by way of the host",
                r < control->rank ? r : control->rank, r < control->rank ? control->rank : r);
    mem_free(env, names, bytes);
    return status;
}

weft_comm *weft_comm_nccl(weft_comm *control, const weft_comm_options *options, weft_error *error) {
    const weft_env *env = options ? options->env : NULL;
    ncclUniqueId id;
    if (!control) {
        error_set(error, WEFT_ARGUMENT,
                  "weft_comm_nccl: a communicator of the same ranks on the host is needed");
        return NULL;
    }
    if (check_gpus(control, env, error)) return NULL;
    nccl_comm *n = wrap(control, env, error);
    if (!n) return NULL;
    ncclResult_t result = control->rank == 0 ? ncclGetUniqueId(&id) : ncclSuccess;
    weft_collective c = {
        .kind = WEFT_BROADCAST, .dtype = WEFT_U8, .buffer = &id, .count = sizeof id, .name = "nccl id"};
    weft_status status = weft_comm_run(control, &c, error);
    if (!status && result == ncclSuccess)
        result = ncclCommInitRank(&n->nccl, control->world, id, control->rank);
    if (!status && result == ncclSuccess) return &n->comm;
    if (!status) nccl_fail(error, n, result, "joining the others");
    free_ranges(n);
    return NULL;
}
