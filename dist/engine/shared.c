/* shared.c - collectives through the window of one machine. A round uses one slot in every rank's piece, and
 * has three stages on every rank. A stage waits only for the data that it reads:
 *   filled  the own contributions (or the data to give) are in the own slot
 *   added   the own share of the sum is added, from the others' slots, and is in the own slot for others
 *   done    the data that this rank needs are copied out of the others' slots
 * Later stages go first, so that data are used while they are in a cache. A rank whose peers are late runs
 * ahead as far as slots are free. The sums are those of ordered_add, so the bits are the same as by
 * messages. */
#include "dist/engine/engine.h"

#include "dist/core/ordered.h"
#include "graph/core/type.h"

#include <string.h>

enum {
    SHARED_SUM_BYTES = 16384, /* up to here each rank adds all it needs: one rendezvous fewer */
    STAGES_AT_ONCE = 64,      /* between two looks at the control messages */
    CHUNK = 4096              /* elements added, then copied while they are in the L1 cache */
};

/* What the stages of one collective need, in one place. */
typedef struct sharer {
    engine *e;
    const stream_op *op;
    const weft_collective *c;
    const engine_group *g;
    window *w;
    window_move *m;
    bool has_wire; /* f32 that is stored in the slots as bf16 */
    size_t width;  /* bytes per element in the slots */
} sharer;

static sharer sharer_of(engine *e, const stream_op *op) {
    bool has_wire = op->c.wire == WEFT_BF16;
    size_t width = has_wire ? sizeof(uint16_t) : dtype_bytes(op->c.dtype);
    return (sharer){e, op, &op->c, op->group, e->t->window, &e->moving, has_wire, width};
}

/* ---- which way a collective goes ---- */

/* The number of ranks whose range is not empty, at least 1. */
static size_t count_ranges(const stream_op *op) {
    size_t ranges = 0;
    for (int r = 0; r < op->group->n; r++) ranges += !op->c.counts || op->c.counts[r] > 0;
    return ranges ? ranges : 1;
}

/* The cut into rounds of one slot each; a round of ranges divides the slot among them. */
static cut shared_cut(const engine *e, const stream_op *op) {
    const weft_collective *c = &op->c;
    size_t elements = e->t->window->slot_bytes / (c->wire ? sizeof(uint16_t) : dtype_bytes(c->dtype));
    cut_room room = {.sum = elements, .range = elements / count_ranges(op), .move = elements};
    return cut_of(c, op->group->n, &room);
}

/* Measured (dist/README.md): between processes of one machine MPI copies once, directly from the other's
 * memory. That is faster while everything is in a cache and nothing is added on the way. */
static bool pays_to_share(const stream_op *op) {
    enum { FROM = 128 << 10, TO_SCATTER = 2 << 20, TO_GATHER = 16 << 20 };
    const weft_collective *c = &op->c;
    size_t bytes = c->count * dtype_bytes(c->dtype), to = 0;
    if (c->kind == WEFT_COLLECTIVE_REDUCE_SCATTER && !c->wire) to = TO_SCATTER;
    if (c->kind == WEFT_COLLECTIVE_ALL_GATHER && count_ranges(op) > 1)
        to = TO_GATHER; /* an all_gather of one range is a broadcast */
    return bytes < FROM || bytes >= to;
}

void shared_plan(engine *e, stream_op *op) {
    const engine_group *g = op->group;
    op->way = BY_MESSAGES;
    if (op->c.kind == WEFT_COLLECTIVE_BARRIER || g->n == 1) return;
    if (!g->is_local && sum_is_possible(e, &op->c))
        op->way = BY_TRANSPORT; /* only without a window, which was measured to be faster */
    if (!g->is_local || !pays_to_share(op)) return;
    op->way = BY_WINDOW;
    op->window_at = e->window_rounds;
    e->window_rounds += shared_cut(e, op).rounds;
}

/* ---- a round ---- */

/* Fills e->work and e->dest for a round; in a shared sum each rank works on all that it needs. */
static void round_ranges(const sharer *s, size_t round) {
    cut_round(&s->m->cut, round, s->e->work, s->e->dest);
    for (int r = 0; s->m->is_shared_sum && r < s->g->n; r++) s->e->work[r] = s->e->dest[r];
}

/* Byte offset of work[p] in a slot. The shares of a sum follow each other. In a shared sum each rank's share
 * is the whole; data that are only moved are in the giver's slot alone, from its start. */
static size_t slot_offset(const sharer *s, int p) {
    size_t at = 0;
    bool is_dealt = collective_is_sum(s->c->kind) && !s->m->is_shared_sum;
    for (int r = 0; is_dealt && r < p; r++) at += range_length(s->e->work[r]);
    return at * s->width;
}

