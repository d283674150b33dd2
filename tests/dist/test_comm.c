/* test_comm.c - communicators: every collective against a plain sum, bit for bit, for worlds of 1 to 8
 * threads; the cut does not matter; groups; errors. */
#include "dist/core/collective.h"
#include "support/comm_check.h"
#include "support/comm_world.h"
#include "support/test.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- sums ---- */

static void all_kinds(rank_run *r) {
    keep(r, comm_check_all(r->comm, r->count, 1 + r->count));
    if (!*r->text) keep(r, comm_check_cuts(r->comm, r->count, 2 + r->count));
}

TEST(every_collective_gives_the_bits_of_a_plain_sum_on_every_rank) {
    static const int worlds[] = {1, 2, 3, 4, 5, 8};
    static const size_t counts[] = {0, 1, 2, 7, 8, 1001, 262144};
    rank_run ranks[MOST];
    for (size_t w = 0; w < sizeof worlds / sizeof *worlds; w++)
        for (size_t c = test_is_quick() ? w % 2 : 0; c < sizeof counts / sizeof *counts;
             c += 1 + test_is_quick()) {
            threads_run(worlds[w], 60, counts[c], all_kinds, ranks);
            for (int i = 0; i < worlds[w]; i++) CHECK_SAYS(!*ranks[i].text, "%s", ranks[i].text);
        }
}

/* Slots of a few hundred bytes, so that each is used again and again. */
TEST(through_a_window_the_bits_are_the_same) {
    static const int worlds[] = {2, 3, 4, 8};
    static const size_t counts[] = {0, 1, 7, 1001, 20000};
    rank_run ranks[MOST];
    for (size_t w = 0; w < sizeof worlds / sizeof *worlds; w++)
        for (size_t c = test_is_quick() ? w % 2 : 0; c < sizeof counts / sizeof *counts;
             c += 1 + test_is_quick()) {
            window_run(worlds[w], 8192, 60, counts[c], all_kinds, ranks);
            for (int i = 0; i < worlds[w]; i++) CHECK_SAYS(!*ranks[i].text, "%s", ranks[i].text);
        }
    window_run(3, 1 << 20, 60, 600000, all_kinds, ranks);
    for (int i = 0; i < 3; i++) CHECK_SAYS(!*ranks[i].text, "%s", ranks[i].text);
}

static void any_order(rank_run *r) {
    keep(r, comm_check_unordered(r->comm, r->count, 3));
}

TEST(sums_in_any_order_are_sums) {
    rank_run ranks[MOST];
    for (int world = 1; world <= 4; world++) {
        window_run(world, world % 2 * 4096, 60, 3001, any_order, ranks);
        for (int i = 0; i < world; i++) CHECK_SAYS(!*ranks[i].text, "%s", ranks[i].text);
    }
}

/* More than one round: a sum's is 2 Mi elements. */
TEST(buffers_longer_than_a_round_are_summed_alike) {
    rank_run ranks[MOST];
    threads_run(3, 60, (2 << 20) + 12345, all_kinds, ranks);
    for (int i = 0; i < 3; i++) CHECK_SAYS(!*ranks[i].text, "%s", ranks[i].text);
}

/* Each of two ranks gives what two of four would, added. */
static void sum_of_pairs(rank_run *r) {
    float x[500];
    _Alignas(64) char scratch[4096];
    weft_error error = {0};
    int first = 2 * r->comm->rank;
    for (size_t i = 0; i < 500; i++)
        x[i] = comm_contribution(5, first, i) + comm_contribution(5, first + 1, i);
    weft_collective c = {WEFT_COLLECTIVE_ALL_REDUCE, .buffer = x, .count = 500, .scratch = scratch,
                         .scratch_bytes = sizeof scratch};
    if (weft_comm_run(r->comm, &c, &error)) keep(r, error.text);
    for (size_t i = 0; i < 500; i++)
        if (x[i] != comm_expected(5, 4, i, false)) keep(r, "not the bits of four ranks");
}

