/* collective.c - the cut of collectives into rounds, see collective.h, and the checks of their arguments.
 * Each kind is one of three cuts: windows (all_reduce, reduce, broadcast, unbalanced reduce_scatter),
 * ranges (reduce_scatter and all_gather), owners (unbalanced all_gather). */
#include "dist/core/collective.h"

#include "graph/core/type.h"

const char *weft_collective_name(weft_collective_kind kind) {
    switch (kind) {
#define X(name, number, text)                                                                                \
    case WEFT_COLLECTIVE_##name:                                                                             \
        return text;
        WEFT_COLLECTIVE_LIST(X)
#undef X
    }
    return "?";
}

void weft_comm_range(size_t count, int world, int rank, size_t *begin, size_t *end) {
    size_t each = count / (size_t)world, more = count % (size_t)world, r = (size_t)rank;
    *begin = each * r + (r < more ? r : more);
    *end = *begin + each + (r < more);
}

/* The equal cut of weft_comm_range as a range. */
static range equal_range(size_t count, int world, int rank) {
    range r;
    weft_comm_range(count, world, rank, &r.begin, &r.end);
    return r;
}

range range_common(range a, range b) {
    range r = {a.begin > b.begin ? a.begin : b.begin, a.end < b.end ? a.end : b.end};
    if (r.end < r.begin) r.end = r.begin;
    return r;
}

/* Elements [at, at + length) of r, clipped to r. */
static range range_piece(range r, size_t at, size_t length) {
    size_t n = r.end - r.begin;
    if (at > n) at = n;
    return (range){r.begin + at, r.begin + at + (length < n - at ? length : n - at)};
}

bool collective_is_sum(weft_collective_kind kind) {
    return kind == WEFT_COLLECTIVE_ALL_REDUCE || kind == WEFT_COLLECTIVE_REDUCE ||
           kind == WEFT_COLLECTIVE_REDUCE_SCATTER;
}

char *collective_at(const weft_collective *c, size_t element) {
    return (char *)c->buffer + element * dtype_bytes(c->dtype);
}

/* ---- checks of the arguments ---- */

/* `counts` is the caller's list of range lengths; it must cover the buffer exactly. A sum that overflows
 * cannot match. */
static weft_status check_counts(const weft_collective *c, int world, weft_error *error) {
    size_t sum = 0;
    for (int r = 0; r < world; r++)
        if (!size_add(&sum, sum, c->counts[r])) sum = SIZE_MAX;
    if (sum == c->count) return WEFT_OK;
    return error_set(error, WEFT_ARGUMENT,
                     "%s: counts of %d ranks add up to %zu elements, the buffer has %zu",
                     weft_collective_name(c->kind), world, sum, c->count);
}

/* The type of a sum, and its scratch: large enough, and aligned for vector loads. */
static weft_status check_sum(const weft_collective *c, int world, weft_error *error) {
    const char *what = weft_collective_name(c->kind);
    if (c->dtype != WEFT_F32 && c->dtype != WEFT_F64 && c->dtype != WEFT_BF16)
        return error_set(error, WEFT_TYPE, "%s: sums are of f32, f64 or bf16, not %s", what,
                         dtype_name(c->dtype));
    size_t need = weft_collective_scratch(c->kind, c->dtype, c->wire, c->count, world);
    if (need && (!c->scratch || c->scratch_bytes < need))
        return error_set(error, WEFT_ARGUMENT,
                         "%s: %zu elements among %d ranks need %zu bytes of scratch, got %zu", what, c->count,
                         world, need, c->scratch ? c->scratch_bytes : 0);
    if ((uintptr_t)c->scratch % MEM_ALIGN)
        return error_set(error, WEFT_ARGUMENT, "%s: scratch must be aligned to %d bytes", what, MEM_ALIGN);
    return WEFT_OK;
}

