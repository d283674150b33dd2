/* test_worlds_groups.c - process groups, data on the wire, and state in one world: ranks of a group train as
 * a world of their own; bf16 on the wire and unordered sums keep ranks equal; statistics over ranks do not
 * depend on how other data are sent. Ranks are threads. */
#include "examples/zoo.h"
#include "support/world.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { ROWS = 6, WIDE = 12, STEPS = 10, LONG = 20 };

/* ---- models: nothing is random, as draws are numbered over the whole world ---- */

static weft_value *layer(weft_value *x, int64_t out, const char *scope) {
    WEFT_SCOPE(x, scope)
    x = weft_tanh(weft_linear(weft_tanh(weft_linear(x, 40, "fc1", NULL)), out, "fc2", NULL));
    return x;
}

/* Subgraphs a and b. */
static weft_model *two_layers(const weft_optimizer *o) {
    weft_model *m = weft_model_new("m");
    weft_graph *g = weft_graph_new(m, "step", WEFT_TRAIN);
    weft_value *x = weft_input(g, "x", WEFT_F32, 2, (int64_t[]){ROWS, WIDE});
    weft_value *y = weft_input(g, "y", WEFT_U8, 1, (int64_t[]){ROWS});
    weft_value *loss = weft_cross_entropy(layer(layer(x, 8, "a"), 4, "b"), y, NULL);
    weft_minimize(loss, "", o);
    weft_output(loss, "loss");
    return m;
}

static const weft_optimizer adam = {.type = "adam", .lr = 1e-2},
                            clipped = {.type = "adamw", .lr = 1e-2, .clip_norm = 0.05},
                            sgd = {.type = "sgd", .lr = 0.1, .momentum = 0.9};

/* `seed` of rank 0's store. */
static world_rank *train(const weft_model *m, const weft_compile_options *o, int seed, int64_t first,
                         int64_t (*number)(const world_rank *r, int64_t step, int micro)) {
    world_job job = {.model = m, .options = *o, .steps = STEPS, .classes = 4, .number = number};
    job.seed = (uint64_t)seed;
    job.first = first;
    return world_run(&job);
}

/* ---- groups of two in a world of four; a group starts with the values of its first rank, whose seed
 * identifies it ---- */

enum { OTHERS = 1000 }; /* the second group's micro-batches begin here */

static int64_t number_in(const world_rank *r, int group, int place, int64_t step, int micro) {
    int a = r->job->options.accumulate > 1 ? r->job->options.accumulate : 1;
    return group * OTHERS + (step * 2 + place) * a + micro;
}

static int64_t neighbours(const world_rank *r, int64_t step, int micro) {
    return number_in(r, r->rank / 2, r->rank % 2, step, micro);
}

static int64_t alternate(const world_rank *r, int64_t step, int micro) {
    return number_in(r, r->rank % 2, r->rank / 2, step, micro);
}

/* The ranks of group g are first[g] and second[g] of the four. */
static void check_pairs(const char *groups, const weft_optimizer *o, const weft_compile_options *options,
                        const int first[2], const int second[2],
                        int64_t (*number)(const world_rank *r, int64_t step, int micro)) {
    char where[300];
    weft_model *whole = two_layers(o), *part = two_layers(o);
    weft_compile_options four = *options, two = *options;
    four.world = 4, two.world = 2;
    CHECK(weft_model_set_ddp(whole, "", &(weft_ddp_options){.process_group = groups}) == WEFT_OK);
    CHECK(weft_model_set_ddp(part, "", NULL) == WEFT_OK);
    world_rank *grouped = train(whole, &four, 0, 0, number);
    for (int g = 0; g < 2; g++) {
        world_rank *pair = train(part, &two, first[g], g * OTHERS, NULL);
        const int ranks[2] = {first[g], second[g]};
        for (int i = 0; i < 2; i++) /* each rank holds what its place in the pair holds */
            CHECK_SAYS(world_agrees(&pair[0], &grouped[ranks[i]], world_parameters, where) &&
                           (options->zero || world_agrees(&pair[i], &grouped[ranks[i]], world_all, where)),
                       "%s, %s, zero %d: rank %d has other bits than a world of two: %s", groups, o->type,
                       options->zero, ranks[i], where);
        world_free(pair);
    }
    CHECK(!world_agrees(&grouped[first[0]], &grouped[first[1]], world_parameters, where));
    world_free(grouped);
    weft_model_free(whole);
    weft_model_free(part);
}

TEST(ranks_of_a_group_train_as_a_world_of_their_own) {
    static const weft_compile_options options[] = {{0},
                                                   {.zero = 1, .bucket_cap_mb = 1e-5},
                                                   {.zero = 2, .shard = WEFT_SHARD_FLAT},
                                                   {.zero = 2, .accumulate = 2},
                                                   {.accumulate = 2, .serial = true}};
    static const weft_optimizer *const optimizers[] = {&adam, &clipped, &sgd};
    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        for (size_t k = 0; k < 3; k++) {
            check_pairs("0-1;2-3", optimizers[k], &options[i], (int[]){0, 2}, (int[]){1, 3}, neighbours);
            check_pairs("0,2;1,3", optimizers[k], &options[i], (int[]){0, 1}, (int[]){2, 3}, alternate);
        }
}

