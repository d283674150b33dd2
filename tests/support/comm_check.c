/* comm_check.c - see comm_check.h. */
#include "support/comm_check.h"

#include "support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

float comm_contribution(uint64_t seed, int rank, size_t i) {
    test_random r = {seed * 1000003u + (uint64_t)rank * 7919u + i * 31u};
    return (float)random_in(&r, -1, 1) * (float)(1 << random_bits(&r) % 20);
}

static float rounded(float x, bool as_bf16) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    if (as_bf16) bits = (bits + 0x7fffu + (bits >> 16 & 1)) & 0xffff0000u;
    memcpy(&x, &bits, sizeof bits);
    return x;
}

/* Ranks [begin, end) split after the largest power of two below their number: another way to say
 * "aligned". */
static float tree(uint64_t seed, int begin, int end, size_t i, bool as_bf16) {
    if (end - begin == 1) return rounded(comm_contribution(seed, begin, i), as_bf16);
    int half = 1;
    while (half * 2 < end - begin) half *= 2;
    return tree(seed, begin, begin + half, i, as_bf16) + tree(seed, begin + half, end, i, as_bf16);
}

float comm_expected(uint64_t seed, int world, size_t i, bool as_bf16) {
    if (world == 1) return comm_contribution(seed, 0, i);
    return rounded(tree(seed, 0, world, i, as_bf16), as_bf16);
}

/* ---- one collective at a time ---- */

typedef struct rank_check {
    weft_comm *comm;
    size_t count;
    uint64_t seed;
    float *buffer;
    size_t *counts;
    char *scratch;
    size_t scratch_bytes;
    uint64_t order;
} rank_check;

static _Thread_local char said[1200];

static const char *say(const rank_check *k, const char *what, const char *why) {
    snprintf(said, sizeof said, "%s of %zu elements on rank %d of %d: %s", what, k->count, k->comm->rank,
             k->comm->world, why);
    return said;
}

static void fill(const rank_check *k) {
    for (size_t i = 0; i < k->count; i++) k->buffer[i] = comm_contribution(k->seed, k->comm->rank, i);
}

static weft_collective collective(rank_check *k, weft_collective_kind kind) {
    return (weft_collective){.kind = kind,
                             .buffer = k->buffer,
                             .count = k->count,
                             .scratch = k->scratch,
                             .scratch_bytes = k->scratch_bytes,
                             .order = ++k->order,
                             .name = "a test"};
}

static const char *run(rank_check *k, const weft_collective *c) {
    weft_error error = {0};
    fill(k);
    if (weft_comm_run(k->comm, c, &error)) return say(k, weft_collective_name(c->kind), error.text);
    return NULL;
}

static const char *sums_are(rank_check *k, const weft_collective *c, size_t begin, size_t end) {
    for (size_t i = begin; i < end; i++) {
        float want = comm_expected(k->seed, k->comm->world, i, c->wire == WEFT_BF16);
        if (memcmp(&k->buffer[i], &want, sizeof want) == 0) continue;
        char why[120];
        snprintf(why, sizeof why, "element %zu is %a, should be %a", i, (double)k->buffer[i], (double)want);
        return say(k, c->wire ? "bf16 sum" : weft_collective_name(c->kind), why);
    }
    return NULL;
}

static const char *check_reduce(rank_check *k, weft_dtype wire, int root) {
    weft_collective c = collective(k, root < 0 ? WEFT_COLLECTIVE_ALL_REDUCE : WEFT_COLLECTIVE_REDUCE);
    c.wire = wire;
    c.root = root < 0 ? 0 : root;
    const char *wrong = run(k, &c);
    if (!wrong && (root < 0 || root == k->comm->rank)) wrong = sums_are(k, &c, 0, k->count);
    return wrong;
}

/* What rank r of a world gets of `count` elements, in one of these shapes. */
enum { EQUAL, DOUBLING, ALL_TO_LAST, ALL_TO_FIRST, ALL_TO_MIDDLE, EVERY_OTHER, SHAPES };
static size_t count_of(int shape, size_t count, int world, int r) {
    size_t begin, end, others = ((size_t)world + 1) / 2;
    weft_comm_range(count, world, r, &begin, &end);
    switch (shape) {
    case EQUAL:
        return end - begin;
    case DOUBLING:
        return count / (size_t)world / 2 * (size_t)(r + 1);
    case ALL_TO_FIRST:
        return r == 0 ? count : 0;
    case ALL_TO_MIDDLE:
        return r == world / 2 ? count : 0;
    case EVERY_OTHER:
        return r % 2 ? 0 : count / others;
    default:
        return 0;
    }
}

