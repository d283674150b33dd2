/* test_shards.c - how ZeRO cuts buckets: every element has one owner, a chunk of a norm is never cut, greedy
 * gives what torch's ZeroRedundancyOptimizer gives, and all ranks compute the same cut. */
#include "runtime/plan/program.h"
#include "support/test.h"
#include "weft/weft.h"

#include <stdio.h>

enum { PARAMETERS = 9, CHUNK = 4096 };

/* A loss over parameters "net/p0" ... of the given sizes. */
static weft_model *model_of(const int64_t *sizes) {
    weft_model *m = weft_model_new("m");
    weft_graph *g = weft_graph_new(m, "step", WEFT_TRAIN);
    weft_value *loss = weft_constant(g, WEFT_F32, 0, NULL, 0);
    WEFT_SCOPE(loss, "net") {
        for (int i = 0; i < PARAMETERS; i++) {
            char name[16];
            snprintf(name, sizeof name, "p%d", i);
            weft_value *p = weft_parameter(loss, name, 1, &sizes[i], (weft_init){WEFT_INIT_ONES, 0, 0});
            loss = weft_add(loss, weft_sum(weft_square(p), 1, (int64_t[]){0}, false));
        }
    }
    weft_minimize(loss, "net", &(weft_optimizer){.type = "sgd"});
    return m;
}

static weft_plan *plan_of(const weft_model *m, int world, int rank, weft_shard shard, double cap_mb) {
    weft_error e = {0};
    weft_compile_options o = {.world = world,
                              .rank = rank,
                              .zero = 1,
                              .shard = shard,
                              .bucket_cap_mb = cap_mb,
                              .threads = 1,
                              .verify = true};
    weft_plan *plan = weft_compile(m, &o, &e);
    CHECK_SAYS(plan != NULL, "%s", e.text);
    return plan;
}

static void draw_sizes(test_random *r, int64_t *sizes) {
    for (int i = 0; i < PARAMETERS; i++)
        sizes[i] = 1 + (int64_t)(random_bits(r) % (random_bits(r) % 3 ? 40 : 60000));
}

/* Borders are at the start of a member, or whole chunks after it. */
static bool is_chunk_border(const weft_variable *s, int64_t at) {
    if (at == s->type.shape[0]) return true;
    for (int i = s->n_members - 1; i >= 0; i--)
        if (at >= s->members[i]->offset) return (at - s->members[i]->offset) % CHUNK == 0;
    return false;
}

static void check_cover(const weft_plan *plan, int world, bool is_flat) {
    for (const weft_variable *s = plan->model->variables; s; s = s->next) {
        if (s->kind != VARIABLE_BUCKET) continue;
        int64_t at = 0, most = 0;
        for (int r = 0; r < world; r++) {
            CHECK_SAYS(is_chunk_border(s, at), "%s: rank %d begins at %lld", s->path, r, (long long)at);
            at += (int64_t)s->shards[r];
            if ((int64_t)s->shards[r] > most) most = (int64_t)s->shards[r];
        }
        CHECK(at == s->type.shape[0]);
        if (is_flat)
            CHECK_SAYS(most <= s->type.shape[0] / world + CHUNK + 1, "%s: one rank has %lld of %lld", s->path,
                       (long long)most, (long long)s->type.shape[0]);
    }
}

TEST(ranges_cover_every_bucket_and_cut_no_chunk) {
    test_random random = {5};
    for (int i = 0; i < 60; i++) {
        int64_t sizes[PARAMETERS];
        draw_sizes(&random, sizes);
        int world = 2 + (int)(random_bits(&random) % 6), rank = (int)(random_bits(&random) % (uint64_t)world);
        weft_shard shard = i % 2 ? WEFT_SHARD_FLAT : WEFT_SHARD_GREEDY;
        weft_model *m = model_of(sizes);
        weft_plan *plan = plan_of(m, world, rank, shard, i % 3 ? 0.05 : 0);
        if (plan) check_cover(plan, world, shard == WEFT_SHARD_FLAT);
        weft_plan_free(plan);
        weft_model_free(m);
    }
}

/* The largest first, the first of equals, to the first rank with the least. */
static void deal(const int64_t *sizes, int world, int *owner) {
    int64_t load[8] = {0};
    bool done[PARAMETERS] = {0};
    for (int n = 0; n < PARAMETERS; n++) {
        int next = -1, least = 0;
        for (int i = 0; i < PARAMETERS; i++)
            if (!done[i] && (next < 0 || sizes[i] > sizes[next])) next = i;
        for (int r = 1; r < world; r++)
            if (load[r] < load[least]) least = r;
        done[next] = true;
        owner[next] = least;
        load[least] += sizes[next];
    }
}

TEST(greedy_deals_whole_parameters_as_torch_does) {
    test_random random = {6};
    for (int i = 0; i < 40; i++) {
        int64_t sizes[PARAMETERS];
        int owner[PARAMETERS], world = 2 + (int)(random_bits(&random) % 5);
        draw_sizes(&random, sizes);
        deal(sizes, world, owner);
        weft_model *m = model_of(sizes);
        weft_plan *plan = plan_of(m, world, 0, WEFT_SHARD_GREEDY, 0.1);
        for (const weft_variable *s = plan ? plan->model->variables : NULL; s; s = s->next) {
            int64_t begin = 0, r = 0;
            for (int k = 0; s->kind == VARIABLE_BUCKET && k < s->n_members; k++) {
                const weft_variable *p = s->members[k];
                while (begin + (int64_t)s->shards[r] <= p->offset) begin += (int64_t)s->shards[r++];
                CHECK_SAYS(r == owner[p->path[5] - '0'], "%s is rank %lld's, not %d's", p->path, (long long)r,
                           owner[p->path[5] - '0']);
            }
        }
        weft_plan_free(plan);
        weft_model_free(m);
    }
}

TEST(all_ranks_see_one_cut_and_the_same_collectives) {
    int64_t sizes[PARAMETERS] = {50000, 3, 7000, 7000, 16, 9000, 1, 40000, 12};
    weft_model *m = model_of(sizes);
    for (int shard = 0; shard < 2; shard++) {
        uint64_t first = 0;
        for (int rank = 0; rank < 5; rank++) {
            weft_plan *plan = plan_of(m, 5, rank, (weft_shard)shard, 0.1);
            NEED(plan);
            if (!rank) first = plan->fingerprint;
            CHECK_SAYS(plan->fingerprint == first, "rank %d has another plan", rank);
            weft_plan_free(plan);
        }
    }
    weft_model_free(m);
}

SUITE("shards",
      {T(ranges_cover_every_bucket_and_cut_no_chunk), T(greedy_deals_whole_parameters_as_torch_does),
       T(all_ranks_see_one_cut_and_the_same_collectives)})