TEST(two_ranks_with_two_micro_batches_each_sum_to_the_bits_of_four) {
    rank_run ranks[MOST];
    threads_run(2, 60, 0, sum_of_pairs, ranks);
    for (int i = 0; i < 2; i++) CHECK_SAYS(!*ranks[i].text, "%s", ranks[i].text);
}

static void sum_f64_and_bf16(rank_run *r) {
    enum { N = 5 };
    double wide[N];
    uint16_t narrow[N];
    weft_error error = {0};
    char *scratch = test_memory(4096);
    for (int i = 0; i < N; i++) wide[i] = 1e-17 + i, narrow[i] = 0x3f80; /* 1.0 */
    weft_collective c = {WEFT_COLLECTIVE_ALL_REDUCE, WEFT_F64, .buffer = wide, .count = N, .scratch = scratch,
                         .scratch_bytes = 4096};
    if (weft_comm_run(r->comm, &c, &error)) keep(r, error.text);
    for (int i = 0; i < N; i++)
        if (wide[i] != 3 * (1e-17 + i) && wide[i] != (1e-17 + i) + (1e-17 + i) + (1e-17 + i)) keep(r, "f64");
    c.dtype = WEFT_BF16;
    c.buffer = narrow;
    if (weft_comm_run(r->comm, &c, &error)) keep(r, error.text);
    for (int i = 0; i < N; i++)
        if (narrow[i] != 0x4040) keep(r, "bf16"); /* 3.0 */
    free(scratch);
}

TEST(f64_and_bf16_buffers_are_summed_too) {
    rank_run ranks[MOST];
    threads_run(3, 60, 0, sum_f64_and_bf16, ranks);
    for (int i = 0; i < 3; i++) CHECK_SAYS(!*ranks[i].text, "%s", ranks[i].text);
}

/* ---- what travels ---- */

static size_t length(range r) {
    return r.end - r.begin;
}

/* Elements that each rank gets and sends by messages, the dealing of relayed rounds included. */
static void count_traffic(const weft_collective *c, int world, size_t *received, size_t *sent) {
    range work[MOST], dest[MOST];
    cut_room room = cut_room_of_messages(c, world);
    cut k = cut_of(c, world, &room);
    for (int r = 0; r < world; r++) received[r] = sent[r] = 0;
    for (size_t round = 0; round < k.rounds; round++) {
        int dealer = cut_round(&k, round, work, dest);
        for (int to = 0; to < world; to++) {
            for (int from = 0; from < world; from++) {
                if (from == to) continue;
                size_t n = to == dealer ? 0 : length(range_common(work[from], dest[to]));
                if (c->kind == WEFT_COLLECTIVE_REDUCE_SCATTER || from == dealer) n += length(work[to]);
                received[to] += n;
                sent[from] += n;
            }
        }
    }
}

/* Random counts, half of them zero. */
TEST(a_rank_gets_what_it_needs_once_and_without_a_share_nothing) {
    test_random random = {41};
    size_t counts[MOST], received[MOST], sent[MOST];
    for (int i = 0; i < 2000; i++) {
        int world = 2 + (int)(random_bits(&random) % (MOST - 1));
        weft_collective c = {WEFT_COLLECTIVE_ALL_GATHER, .counts = counts};
        size_t most = 0;
        for (int r = 0; r < world; r++) {
            counts[r] = random_bits(&random) % 2 ? random_bits(&random) % 300000 : 0;
            c.count += counts[r];
            if (counts[r] > most) most = counts[r];
        }
        count_traffic(&c, world, received, sent);
        for (int r = 0; r < world; r++)
            CHECK_SAYS(received[r] == c.count - counts[r], "all_gather %d, rank %d of %d: %zu of %zu", i, r,
                       world, received[r], c.count);
        for (int r = 0; r < world; r++) /* slices below 4096 elements are not passed on */
            CHECK_SAYS(sent[r] <= 2 * c.count + (size_t)(world * world) * 4096,
                       "all_gather %d: rank %d of %d sends %zu of %zu", i, r, world, sent[r], c.count);
        bool is_balanced = most / 2 <= c.count / (size_t)world;
        c.kind = WEFT_COLLECTIVE_REDUCE_SCATTER;
        count_traffic(&c, world, received, sent);
        for (int r = 0; r < world; r++) /* else ranks without a share help to add */
            CHECK_SAYS(!is_balanced || received[r] == counts[r] * (size_t)(world - 1),
                       "reduce_scatter %d, rank %d of %d: %zu for %zu", i, r, world, received[r], counts[r]);
    }
}