/* A barrier has no data, so nothing else of it is read. */
weft_status collective_check(const weft_collective *c, int world, weft_error *error) {
    const char *what = weft_collective_name(c->kind);
    if (*what == '?') return error_set(error, WEFT_ARGUMENT, "%d is not a kind of collective", (int)c->kind);
    if (c->kind == WEFT_COLLECTIVE_BARRIER) return WEFT_OK;
    size_t bytes;
    if ((unsigned)c->dtype >= WEFT_DTYPES)
        return error_set(error, WEFT_TYPE, "%s: no such element type", what);
    if (!size_mul(&bytes, c->count, dtype_bytes(c->dtype)) || (c->count && !c->buffer))
        return error_set(error, WEFT_ARGUMENT, "%s: %zu elements, but no buffer that holds them", what,
                         c->count);
    if ((c->kind == WEFT_COLLECTIVE_REDUCE || c->kind == WEFT_COLLECTIVE_BROADCAST) &&
        (c->root < 0 || c->root >= world))
        return error_set(error, WEFT_ARGUMENT, "%s: root %d is not one of %d ranks", what, c->root, world);
    if (c->wire && (c->wire != WEFT_BF16 || c->dtype != WEFT_F32 || !collective_is_sum(c->kind)))
        return error_set(error, WEFT_TYPE,
                         "%s: only sums of f32 can travel as another type, and that is bf16", what);
    if (c->counts && (c->kind == WEFT_COLLECTIVE_REDUCE_SCATTER || c->kind == WEFT_COLLECTIVE_ALL_GATHER)) {
        weft_status status = check_counts(c, world, error);
        if (status) return status;
    }
    return collective_is_sum(c->kind) ? check_sum(c, world, error) : WEFT_OK;
}

/* A sum needs one slot per rank for the contributions to its own slice. With a reduced wire type it needs
 * as much again for the converted data that it sends. */
size_t weft_collective_scratch(weft_collective_kind kind, weft_dtype dtype, weft_dtype wire, size_t count,
                               int world) {
    if (!collective_is_sum(kind) || world < 2 || count == 0) return 0;
    size_t w = (size_t)world, round = count < ROUND_ELEMENTS ? count : ROUND_ELEMENTS;
    size_t slots = (round / w + 1) * w;
    if (!wire) return size_align(slots * dtype_bytes(dtype), MEM_ALIGN);
    return 2 * size_align(slots * dtype_bytes(wire), MEM_ALIGN);
}

/* ---- rounds ---- */

/* Rank r's range. The caller asks for ranks 0, 1, 2 ... in turn and keeps *begin, 0 at first, between the
 * calls. */
static range next_range(const weft_collective *c, int world, int r, size_t *begin) {
    if (!c->counts) return equal_range(c->count, world, r);
    range own = {*begin, *begin + c->counts[r]};
    *begin = own.end;
    return own;
}

/* Elements of the longest range: it determines the number of rounds when every rank's range advances
 * together. */
static size_t largest_count(const weft_collective *c, int world) {
    size_t most = c->count / (size_t)world + (c->count % (size_t)world != 0);
    if (!c->counts) return most;
    most = 0;
    for (int r = 0; r < world; r++)
        if (c->counts[r] > most) most = c->counts[r];
    return most;
}

/* A rank that owns most of the buffer would do most of the adding with most of the scratch, or send
 * everything to everyone. If a range exceeds twice the fair share, all ranks therefore help: each adds, or
 * forwards, an equal slice, at the price of one more transfer of it. */
static bool is_balanced(const weft_collective *c, int world) {
    return largest_count(c, world) / 2 <= c->count / (size_t)world;
}

/* Forwarding costs one more message per slice; slices under 16 KiB are sent directly. */
static bool pays_to_relay(const weft_collective *c, int world, size_t elements) {
    return world > 2 && elements / (size_t)world * dtype_bytes(c->dtype) >= 16384;
}

/* A slot of scratch holds round / world + 1 elements (weft_collective_scratch). */
cut_room cut_room_of_messages(const weft_collective *c, int world) {
    size_t round = c->count < ROUND_ELEMENTS ? c->count : ROUND_ELEMENTS;
    return (cut_room){.sum = ROUND_ELEMENTS,
                      .range = round / (size_t)world + 1,
                      .move = ROUND_MOVE_BYTES / dtype_bytes(c->dtype),
                      .can_relay = true};
}

/* Balanced ranges are added, or sent, by their owners; unbalanced ones are spread over all ranks. */
static cut_way way_of(const weft_collective *c, int world, const cut_room *room) {
    if (c->kind == WEFT_COLLECTIVE_REDUCE_SCATTER)
        return room->to_owners || is_balanced(c, world) ? CUT_RANGES : CUT_WINDOWS;
    if (c->kind != WEFT_COLLECTIVE_ALL_GATHER) return CUT_WINDOWS;
    bool helps = room->can_relay && !is_balanced(c, world);
    return helps && pays_to_relay(c, world, largest_count(c, world)) ? CUT_OWNERS : CUT_RANGES;
}