/* ---- ranks that are alone, or three of four ---- */

static int64_t three_of_four(const world_rank *r, int64_t step, int micro) {
    (void)micro;
    return r->rank < 3 ? step * 3 + r->rank : OTHERS + step;
}

static double apart(const world_rank *a, const world_rank *b) {
    double most = 0;
    for (int i = 0; i < a->n_parts; i++) {
        const world_part *p = &a->parts[i], *q = world_find(b, p->path);
        if (!world_parameters(p->path) || !CHECK(q != NULL)) continue;
        for (int64_t k = 0; k < p->elements; k++)
            most = fmax(most, fabs((double)((float *)p->data)[k] - (double)((float *)q->data)[k]));
    }
    return most;
}

TEST(a_rank_that_no_group_names_is_alone) {
    char where[300];
    for (int zero = 0; zero < 3; zero++) {
        weft_model *whole = two_layers(&sgd), *part = two_layers(&sgd);
        weft_model_set_ddp(whole, "", &(weft_ddp_options){.process_group = "0-2", .zero = zero});
        weft_model_set_ddp(part, "", &(weft_ddp_options){.zero = zero});
        world_rank *four =
            train(whole, &(weft_compile_options){.world = 4, .verify = true}, 0, 0, three_of_four);
        world_rank *three = train(part, &(weft_compile_options){.world = 3}, 0, 0, NULL);
        world_rank *one = train(part, &(weft_compile_options){.world = 1}, 3, OTHERS, NULL);
        for (int i = 0; i < 3; i++) {
            CHECK_SAYS(world_agrees(&four[0], &four[i], world_parameters, where), "rank %d: %s", i, where);
            /* a fourth of a sum, times 4 / 3, is a third of it except for rounding */
            CHECK_SAYS(apart(&three[i], &four[i]) < 1e-5, "%g apart", apart(&three[i], &four[i]));
        }
        CHECK_SAYS(world_agrees(&one[0], &four[3], world_all, where), "zero %d, alone: %s", zero, where);
        CHECK(apart(&one[0], &four[0]) > 1e-3);
        world_free(four);
        world_free(three);
        world_free(one);
        weft_model_free(whole);
        weft_model_free(part);
    }
}

static bool in_a(const char *path) {
    return strncmp(path, "a/", 2) == 0;
}

static bool in_b(const char *path) {
    return strncmp(path, "b/", 2) == 0;
}

TEST(each_subgraph_may_have_groups_of_its_own) {
    char where[300];
    for (int zero = 0; zero < 3; zero++) {
        weft_model *m = two_layers(&adam);
        weft_model_set_ddp(m, "a", &(weft_ddp_options){.process_group = "0-1;2-3", .zero = zero});
        weft_model_set_ddp(m, "b", &(weft_ddp_options){.process_group = "0,2;1,3", .zero = zero});
        world_rank *r = train(m, &(weft_compile_options){.world = 4, .verify = true}, 0, 0, NULL);
        CHECK_SAYS(world_agrees(&r[0], &r[1], in_a, where) && world_agrees(&r[2], &r[3], in_a, where), "%s",
                   where);
        CHECK_SAYS(world_agrees(&r[0], &r[2], in_b, where) && world_agrees(&r[1], &r[3], in_b, where), "%s",
                   where);
        CHECK(!world_agrees(&r[0], &r[2], in_a, where) && !world_agrees(&r[0], &r[1], in_b, where));
        world_free(r);
        weft_model_free(m);
    }
}

