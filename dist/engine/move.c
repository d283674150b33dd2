/* move.c - the rounds of one collective by messages. Contributions travel to the rank that adds them, are
 * added in tree order, and results travel to the ranks that need them. The code is the same for every kind,
 * see collective.h. */
#include "dist/engine/engine.h"

#include "dist/core/ordered.h"
#include "graph/core/type.h"

typedef struct rounds {
    engine *e;
    const stream_op *op;
    const weft_collective *c;
    const engine_group *g;
    range *work, *dest;
    cut cut;
    int dealer;    /* rank that deals out slices in this round, -1: none */
    bool has_wire; /* f32 that travels as bf16 */
    size_t width;  /* bytes per element on the wire */
    /* in the scratch: contributions of others; with a wire type, converted data to send */
    char *slots, *send;
} rounds;

/* Where an element is sent from: the buffer or, with a wire type, its converted copy number `slot`. */
static char *sent_from(const rounds *m, size_t element, size_t slot) {
    return m->has_wire ? m->send + slot * sizeof(uint16_t) : collective_at(m->c, element);
}

/* Tags differ between the two phases, and between neighbouring rounds and collectives. They fit MPI's 15
 * bits. */
static int tag_of(const rounds *m, size_t round, int phase) {
    return (int)((m->op->sequence % 1024 * 8 + round % 4 * 2 + (size_t)phase) % 8192);
}

/* Sends n elements to member `to`; nothing if n is 0, as the receiver knows. */
static weft_status send_message(const rounds *m, int to, int tag, const void *from, size_t n,
                                weft_error *error) {
    if (!n) return WEFT_OK;
    transport *t = m->e->t;
    return t->calls->send(t, m->g->ranks[to], tag, from, n * m->width, error);
}

static weft_status get(const rounds *m, int from, int tag, void *into, size_t n, weft_error *error) {
    if (!n) return WEFT_OK;
    transport *t = m->e->t;
    return t->calls->receive(t, m->g->ranks[from], tag, into, n * m->width, error);
}

/* The i-th member after this one, cyclically: so not every rank sends to rank 0 first. */
static int other(const rounds *m, int i) {
    return (m->g->own + i) % m->g->n;
}

/* ---- phase 0 of a sum: each rank sends its part of work[p] to p, which adds ---- */

/* Receives the contributions to work[own] into the slots, sends those to the other ranks' ranges, and
 * adds. */
static weft_status contribute(rounds *m, size_t round, weft_error *error) {
    int own = m->g->own, tag = tag_of(m, round, 0);
    size_t slot = range_length(m->work[own]);
    weft_status status = WEFT_OK;
    for (int i = 1; !status && i < m->g->n; i++) {
        int from = other(m, m->g->n - i);
        status = get(m, from, tag, m->slots + (size_t)from * slot * m->width, slot, error);
    }
    size_t sent = 0;
    for (int i = 1; !status && i < m->g->n; i++) {
        int to = other(m, i);
        range w = m->work[to];
        char *from = sent_from(m, w.begin, sent);
        if (m->has_wire)
            bf16_from_f32((uint16_t *)from, (float *)collective_at(m->c, w.begin), range_length(w));
        status = send_message(m, to, tag, from, range_length(w), error);
        sent += range_length(w);
    }
    if (!status) status = engine_transfer(m->e, m->op, error);
    if (status) return status;
    for (int r = 0; r < m->g->n; r++) m->e->from[r] = m->slots + (size_t)r * slot * m->width;
    ordered_sum sum = {m->c->dtype, m->has_wire ? WEFT_BF16 : m->c->dtype, m->g->n, own, m->e->from};
    ordered_add(&sum, collective_at(m->c, m->work[own].begin), slot);
    return WEFT_OK;
}

/* ---- phase 0 of a relayed round: the dealer sends each rank a slice ---- */

