/* move.c - one collective on a stream. It is cut into rounds as for all communicators (collective.h); each
 * round is two groups of sends and receives around an ordered sum. Sums marked `unordered` are NCCL's own
 * calls. */
#include "dist/nccl/comm.h"
#include "dist/nccl/sum.h"
#include "graph/core/type.h"

/* One collective while it is put on the stream. All pointers are to GPU memory. */
typedef struct moving {
    nccl_comm *n;
    const weft_collective *c;
    cudaStream_t stream;
    weft_dtype wire;
    size_t width, slot; /* bytes per element that travels; elements per slot of scratch */
    char *slots, *sent; /* in the scratch: others' contributions; with a wire type, what is sent */
    weft_error *error;
} moving;

/* The slot of rank p in one half of the scratch. */
static char *slot(const moving *m, char *half, int p) {
    return half + (size_t)p * m->slot * m->width;
}

/* Of a kernel that adds or converts. */
static weft_status kernel_status(const moving *m, cudaError_t result) {
    return nccl_cuda(m->error, "a sum over ranks", result);
}

/* What is sent of a range of the buffer: itself or, with a wire type, its bf16 form in rank p's slot of
 * the scratch. */
static weft_status outgoing(const moving *m, range r, int p, const void **from) {
    char *low = slot(m, m->sent, p);
    *from = m->wire ? low : collective_at(m->c, r.begin);
    if (!m->wire || !range_length(r)) return WEFT_OK;
    return kernel_status(
        m, nccl_to_bf16(m->stream, low, (const float *)collective_at(m->c, r.begin), range_length(r)));
}

/* One message of an NCCL group; an empty range is not sent, as the receiver knows. */
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

/* Each rank's contributions to work[p] go to rank p, which adds them. With a wire type they are converted
 * before the group of sends begins. */
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
        const char *from = m->wire ? slot(m, m->sent, p) : collective_at(m->c, n->work[p].begin);
        status = send_range(m, from, range_length(n->work[p]), p);
        if (!status) status = receive_range(m, slot(m, m->slots, p), range_length(n->work[me]), p);
    }
    ncclResult_t result = ncclGroupEnd();
    if (!status && result != ncclSuccess) status = nccl_fail(error, n, result, "exchanging contributions");
    if (status) return status;
    return kernel_status(m, nccl_sum(m->stream, m->c->dtype, m->wire, collective_at(m->c, n->work[me].begin),
                                     m->slots, m->slot, range_length(n->work[me]), world, me));
}

/* The second half of a round: p sends its part of work[p] to the ranks that need it. With a bf16 wire the
 * sums are bf16 numbers already, so nothing is lost. */
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
        char *into = m->wire ? slot(m, m->slots, p) : collective_at(m->c, take.begin);
        status = send_range(m, from, range_length(give), p);
        if (!status) status = receive_range(m, into, range_length(take), p);
    }
    ncclResult_t result = ncclGroupEnd();
    if (!status && result != ncclSuccess) status = nccl_fail(error, n, result, "passing results on");
    for (int p = 0; p < world && m->wire && !status; p++) {
        range take = range_common(n->work[p], n->dest[me]);
        if (p != me)
            status = kernel_status(m, nccl_from_bf16(m->stream, (float *)collective_at(m->c, take.begin),
                                                     slot(m, m->slots, p), range_length(take)));
    }
    return status;
}

/* Puts all rounds of a collective on the stream. */
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

/* May and can NCCL's own collective do it? Its reduce_scatter needs equal ranges. */
static bool has_own_call(const nccl_comm *n, const weft_collective *c) {
    if (!c->unordered || c->wire) return false;
    bool is_even = !c->counts && c->count % (size_t)n->comm.world == 0;
    return c->kind == WEFT_COLLECTIVE_ALL_REDUCE || (c->kind == WEFT_COLLECTIVE_REDUCE_SCATTER && is_even);
}

/* A reduce_scatter writes its result directly to the own range. */
static weft_status add_unordered(nccl_comm *n, const weft_collective *c, cudaStream_t stream,
                                 weft_error *error) {
    ncclDataType_t type;
    if (!nccl_type(c->dtype, &type)) return error_set(error, WEFT_TYPE, "sums are of f32, f64 or bf16");
    size_t each = c->count / (size_t)n->comm.world;
    char *own = (char *)c->buffer + (size_t)n->comm.rank * each * dtype_bytes(c->dtype);
    if (c->kind == WEFT_COLLECTIVE_ALL_REDUCE)
        NCCL_TRY(ncclAllReduce(c->buffer, c->buffer, c->count, type, ncclSum, n->nccl, stream), "all_reduce");
    else
        NCCL_TRY(ncclReduceScatter(c->buffer, own, each, type, ncclSum, n->nccl, stream), "reduce_scatter");
    return WEFT_OK;
}

/* The lock keeps an abort of another thread from ending the communicator during the calls. */
weft_status nccl_put(nccl_comm *n, const weft_collective *c, cudaStream_t stream, weft_error *error) {
    weft_status status = WEFT_OK;
    pthread_mutex_lock(&n->world->lock);
    if (!n->nccl) { /* another thread has aborted it */
        *error = n->world->failure;
        status = error->status;
    } else {
        status = has_own_call(n, c) ? add_unordered(n, c, stream, error) : move_all(n, c, stream, error);
    }
    pthread_mutex_unlock(&n->world->lock);
    return status;
}