TEST(one_norm_over_different_groups_is_refused) {
    static const struct {
        const char *a, *b;
        bool is_fine;
    } cases[] = {{"0-1;2-3", "0,2;1,3", false}, {NULL, "0-2", false},     {"0-3", NULL, true},
                 {"1,0;3,2", "0-1;2-3", true},  {"0-1", "1,0;2;3", true}, {"0-1", "0-1;2-3", false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int rank = 0; rank < 4; rank++) { /* all of them agree on it */
            weft_error error = {0};
            weft_model *m = two_layers(&clipped);
            weft_model_set_ddp(m, "a", &(weft_ddp_options){.process_group = cases[i].a});
            weft_model_set_ddp(m, "b", &(weft_ddp_options){.process_group = cases[i].b});
            weft_plan *plan = weft_compile(m, &(weft_compile_options){.world = 4, .rank = rank}, &error);
            CHECK_SAYS((plan != NULL) == cases[i].is_fine, "case %zu: %s", i, error.text);
            if (!plan) CHECK_HOLDS(error.text, "graph step clips the gradients of a and b by one norm");
            weft_plan_free(plan);
            weft_model_free(m);
        }
}

/* ---- what travels ---- */

static weft_model *narrow_mlp(const weft_ddp_options *ddp) {
    weft_model *m = weft_model_new("mlp");
    weft_model_set_batch(m, 8);
    zoo_models[0].build(m, &(zoo_options){.narrow = 16});
    weft_model_set_ddp(m, "", ddp);
    return m;
}

/* The mean of the last losses of all ranks. */
static double last_loss(const world_rank *ranks, int n) {
    double sum = 0;
    for (int i = 0; i < n; i++)
        for (int k = ranks[i].n_losses - 4; k < ranks[i].n_losses; k++) sum += (double)ranks[i].losses[k] / 4;
    return sum / n;
}

/* The five micro-batches of a model that learns them. */
static int64_t few(const world_rank *r, int64_t step, int micro) {
    return (step * r->job->options.world + r->rank + micro) % 5;
}

static void check_close(const char *what, const weft_ddp_options *ddp, weft_compile_options options) {
    char where[300];
    weft_model *exact = narrow_mlp(&(weft_ddp_options){.zero = ddp->zero, .shard = ddp->shard});
    weft_model *other = narrow_mlp(ddp);
    options.world = 3;
    world_job job = {.model = other, .options = options, .steps = LONG, .number = few}, plain = job;
    plain.model = exact;
    plain.options.reduce = WEFT_REDUCE_ORDERED;
    world_rank *a = world_run(&plain), *b = world_run(&job);
    double want = last_loss(a, 3), got = last_loss(b, 3);
    CHECK_SAYS(fabs(got - want) < 0.02 * want, "%s: loss %g, in f32 %g", what, got, want);
    CHECK_SAYS(want < 0.98 * (double)a[0].losses[0], "%s: loss %g at first, %g at last", what,
               (double)a[0].losses[0], want);
    for (int i = 1; i < 3; i++)
        CHECK_SAYS(world_agrees(&b[0], &b[i], world_parameters, where), "%s: rank %d: %s", what, i, where);
    if (ddp->wire) CHECK(!world_agrees(&a[0], &b[0], world_parameters, where));
    world_free(a);
    world_free(b);
    weft_model_free(exact);
    weft_model_free(other);
}

TEST(gradients_may_travel_as_bf16) {
    for (int zero = 0; zero < 3; zero++) {
        weft_ddp_options bf16 = {.wire = WEFT_BF16, .zero = zero, .shard = zero ? WEFT_SHARD_FLAT : 0};
        check_close("bf16", &bf16, (weft_compile_options){.bucket_cap_mb = 0.1});
        check_close("bf16, accumulated", &bf16, (weft_compile_options){.accumulate = 2});
    }
}

TEST(sums_in_any_order_keep_ranks_alike) {
    for (int zero = 0; zero < 3; zero++)
        check_close("fast", &(weft_ddp_options){.zero = zero},
                    (weft_compile_options){.bucket_cap_mb = 0.1, .reduce = WEFT_REDUCE_FAST});
}

/* ---- state, at one world: nothing of it depends on stage, cap and overlap ---- */

static void check_state(const weft_ddp_options *ddp) {
    static const weft_compile_options others[] = {
        {.zero = 0, .bucket_cap_mb = 1e-5, .serial = true},           {.zero = 1, .bucket_cap_mb = 0.02},
        {.zero = 1, .shard = WEFT_SHARD_FLAT, .serial = true},        {.zero = 2, .bucket_cap_mb = 1e-5},
        {.zero = 2, .shard = WEFT_SHARD_FLAT, .bucket_cap_mb = 0.02},
    };
    for (int accumulate = 1; accumulate < 3; accumulate++) {
        weft_model *m = weft_model_new("convnet");
        weft_model_set_batch(m, 3);
        zoo_models[1].build(m, &(zoo_options){.narrow = 8, .schedule_steps = 20});
        CHECK_SAYS(weft_model_set_ddp(m, "", ddp) == WEFT_OK, "%s", weft_model_error(m)->text);
        weft_compile_options o = {.world = 2, .accumulate = accumulate};
        world_rank *plain = train(m, &o, 0, 0, NULL);
        for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
            char where[300];
            o = others[i];
            o.world = 2, o.accumulate = accumulate, o.verify = true;
            world_rank *other = train(m, &o, 0, 0, NULL);
            for (int r = 0; r < 2; r++)
                CHECK_SAYS(world_agrees(&plain[r], &other[r], world_all, where),
                           "sync %d, case %zu, rank %d of 2 differs in %s", ddp->sync_batch_norm, i, r,
                           where);
            world_free(other);
        }
        world_free(plain);
        weft_model_free(m);
    }
}

TEST(statistics_over_ranks_have_the_same_bits_however_gradients_are_sent) {
    check_state(&(weft_ddp_options){.sync_batch_norm = true});
}

TEST(broadcast_statistics_have_the_same_bits_however_gradients_are_sent) {
    check_state(&(weft_ddp_options){.broadcast_buffers = true});
}

SUITE("groups of worlds",
      {T(ranks_of_a_group_train_as_a_world_of_their_own), T(a_rank_that_no_group_names_is_alone),
       T(each_subgraph_may_have_groups_of_its_own), T(one_norm_over_different_groups_is_refused),
       T(gradients_may_travel_as_bf16), T(sums_in_any_order_keep_ranks_alike),
       T(statistics_over_ranks_have_the_same_bits_however_gradients_are_sent),
       T(broadcast_statistics_have_the_same_bits_however_gradients_are_sent)})