/* Rank r receives work[r]; the dealer keeps its own slice. */
static weft_status deal(rounds *m, size_t round, weft_error *error) {
    int own = m->g->own, root = m->dealer, tag = tag_of(m, round, 0);
    weft_status status = WEFT_OK;
    if (own != root)
        status =
            get(m, root, tag, collective_at(m->c, m->work[own].begin), range_length(m->work[own]), error);
    for (int i = 1; !status && own == root && i < m->g->n; i++) {
        int to = other(m, i);
        status = send_message(m, to, tag, collective_at(m->c, m->work[to].begin), range_length(m->work[to]),
                              error);
    }
    return status ? status : engine_transfer(m->e, m->op, error);
}

/* ---- phase 1: p sends its part of the result to every rank that needs it ---- */

/* Starts the receives of the results. With a wire type they come as bf16 into the slots, one after another;
 * the dealer has everything already. */
static weft_status receive_results(rounds *m, int tag, weft_error *error) {
    weft_status status = WEFT_OK;
    size_t got = 0;
    for (int i = 1; !status && i < m->g->n; i++) {
        int from = other(m, m->g->n - i);
        range r = range_common(m->work[from], m->dest[m->g->own]);
        if (m->g->own == m->dealer) r.end = r.begin;
        status = get(m, from, tag, m->has_wire ? m->slots + got * m->width : collective_at(m->c, r.begin),
                     range_length(r), error);
        got += range_length(r);
    }
    return status;
}

/* Converts what receive_results has stored, in the same order. */
static void results_to_f32(rounds *m) {
    size_t got = 0;
    for (int i = 1; i < m->g->n; i++) {
        range r = range_common(m->work[other(m, m->g->n - i)], m->dest[m->g->own]);
        f32_from_bf16((float *)collective_at(m->c, r.begin), (uint16_t *)m->slots + got, range_length(r));
        got += range_length(r);
    }
}

/* Phase 1. The own result is converted once, when the first rank needs it. */
static weft_status distribute(rounds *m, size_t round, weft_error *error) {
    int tag = tag_of(m, round, 1);
    range own = m->work[m->g->own];
    weft_status status = receive_results(m, tag, error);
    bool is_narrow = !m->has_wire;
    for (int i = 1; !status && i < m->g->n; i++) {
        int to = other(m, i);
        range r = range_common(own, m->dest[to]);
        if (to == m->dealer) r.end = r.begin;
        if (!is_narrow && range_length(r)) {
            bf16_from_f32((uint16_t *)m->send, (float *)collective_at(m->c, own.begin), range_length(own));
            is_narrow = true;
        }
        status = send_message(m, to, tag, sent_from(m, r.begin, r.begin - own.begin), range_length(r), error);
    }
    if (!status) status = engine_transfer(m->e, m->op, error);
    if (!status && m->has_wire) results_to_f32(m);
    return status;
}

/* A barrier has no data, and in a group of one the buffer holds the result. */
weft_status move_collective(engine *e, stream_op *op, weft_error *error) {
    const weft_collective *c = &op->c;
    if (c->kind == WEFT_COLLECTIVE_BARRIER || op->group->n == 1) return WEFT_OK;
    rounds m = {.e = e, .op = op, .c = c, .g = op->group, .work = e->work, .dest = e->dest};
    cut_room room = cut_room_of_messages(c, m.g->n);
    m.cut = cut_of(c, m.g->n, &room);
    m.has_wire = c->wire == WEFT_BF16;
    m.width = m.has_wire ? sizeof(uint16_t) : dtype_bytes(c->dtype);
    m.slots = c->scratch;
    m.send = m.has_wire ? m.slots + weft_collective_scratch(c->kind, c->dtype, c->wire, c->count, m.g->n) / 2
                        : NULL;
    weft_status status = WEFT_OK;
    for (size_t round = 0; !status && round < m.cut.rounds; round++) {
        m.dealer = cut_round(&m.cut, round, m.work, m.dest);
        if (collective_is_sum(c->kind)) status = contribute(&m, round, error);
        if (!status && m.dealer >= 0) status = deal(&m, round, error);
        if (!status) status = distribute(&m, round, error);
    }
    return status;
}