/* ---- groups ---- */

static void in_groups(rank_run *r) {
    static const int even[] = {2, 0}, all[] = {0, 1, 2};
    weft_comm *pair = NULL, *three = NULL;
    weft_error error = {0};
    if (weft_comm_group(r->comm, even, 2, &pair, &error)) keep(r, error.text);
    if (weft_comm_group(r->comm, all, 3, &three, &error)) keep(r, error.text);
    if ((pair != NULL) != (r->comm->rank != 1)) keep(r, "who is in the pair?");
    if (pair && (pair->world != 2 || pair->rank != (r->comm->rank == 0))) keep(r, "ranks of the pair");
    for (int i = 0; i < 20 && !*r->text; i++) {
        if (pair) keep(r, comm_check_all(pair, 100, 7));
        if (three) keep(r, comm_check_all(three, 33, 8));
        keep(r, comm_check_all(r->comm, 55, 9));
    }
    weft_comm_free(pair);
    weft_comm_free(three);
}

TEST(groups_share_the_stream_and_keep_their_own_ranks) {
    rank_run ranks[MOST];
    for (int64_t window = 0; window <= 4096; window += 4096) {
        window_run(3, window, 60, 0, in_groups, ranks);
        for (int i = 0; i < 3; i++) CHECK_SAYS(!*ranks[i].text, "%s", ranks[i].text);
    }
}

static void all_in_groups(rank_run *r) {
    keep(r, comm_check_groups(r->comm, r->count, 5));
}

TEST(groups_do_all_that_worlds_do_and_a_group_of_one_moves_nothing) {
    rank_run ranks[MOST];
    for (int world = 1; world <= 4; world++)
        for (int64_t window = 0; window <= 4096; window += 4096) {
            window_run(world, window, 60, 701, all_in_groups, ranks);
            for (int i = 0; i < world; i++) CHECK_SAYS(!*ranks[i].text, "%s", ranks[i].text);
        }
}

/* ---- a slow reader ---- */

enum { ROUNDS = 400, ALONE = 7, TOLD = 600 };

/* Broadcasts the numbers of this round from the root, and checks them; false after an error. */
static bool tell(rank_run *r, weft_comm *group, int round, int which) {
    int32_t x[TOLD];
    weft_error error = {0};
    weft_collective c = {WEFT_COLLECTIVE_BROADCAST, WEFT_I32, .buffer = x, .count = TOLD};
    for (int i = 0; i < TOLD; i++) x[i] = group->rank ? -1 : round * 100 + which + i;
    if (weft_comm_run(group, &c, &error)) keep(r, error.text);
    for (int i = 0; i < TOLD && !*r->text; i++)
        if (x[i] != round * 100 + which + i) keep(r, "what was sent is not what was heard");
    return !*r->text;
}

/* Rank 0 broadcasts to rank 2 and continues with rank 1, reusing all its slots; rank 2 may still be
 * reading. */
static void with_a_slow_reader(rank_run *r) {
    weft_comm *slow = NULL, *fast = NULL;
    weft_error error = {0};
    if (weft_comm_group(r->comm, (int[]){0, 2}, 2, &slow, &error) ||
        weft_comm_group(r->comm, (int[]){0, 1}, 2, &fast, &error))
        keep(r, error.text);
    for (int round = 0; round < ROUNDS && !*r->text; round++) {
        if (slow && !tell(r, slow, round, 0)) break;
        for (int i = 1; fast && i <= ALONE && tell(r, fast, round, i); i++) continue;
    }
    weft_comm_free(slow);
    weft_comm_free(fast);
}

static void *keep_busy(void *until) {
    while (!atomic_load((atomic_bool *)until)) continue;
    return NULL;
}