/* This rank's range; the last takes what is left. */
static void cut_counts(rank_check *k, int shape, size_t *begin, size_t *end) {
    int world = k->comm->world;
    size_t left = k->count, at = 0;
    for (int r = 0; r < world; r++) {
        size_t n = count_of(shape, k->count, world, r);
        if (r == world - 1 || n > left) n = left;
        k->counts[r] = n;
        if (r == k->comm->rank) *begin = at, *end = at + n;
        at += n;
        left -= n;
    }
}

static const char *check_scatter(rank_check *k, weft_dtype wire, int shape) {
    weft_collective c = collective(k, WEFT_COLLECTIVE_REDUCE_SCATTER);
    size_t begin = 0, end = 0;
    cut_counts(k, shape, &begin, &end);
    c.counts = shape ? k->counts : NULL;
    c.wire = wire;
    const char *wrong = run(k, &c);
    return wrong ? wrong : sums_are(k, &c, begin, end);
}

/* After it, element i is of its owner. */
static const char *check_gather(rank_check *k, int shape) {
    weft_collective c = collective(k, WEFT_COLLECTIVE_ALL_GATHER);
    size_t begin = 0, end = 0, at = 0;
    cut_counts(k, shape, &begin, &end);
    c.counts = shape ? k->counts : NULL;
    const char *wrong = run(k, &c);
    for (int r = 0; !wrong && r < k->comm->world; at += k->counts[r], r++)
        for (size_t i = at; !wrong && i < at + k->counts[r]; i++)
            if (k->buffer[i] != comm_contribution(k->seed, r, i))
                wrong = say(k, "all_gather", "a wrong element");
    return wrong;
}

/* As bytes: any type may travel. */
static const char *check_broadcast(rank_check *k, int root) {
    weft_collective c = collective(k, WEFT_COLLECTIVE_BROADCAST);
    c.root = root;
    c.dtype = WEFT_U8;
    c.count *= sizeof *k->buffer;
    const char *wrong = run(k, &c);
    for (size_t i = 0; !wrong && i < k->count; i++)
        if (k->buffer[i] != comm_contribution(k->seed, root, i))
            wrong = say(k, "broadcast", "a wrong element");
    return wrong;
}

static rank_check check_begin(weft_comm *comm, size_t count, uint64_t seed) {
    rank_check k = {.comm = comm, .count = count, .seed = seed, .order = seed * 100};
    k.scratch_bytes =
        weft_collective_scratch(WEFT_COLLECTIVE_ALL_REDUCE, WEFT_F32, WEFT_F32, count, comm->world);
    size_t narrow =
        weft_collective_scratch(WEFT_COLLECTIVE_ALL_REDUCE, WEFT_F32, WEFT_BF16, count, comm->world);
    if (narrow > k.scratch_bytes) k.scratch_bytes = narrow;
    k.scratch = test_memory(k.scratch_bytes);
    k.buffer = test_memory(count * sizeof *k.buffer);
    k.counts = test_memory((size_t)comm->world * sizeof *k.counts);
    return k;
}

static void check_end(rank_check *k) {
    free(k->scratch);
    free(k->buffer);
    free(k->counts);
}

const char *comm_check_all(weft_comm *comm, size_t count, uint64_t seed) {
    rank_check k = check_begin(comm, count, seed);
    const char *wrong = NULL;
    int shapes = count > 1 << 17 ? ALL_TO_FIRST : SHAPES; /* the plain sums of long ones take their time */
    for (int wire = 0; !wrong && wire < 2; wire++) {
        weft_dtype type = wire ? WEFT_BF16 : WEFT_F32;
        wrong = check_reduce(&k, type, -1);
        if (!wrong) wrong = check_reduce(&k, type, comm->world - 1);
        for (int shape = 0; !wrong && shape < shapes; shape++) wrong = check_scatter(&k, type, shape);
    }
    for (int shape = 0; !wrong && shape < shapes; shape++) wrong = check_gather(&k, shape);
    if (!wrong) wrong = check_broadcast(&k, 0);
    if (!wrong) wrong = check_broadcast(&k, comm->world / 2);
    weft_collective barrier = {.kind = WEFT_COLLECTIVE_BARRIER, .order = ++k.order};
    weft_error error = {0};
    if (!wrong && weft_comm_run(comm, &barrier, &error)) wrong = say(&k, "barrier", error.text);
    check_end(&k);
    return wrong;
}

/* ---- sums in any order: of small whole numbers, so that every order gives the same bits ---- */

static float whole(int rank, size_t i) {
    return (float)((i * 7 + (size_t)rank * 3) % 16);
}

/* A collective whose result is elements [begin, end). */
static const char *check_any_order(rank_check *k, weft_collective c, size_t begin, size_t end) {
    weft_error error = {0};
    c.unordered = true;
    for (size_t i = 0; i < k->count; i++) k->buffer[i] = whole(k->comm->rank, i);
    if (weft_comm_run(k->comm, &c, &error)) return say(k, weft_collective_name(c.kind), error.text);
    for (size_t i = begin; i < end; i++) {
        float want = 0;
        for (int r = 0; r < k->comm->world; r++) want += whole(r, i);
        if (k->buffer[i] != want) return say(k, weft_collective_name(c.kind), "a wrong sum, of any order");
    }
    return NULL;
}