static size_t rounds_in(size_t elements, size_t step) {
    return elements / step + (elements % step != 0);
}

cut cut_of(const weft_collective *c, int world, const cut_room *room) {
    cut k = {.c = c, .world = world, .way = way_of(c, world, room), .can_relay = room->can_relay};
    k.step = collective_is_sum(c->kind) ? room->sum : room->move;
    if (k.way == CUT_RANGES && c->kind == WEFT_COLLECTIVE_REDUCE_SCATTER) k.step = room->range;
    if (k.way == CUT_WINDOWS) k.rounds = rounds_in(c->count, k.step);
    if (k.way == CUT_RANGES) k.rounds = rounds_in(largest_count(c, world), k.step);
    for (int r = 0; k.way == CUT_OWNERS && r < world; r++) k.rounds += rounds_in(c->counts[r], k.step);
    return k;
}

/* CUT_RANGES: rank r works on the round's piece of its own range. An all_gather sends it to all; a
 * reduce_scatter keeps it. */
static void fill_ranges(const cut *k, size_t round, range *work, range *dest) {
    const weft_collective *c = k->c;
    size_t begin = 0;
    for (int r = 0; r < k->world; r++) {
        range own = next_range(c, k->world, r, &begin);
        work[r] = range_piece(own, round * k->step, k->step);
        dest[r] = c->kind == WEFT_COLLECTIVE_ALL_GATHER ? (range){0, c->count} : work[r];
    }
}

/* work[r] = equal slice r of the window. */
static void fill_slices(range window, int world, range *work) {
    for (int r = 0; r < world; r++) {
        range slice = equal_range(range_length(window), world, r);
        work[r] = (range){window.begin + slice.begin, window.begin + slice.end};
    }
}

/* CUT_WINDOWS of a sum: each rank adds an equal slice. All ranks need the result (all_reduce), the root
 * alone does (reduce), or each needs the part that overlaps its range (reduce_scatter). */
static void fill_window(const cut *k, range window, range *work, range *dest) {
    const weft_collective *c = k->c;
    size_t begin = 0;
    fill_slices(window, k->world, work);
    for (int r = 0; r < k->world; r++) {
        dest[r] = c->kind == WEFT_COLLECTIVE_REDUCE && r != c->root ? (range){0, 0} : window;
        if (c->kind == WEFT_COLLECTIVE_REDUCE_SCATTER)
            dest[r] = range_common(window, next_range(c, k->world, r, &begin));
    }
}

/* A window travels from `root` to all ranks, directly or forwarded in slices. */
static int fill_from_one(const cut *k, int root, range window, range *work, range *dest) {
    bool is_relayed = k->can_relay && pays_to_relay(k->c, k->world, range_length(window));
    fill_slices(window, k->world, work);
    for (int r = 0; r < k->world; r++) {
        if (!is_relayed) work[r] = r == root ? window : (range){0, 0};
        dest[r] = window;
    }
    return is_relayed ? root : -1;
}

/* CUT_OWNERS: finds the owner of this round and its window. It reads c->counts without a check, because
 * the equal cut is always balanced and never comes here. */
static int fill_owner(const cut *k, size_t round, range *work, range *dest) {
    size_t begin = 0;
    int owner = 0;
    for (;; owner++) {
        size_t rounds = rounds_in(k->c->counts[owner], k->step);
        if (round < rounds) break;
        round -= rounds;
        begin += k->c->counts[owner];
    }
    range whole = {begin, begin + k->c->counts[owner]};
    return fill_from_one(k, owner, range_piece(whole, round * k->step, k->step), work, dest);
}

int cut_round(const cut *k, size_t round, range *work, range *dest) {
    if (k->way == CUT_OWNERS) return fill_owner(k, round, work, dest);
    if (k->way == CUT_RANGES) {
        fill_ranges(k, round, work, dest);
        return -1;
    }
    range window = range_piece((range){0, k->c->count}, round * k->step, k->step);
    if (k->c->kind == WEFT_COLLECTIVE_BROADCAST) return fill_from_one(k, k->c->root, window, work, dest);
    fill_window(k, window, work, dest);
    return -1;
}