/* A member's place on this machine. */
static int place_of(const sharer *s, int member) {
    return s->w->place_of[s->g->ranks[member]];
}

static char *own_slot(const sharer *s, size_t round) {
    return window_slot(s->w, s->w->own, s->op->window_at + round);
}

/* A member's slot of this collective's round; its window may have seen a different number of rounds
 * before. */
static char *slot_of(const sharer *s, int member, size_t round) {
    int place = place_of(s, member);
    return window_slot(s->w, place, s->e->window_since[place] + round);
}

/* Has the member finished a stage (count: filled, added or done) of this collective's round? */
static bool has_reached(const sharer *s, int member, const atomic_uint_least64_t *count, size_t round) {
    uint64_t at = s->e->window_since[place_of(s, member)] + round;
    return atomic_load_explicit(count, memory_order_acquire) > at;
}

static window_flags *flags_of(const sharer *s, int member) {
    return window_flags_of(s->w, place_of(s, member));
}

/* Copies a range of the buffer into a slot, converted if it is stored as bf16. */
static void put_range(const sharer *s, char *into, range r) {
    if (s->has_wire)
        bf16_from_f32((uint16_t *)into, (float *)collective_at(s->c, r.begin), range_length(r));
    else
        memcpy(into, collective_at(s->c, r.begin), range_length(r) * s->width);
}

/* Publishes that this rank has finished a stage of `rounds` rounds, and wakes the other members. */
static void tell(const sharer *s, atomic_uint_least64_t *count, size_t rounds) {
    atomic_store_explicit(count, s->op->window_at + rounds, memory_order_release);
    for (int i = 0; i < s->g->n; i++)
        if (i != s->g->own) window_ring(s->w, place_of(s, i));
}

/* ---- the stages; false: nothing can be done now ---- */

/* Is the slot of this round free, that is: has every rank done the round that used it before? Rank i is `lag`
 * rounds behind the end of the last collective that it shared with this rank, so it may still read the `lag`
 * slots before window_until[i]. Since then this rank has used `ahead` more, also in collectives with other
 * ranks; it must not run into those again. In the active collective, each member must have done the round
 * that is `slots` earlier. */
static bool has_room(const sharer *s, size_t round) {
    for (int i = 0; i < s->w->n; i++) {
        uint64_t done = atomic_load_explicit(&window_flags_of(s->w, i)->done, memory_order_acquire);
        int64_t lag = (int64_t)(s->e->window_since[i] - done);
        uint64_t ahead = s->op->window_at + round - s->e->window_until[i];
        if (i != s->w->own && lag > 0 && ahead + (uint64_t)lag >= s->w->slots) return false;
    }
    for (int i = 0; round >= s->w->slots && i < s->g->n; i++) {
        if (i == s->g->own) continue;
        if (!s->m->has_met || !has_reached(s, i, &flags_of(s, i)->done, round - s->w->slots)) return false;
    }
    return true;
}

/* Stage 1: contributions to every other rank's share, or the data that some other rank needs. */
static bool fill_window(const sharer *s) {
    size_t round = s->m->filled;
    if (round >= s->m->cut.rounds || !has_room(s, round)) return false;
    char *slot = own_slot(s, round);
    int own = s->g->own;
    bool is_sum = collective_is_sum(s->c->kind), is_put = false;
    round_ranges(s, round);
    const range *work = s->e->work, *dest = s->e->dest;
    for (int p = 0; p < s->g->n && !is_put; p++) {
        if (p == own || (!is_sum && !range_length(range_common(work[own], dest[p])))) continue;
        put_range(s, slot + slot_offset(s, p), is_sum ? work[p] : work[own]);
        is_put = !is_sum || (s->m->is_shared_sum && range_length(work[p])); /* one copy serves all ranks */
    }
    tell(s, &window_flags_of(s->w, s->w->own)->filled, ++s->m->filled);
    return true;
}

/* Adds the own share into the buffer, and copies it to the own slot if another rank needs it. */
static void add_share(const sharer *s, size_t round) {
    engine *e = s->e;
    range own = e->work[s->g->own];
    size_t offset = slot_offset(s, s->g->own);
    bool is_needed = false;
    for (int p = 0; p < s->g->n && !s->m->is_shared_sum; p++)
        is_needed = is_needed || (p != s->g->own && range_length(range_common(own, e->dest[p])));
    ordered_sum sum = {s->c->dtype, s->has_wire ? WEFT_BF16 : s->c->dtype, s->g->n, s->g->own, e->from};
    for (size_t at = 0; at < range_length(own); at += CHUNK) {
        range piece = {own.begin + at, own.end - own.begin - at < CHUNK ? own.end : own.begin + at + CHUNK};
        for (int p = 0; p < s->g->n; p++)
            if (p != s->g->own) e->from[p] = slot_of(s, p, round) + offset + at * s->width;
        ordered_add(&sum, collective_at(s->c, piece.begin), range_length(piece));
        if (is_needed) put_range(s, own_slot(s, round) + offset + at * s->width, piece);
    }
}