const char *comm_check_unordered(weft_comm *comm, size_t count, uint64_t seed) {
    rank_check k = check_begin(comm, count, seed);
    const char *wrong = NULL;
    for (int wire = 0; !wrong && wire < 2; wire++) {
        weft_collective c = collective(&k, WEFT_COLLECTIVE_ALL_REDUCE);
        c.wire = wire ? WEFT_BF16 : WEFT_F32;
        wrong = check_any_order(&k, c, 0, count);
        c.kind = WEFT_COLLECTIVE_REDUCE;
        c.root = comm->world / 2;
        c.order = ++k.order;
        if (!wrong) wrong = check_any_order(&k, c, 0, c.root == comm->rank ? count : 0);
        c.kind = WEFT_COLLECTIVE_REDUCE_SCATTER;
        c.counts = k.counts;
        for (int shape = 0; !wrong && shape < SHAPES; shape++) {
            size_t begin = 0, end = 0;
            cut_counts(&k, shape, &begin, &end);
            c.order = ++k.order;
            wrong = check_any_order(&k, c, begin, end);
        }
    }
    check_end(&k);
    return wrong;
}

/* ---- groups ---- */

/* All is done in each group by its members at once, the stream in between. */
const char *comm_check_groups(weft_comm *comm, size_t count, uint64_t seed) {
    enum { GROUPS = 4 };
    int last = comm->world - 1;
    int lists[GROUPS][3] = {{last, 0}, {1}, {2, 0, last}, {0, 1}};
    int sizes[GROUPS] = {last > 0 ? 2 : 0, last > 0, last > 2 ? 3 : 0, last > 1 ? 2 : 1};
    weft_comm *groups[GROUPS] = {0};
    const char *wrong = NULL;
    weft_error error = {0};
    rank_check k = {.comm = comm, .count = count};
    for (int g = 0; g < GROUPS && !wrong; g++)
        if (sizes[g] && weft_comm_group(comm, lists[g], sizes[g], &groups[g], &error))
            wrong = say(&k, "a group", error.text);
    for (int round = 0; round < 3 && !wrong; round++) {
        for (int g = 0; g < GROUPS && !wrong; g++) {
            if (groups[g]) wrong = comm_check_all(groups[g], count, seed + (uint64_t)round);
            if (groups[g] && !wrong) wrong = comm_check_unordered(groups[g], count, seed);
        }
        if (!wrong) wrong = comm_check_all(comm, count / 2, seed);
    }
    for (int g = 0; g < GROUPS; g++) weft_comm_free(groups[g]);
    return wrong;
}

/* ---- several under way ---- */

/* Elements [at, at + n) summed; they need scratch of their own, for the next ones start at once. */
static const char *start_part(rank_check *k, size_t at, size_t n, char *scratch, uint64_t *ticket) {
    weft_collective c = collective(k, WEFT_COLLECTIVE_ALL_REDUCE);
    weft_error error = {0};
    c.buffer = k->buffer + at;
    c.count = n;
    c.scratch = scratch;
    return weft_comm_start(k->comm, &c, ticket, &error) ? say(k, "a part", error.text) : NULL;
}

const char *comm_check_cuts(weft_comm *comm, size_t count, uint64_t seed) {
    rank_check k = check_begin(comm, count, seed);
    size_t ends[4] = {count / 7, count / 7 + count / 8, count / 2 + count / 3, count}, at = 0;
    char *scratch[4] = {0};
    uint64_t tickets[4] = {0};
    const char *wrong = NULL;
    weft_error error = {0};
    fill(&k);
    for (int i = 0; i < 4 && !wrong; at = ends[i++]) {
        scratch[i] = test_memory(k.scratch_bytes);
        wrong = start_part(&k, at, ends[i] - at, scratch[i], &tickets[i]);
    }
    bool is_done = false; /* the first by asking, the others by waiting, the last of them first */
    while (!wrong && !is_done)
        if (weft_comm_test(comm, tickets[0], &is_done, &error)) wrong = say(&k, "a part", error.text);
    for (int i = 3; i >= 0 && !wrong; i--)
        if (weft_comm_wait(comm, tickets[i], &error)) wrong = say(&k, "a part", error.text);
    if (!wrong) wrong = sums_are(&k, &(weft_collective){.kind = WEFT_COLLECTIVE_ALL_REDUCE}, 0, count);
    for (int i = 0; i < 4; i++) free(scratch[i]);
    check_end(&k);
    return wrong;
}