TEST(a_slow_reader_is_not_overtaken_by_other_groups) {
    enum { BUSY = 3 }; /* threads that take the processor from readers */
    rank_run ranks[MOST];
    atomic_bool is_over = false;
    pthread_t busy[BUSY];
    for (int i = 0; i < BUSY; i++) NEED(pthread_create(&busy[i], NULL, keep_busy, &is_over) == 0);
    window_run(3, 4096, 60, 0, with_a_slow_reader, ranks);
    atomic_store(&is_over, true);
    for (int i = 0; i < BUSY; i++) pthread_join(busy[i], NULL);
    for (int i = 0; i < 3; i++) CHECK_SAYS(!*ranks[i].text, "%s", ranks[i].text);
}

static void different_groups(rank_run *r) {
    weft_comm *g = NULL;
    weft_error error = {0};
    weft_comm_group(r->comm, r->comm->rank ? (const int[]){0, 1} : (const int[]){1, 0}, 2, &g, &error);
    keep(r, error.text);
    weft_comm_free(g);
}

TEST(ranks_that_name_different_groups_are_told) {
    rank_run ranks[MOST];
    threads_run(2, 60, 0, different_groups, ranks);
    CHECK_HOLDS(ranks[0].text, "the name: group of 1 0 on rank 0, group of 0 1 on rank 1");
    CHECK_HOLDS(ranks[1].text, "the name: group of 0 1 on rank 1, group of 1 0 on rank 0");
}

/* ---- events ---- */

typedef struct seen {
    int events;
    uint64_t last_finished_ns;
    bool is_in_order;
} seen;

static void see(void *context, const weft_comm_event *e) {
    seen *s = context;
    s->is_in_order = s->is_in_order && s->last_finished_ns <= e->began_ns && e->started_ns <= e->began_ns &&
                     e->began_ns <= e->met_ns && e->met_ns <= e->finished_ns &&
                     e->collective->order == (uint64_t)s->events + 1 && strcmp(e->group_name, "world") == 0;
    s->last_finished_ns = e->finished_ns;
    s->events++;
}

TEST(events_tell_when_each_collective_began_met_and_finished) {
    weft_comm *comms[1] = {0};
    weft_error error = {0};
    seen s = {.is_in_order = true};
    uint64_t ticket = 0;
    NEED(weft_comm_threads(1, &(weft_comm_options){.event = see, .event_context = &s}, comms, &error) ==
         WEFT_OK);
    for (uint64_t i = 1; i <= 1000; i++) /* more than the queue holds */
        CHECK(weft_comm_start(comms[0], &(weft_collective){.order = i}, &ticket, &error) == WEFT_OK);
    weft_comm_free(comms[0]); /* finishes what is under way */
    CHECK_SAYS(s.events == 1000 && s.is_in_order, "%d events", s.events);
}

/* ---- what is refused ---- */

TEST(collectives_that_make_no_sense_are_refused_before_they_start) {
    weft_error e = {0};
    weft_comm *c = weft_comm_self(NULL, &e);
    float x[2];
    uint64_t t;
    NEED(c != NULL);
    CHECK(weft_comm_start(c, &(weft_collective){.kind = 99}, &t, &e) == WEFT_ARGUMENT);
    CHECK(weft_comm_start(c, &(weft_collective){WEFT_COLLECTIVE_ALL_REDUCE, .count = 2}, &t, &e) ==
          WEFT_ARGUMENT);
    CHECK(weft_comm_start(c,
                          &(weft_collective){WEFT_COLLECTIVE_ALL_REDUCE, WEFT_I32, .buffer = x, .count = 2},
                          &t, &e) == WEFT_TYPE);
    CHECK_HOLDS(e.text, "sums are of f32, f64 or bf16, not i32");
    CHECK(weft_comm_start(c,
                          &(weft_collective){WEFT_COLLECTIVE_BROADCAST, .buffer = x, .count = 2, .root = 1},
                          &t, &e) == WEFT_ARGUMENT);
    CHECK(weft_comm_start(
              c, &(weft_collective){WEFT_COLLECTIVE_BROADCAST, .wire = WEFT_BF16, .buffer = x, .count = 2},
              &t, &e) == WEFT_TYPE);
    CHECK(weft_comm_start(c,
                          &(weft_collective){WEFT_COLLECTIVE_ALL_GATHER, .buffer = x, .count = 2,
                                             .counts = (size_t[]){3}},
                          &t, &e) == WEFT_ARGUMENT);
    CHECK_HOLDS(e.text, "counts of 1 ranks add up to 3 elements, the buffer has 2");
    CHECK(weft_comm_group(c, (int[]){1}, 1, &(weft_comm *){0}, &e) == WEFT_ARGUMENT);
    CHECK(weft_collective_scratch(WEFT_COLLECTIVE_ALL_REDUCE, WEFT_F32, WEFT_F32, (size_t)1 << 40, 4096) <
          10 << 20);
    weft_comm_free(c);
    CHECK(weft_comm_threads(0, NULL, &c, &e) == WEFT_ARGUMENT);
}