/* Stage 2: waits until all members have filled the round. There is nothing to add where data only move. */
static bool add_contributions(const sharer *s) {
    size_t round = s->m->added;
    if (round >= s->m->filled) return false;
    if (collective_is_sum(s->c->kind)) {
        round_ranges(s, round);
        bool has_share = range_length(s->e->work[s->g->own]) > 0;
        for (int p = 0; has_share && p < s->g->n; p++)
            if (p != s->g->own && !has_reached(s, p, &flags_of(s, p)->filled, round)) return false;
        add_share(s, round);
    }
    tell(s, &window_flags_of(s->w, s->w->own)->added, ++s->m->added);
    return true;
}

/* Copies a range of rank p's work out of its slot. */
static void take_range(const sharer *s, int p, size_t round, range r) {
    const char *from = slot_of(s, p, round) + slot_offset(s, p) + (r.begin - s->e->work[p].begin) * s->width;
    if (s->has_wire)
        f32_from_bf16((float *)collective_at(s->c, r.begin), (const uint16_t *)from, range_length(r));
    else
        memcpy(collective_at(s->c, r.begin), from, range_length(r) * s->width);
}

/* Stage 3: the first pass checks that all ranges needed are there, the second copies them. A shared sum is
 * complete already. */
static bool finish_sum(const sharer *s) {
    size_t round = s->m->done;
    bool is_sum = collective_is_sum(s->c->kind);
    if (round >= s->m->added) return false;
    round_ranges(s, round);
    for (int pass = 0; pass < 2 && !s->m->is_shared_sum; pass++)
        for (int p = 0; p < s->g->n; p++) {
            range r = range_common(s->e->work[p], s->e->dest[s->g->own]);
            if (p == s->g->own || !range_length(r)) continue;
            if (pass == 1)
                take_range(s, p, round, r);
            else if (!has_reached(s, p, is_sum ? &flags_of(s, p)->added : &flags_of(s, p)->filled, round))
                return false;
        }
    tell(s, &window_flags_of(s->w, s->w->own)->done, ++s->m->done);
    return true;
}

/* ---- the collective ---- */

void shared_contribute(engine *e, const stream_op *op) {
    sharer s = sharer_of(e, op);
    while (fill_window(&s)) {
    }
}

void shared_begin(engine *e, const stream_op *op) {
    const weft_collective *c = &op->c;
    e->moving = (window_move){.cut = shared_cut(e, op)};
    e->moving.is_shared_sum = (c->kind == WEFT_COLLECTIVE_ALL_REDUCE || c->kind == WEFT_COLLECTIVE_REDUCE) &&
                              c->count * dtype_bytes(c->dtype) <= SHARED_SUM_BYTES;
    shared_contribute(e, op);
}

/* is_ready of engine_until: runs stages, the latest possible first, until the awaited round is done. */
static weft_status is_round_done(engine *e, const stream_op *op, bool *ready, weft_error *error) {
    (void)error;
    sharer s = sharer_of(e, op);
    for (int i = 0; i < STAGES_AT_ONCE; i++)
        if (!finish_sum(&s) && !add_contributions(&s) && !fill_window(&s)) break;
    *ready = e->moving.done >= e->moving.awaited;
    return WEFT_OK;
}

/* Waits round by round, so that the deadline holds for each round. Afterwards the windows' positions move on,
 * also after a failure. */
weft_status shared_collective(engine *e, stream_op *op, weft_error *error) {
    sharer s = sharer_of(e, op);
    window_move *m = &e->moving;
    for (int i = 0; i < s.g->n; i++)
        if (i != s.g->own) e->window_since[place_of(&s, i)] = watch_arrival(op, i)->window_at;
    m->has_met = true;
    weft_status status = WEFT_OK;
    while (!status && m->done < m->cut.rounds) {
        m->awaited = m->done + 1;
        status = engine_until(e, op, is_round_done, error);
    }
    for (int i = 0; i < s.g->n; i++) {
        if (i == s.g->own) continue;
        e->window_since[place_of(&s, i)] += m->cut.rounds;
        e->window_until[place_of(&s, i)] = op->window_at + m->cut.rounds;
    }
    return status;
}
