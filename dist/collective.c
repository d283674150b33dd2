/* collective.c - see collective.h. */
#include "dist/collective.h"

#include "graph/type.h"

const char *weft_collective_name(weft_collective_kind kind) {
    switch (kind) {
#define X(name, number, text)                                                                                \
    case WEFT_##name:                                                                                        \
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

/* Elements [at, at + length) of r, as far as it goes. */
static range range_piece(range r, size_t at, size_t length) {
    size_t n = r.end - r.begin;
    if (at > n) at = n;
    return (range){r.begin + at, r.begin + at + (length < n - at ? length : n - at)};
}

bool collective_is_sum(weft_collective_kind kind) {
    return kind == WEFT_ALL_REDUCE || kind == WEFT_REDUCE || kind == WEFT_REDUCE_SCATTER;
}

/* ---- what is accepted ---- */

static weft_status check_counts(const weft_collective *c, int world, weft_error *error) {
    size_t sum = 0;
    for (int r = 0; r < world; r++)
        if (!size_add(&sum, sum, c->counts[r])) sum = SIZE_MAX;
    if (sum == c->count) return WEFT_OK;
    return error_set(error, WEFT_ARGUMENT,
                     "%s: counts of %d ranks add up to %zu elements, the buffer has %zu",
                     weft_collective_name(c->kind), world, sum, c->count);
}

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
        return error_set(error, WEFT_ARGUMENT, "%s: scratch must lie at a multiple of %d bytes", what,
                         MEM_ALIGN);
    return WEFT_OK;
}

weft_status collective_check(const weft_collective *c, int world, weft_error *error) {
    const char *what = weft_collective_name(c->kind);
    if (*what == '?') return error_set(error, WEFT_ARGUMENT, "%d is not a kind of collective", (int)c->kind);
    if (c->kind == WEFT_BARRIER) return WEFT_OK;
    size_t bytes;
    if ((unsigned)c->dtype >= WEFT_DTYPES)
        return error_set(error, WEFT_TYPE, "%s: no such element type", what);
    if (!size_mul(&bytes, c->count, dtype_bytes(c->dtype)) || (c->count && !c->buffer))
        return error_set(error, WEFT_ARGUMENT, "%s: %zu elements, but no buffer that holds them", what,
                         c->count);
    if ((c->kind == WEFT_REDUCE || c->kind == WEFT_BROADCAST) && (c->root < 0 || c->root >= world))
        return error_set(error, WEFT_ARGUMENT, "%s: root %d is not one of %d ranks", what, c->root, world);
    if (c->wire && (c->wire != WEFT_BF16 || c->dtype != WEFT_F32 || !collective_is_sum(c->kind)))
        return error_set(error, WEFT_TYPE,
                         "%s: only sums of f32 can travel as another type, and that is bf16", what);
    if (c->counts && (c->kind == WEFT_REDUCE_SCATTER || c->kind == WEFT_ALL_GATHER)) {
        weft_status status = check_counts(c, world, error);
        if (status) return status;
    }
    return collective_is_sum(c->kind) ? check_sum(c, world, error) : WEFT_OK;
}

/* Others' contributions to a slice, one slot a rank; with a wire type also what is sent, converted. */
size_t weft_collective_scratch(weft_collective_kind kind, weft_dtype dtype, weft_dtype wire, size_t count,
                               int world) {
    if (!collective_is_sum(kind) || world < 2 || count == 0) return 0;
    size_t w = (size_t)world, round = count < ROUND_ELEMENTS ? count : ROUND_ELEMENTS;
    size_t slots = (round / w + 1) * w;
    if (!wire) return size_align(slots * dtype_bytes(dtype), MEM_ALIGN);
    return 2 * size_align(slots * dtype_bytes(wire), MEM_ALIGN);
}

/* ---- rounds ---- */

static size_t largest_count(const weft_collective *c, int world) {
    size_t most = c->count / (size_t)world + (c->count % (size_t)world != 0);
    if (!c->counts) return most;
    most = 0;
    for (int r = 0; r < world; r++)
        if (c->counts[r] > most) most = c->counts[r];
    return most;
}

/* Scattering straight to the owners moves each element once, but an owner of most of the bucket would do all the
 * adding and need all the scratch. Beyond twice the fair share the slices are equal and sums travel once more. */
static bool is_balanced(const weft_collective *c, int world) {
    return largest_count(c, world) / 2 <= c->count / (size_t)world;
}

cut cut_of(const weft_collective *c, int world) {
    cut k = {.c = c, .world = world};
    size_t w = (size_t)world, width = dtype_bytes(c->dtype), span = c->count;
    k.step = collective_is_sum(c->kind) ? ROUND_ELEMENTS : ROUND_MOVE_BYTES / width;
    k.by_range = c->kind == WEFT_ALL_GATHER || (c->kind == WEFT_REDUCE_SCATTER && is_balanced(c, world));
    if (k.by_range) span = largest_count(c, world);
    /* Slots of scratch hold round / world + 1 elements. */
    if (k.by_range && c->kind == WEFT_REDUCE_SCATTER)
        k.step = (c->count < ROUND_ELEMENTS ? c->count : ROUND_ELEMENTS) / w + 1;
    k.is_relayed = c->kind == WEFT_BROADCAST && world > 2 && c->count / w * width >= 16384;
    k.rounds = span / k.step + (span % k.step != 0);
    return k;
}

static void fill_ranges(const cut *k, size_t round, range *work, range *dest) {
    const weft_collective *c = k->c;
    size_t begin = 0;
    for (int r = 0; r < k->world; r++) {
        range own = equal_range(c->count, k->world, r);
        if (c->counts) own = (range){begin, begin + c->counts[r]};
        begin = own.end;
        work[r] = range_piece(own, round * k->step, k->step);
        dest[r] = c->kind == WEFT_ALL_GATHER ? (range){0, c->count} : work[r];
    }
}

static void fill_window(const cut *k, range window, range *work, range *dest) {
    const weft_collective *c = k->c;
    size_t length = window.end - window.begin, begin = 0;
    for (int r = 0; r < k->world; r++) {
        range slice = equal_range(length, k->world, r);
        work[r] = (range){window.begin + slice.begin, window.begin + slice.end};
        if (c->kind == WEFT_BROADCAST && !k->is_relayed) work[r] = r == c->root ? window : (range){0, 0};
        dest[r] = c->kind == WEFT_REDUCE && r != c->root ? (range){0, 0} : window;
        if (c->kind != WEFT_REDUCE_SCATTER) continue;
        range own = equal_range(c->count, k->world, r);
        if (c->counts) own = (range){begin, begin + c->counts[r]};
        begin = own.end;
        dest[r] = range_common(window, own);
    }
}

void cut_round(const cut *k, size_t round, range *work, range *dest) {
    if (k->by_range)
        fill_ranges(k, round, work, dest);
    else
        fill_window(k, range_piece((range){0, k->c->count}, round * k->step, k->step), work, dest);
}