/* ---- memory that runs out ---- */

/* Used by several threads at once, so counted atomically. */
typedef struct counted {
    atomic_long calls, live, fail; /* the call that fails */
} counted;

static void *counted_alloc(void *context, size_t bytes, size_t alignment) {
    counted *c = context;
    if (atomic_fetch_add(&c->calls, 1) + 1 == c->fail) return NULL;
    atomic_fetch_add(&c->live, 1);
    return aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
}

static void counted_free(void *context, void *memory, size_t bytes) {
    (void)bytes;
    atomic_fetch_sub(&((counted *)context)->live, 1);
    free(memory);
}

TEST(times_that_are_none_are_refused) {
    static const double bad[] = {-1, 2e9, 0.0 / 0.0};
    for (int i = 0; i < 3; i++) {
        weft_comm *comms[2] = {0};
        weft_error error = {0};
        const weft_comm_options deadline = {.deadline_seconds = bad[i]}, nap = {.nap_seconds = bad[i]};
        CHECK(weft_comm_threads(2, &deadline, comms, &error) == WEFT_ARGUMENT);
        CHECK_HOLDS(error.text, "deadline_seconds=");
        CHECK(!weft_comm_self(&nap, &error) && error.status == WEFT_ARGUMENT);
        CHECK_HOLDS(error.text, "nap_seconds=");
    }
}

TEST(a_world_that_cannot_have_its_memory_fails_cleanly) {
    counted count = {0};
    weft_allocator allocator = {counted_alloc, counted_free, &count};
    weft_env env = {.allocator = &allocator};
    for (long n = 1; n < 200; n++) {
        weft_comm *comms[2] = {0};
        weft_error error = {0};
        atomic_store(&count.calls, 0);
        atomic_store(&count.fail, n);
        weft_status status =
            weft_comm_threads(2, &(weft_comm_options){.env = &env, .window_bytes = 4096}, comms, &error);
        CHECK_SAYS(status == WEFT_OK ? n > atomic_load(&count.calls) : error.status == WEFT_MEMORY,
                   "allocation %ld: %s", n, error.text);
        for (int i = 0; i < 2; i++) weft_comm_free(comms[i]);
        CHECK_SAYS(atomic_load(&count.live) == 0, "allocation %ld: %ld pieces are left", n,
                   atomic_load(&count.live));
        if (status == WEFT_OK) return;
    }
    CHECK(false);
}

SUITE("communicators",
      {T(every_collective_gives_the_bits_of_a_plain_sum_on_every_rank),
       T(through_a_window_the_bits_are_the_same), T(sums_in_any_order_are_sums),
       T(buffers_longer_than_a_round_are_summed_alike),
       T(two_ranks_with_two_micro_batches_each_sum_to_the_bits_of_four),
       T(f64_and_bf16_buffers_are_summed_too), T(groups_share_the_stream_and_keep_their_own_ranks),
       T(a_rank_gets_what_it_needs_once_and_without_a_share_nothing),
       T(groups_do_all_that_worlds_do_and_a_group_of_one_moves_nothing),
       T(a_slow_reader_is_not_overtaken_by_other_groups), T(ranks_that_name_different_groups_are_told),
       T(events_tell_when_each_collective_began_met_and_finished),
       T(collectives_that_make_no_sense_are_refused_before_they_start), T(times_that_are_none_are_refused),
       T(a_world_that_cannot_have_its_memory_fails_cleanly)})
