/* test_averages.c - averages of parameters: PyTorch's, in any world, and in the place of parameters for
 * whatever reads these. */
#include "support/world.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- against PyTorch ---- */

/* What make_averages.py evaluates, the average's decay, and the optimizer. */
/* clang-format off */
#define ROWS(X) \
    X("torch.optim.SGD(p, lr=0.05, momentum=0.9)", 0.9, {.type = "sgd", .lr = 0.05, .momentum = 0.9, .ema = 0.9}) \
    X("torch.optim.AdamW(p, lr=0.1)", 0.5, {.type = "adamw", .lr = 0.1, .ema = 0.5}) \
    X("torch.optim.RMSprop(p, lr=0.02)", 0.99, {.type = "rmsprop", .lr = 0.02, .ema = 0.99})
/* clang-format on */

enum { N = 5, STEPS = 6, PARAMETER = 0, AVERAGE = 1 };
static const float golden[][2][N] = {
#include "golden/averages.h"
};
static const weft_optimizer rows[] = {
#define X(torch, ema, ...) __VA_ARGS__,
    ROWS(X)
#undef X
};
enum { N_ROWS = sizeof rows / sizeof *rows };

/* Graph "train" trains a and b; "sum" evaluates, "clip" assigns to a. */
static weft_model *pair(const weft_optimizer *o) {
    weft_init half = {WEFT_INIT_CONSTANT, 0.5, 0};
    weft_model *m = weft_model_new("pair");
    weft_graph *g = weft_graph_new(m, "train", WEFT_TRAIN);
    weft_value *x = weft_input(g, "x", WEFT_F32, WEFT_SHAPE(N));
    weft_value *a = weft_parameter(x, "a", WEFT_SHAPE(N), half),
               *b = weft_parameter(x, "b", WEFT_SHAPE(N), half);
    weft_value *of_a = weft_sum(weft_square(weft_sub(a, x)), 0, NULL, false);
    weft_minimize(weft_add(of_a, weft_sum(weft_square(weft_sub(b, x)), 0, NULL, false)), NULL, o);
    g = weft_graph_new(m, "sum", WEFT_EVAL);
    weft_output(weft_sum(weft_value_of(g, "a"), 0, NULL, false), "sum");
    g = weft_graph_new(m, "clip", WEFT_EVAL);
    weft_assign(weft_value_of(g, "a"), weft_clamp(weft_value_of(g, "a"), -0.1, 0.1));
    CHECK_SAYS(!weft_model_error(m)->status, "%s", weft_model_error(m)->text);
    return m;
}

typedef struct kit {
    weft_model *m;
    weft_plan *plan;
    weft_store *store;
    weft_session *s;
    weft_error e;
} kit;

static kit kit_open(const weft_optimizer *o) {
    kit k = {.m = pair(o)};
    k.plan = weft_compile(k.m, &(weft_compile_options){.verify = true}, &k.e);
    k.store = k.plan ? weft_store_new(k.plan, 1, &k.e) : NULL;
    k.s = k.store ? weft_session_open(k.plan, k.store, &k.e) : NULL;
    CHECK_SAYS(k.s != NULL, "%s", k.e.text);
    return k;
}

static void kit_close(kit *k) {
    weft_session_close(k->s);
    weft_store_free(k->store);
    weft_plan_free(k->plan);
    weft_model_free(k->m);
}

static weft_status kit_step(kit *k, int step) {
    float x[N];
    for (int i = 0; i < N; i++) x[i] = (float)((step * 3 + i * 5) % 7) / 3 - 1;
    return weft_run(k->s, "train", (weft_feed[]){{"x", x, sizeof x}}, 1, NULL, 0, &k->e);
}

static void check_a(kit *k, const float want[N], const char *what) {
    float got[N];
    CHECK_SAYS(!weft_store_get(k->store, "a", got, sizeof got, &k->e), "%s", k->e.text);
    for (int i = 0; i < N; i++)
        CHECK_SAYS(fabsf(got[i] - want[i]) <= 2e-6f, "%s: element %d is %.9g, not %.9g", what, i,
                   (double)got[i], (double)want[i]);
}

static void check_sum(kit *k, const float of[N]) {
    float sum = 0, got = NAN;
    for (int i = 0; i < N; i++) sum += of[i];
    CHECK_SAYS(!weft_run(k->s, "sum", NULL, 0, &(weft_fetch){"sum", &got, sizeof got}, 1, &k->e), "%s",
               k->e.text);
    CHECK_SAYS(fabsf(got - sum) <= 1e-5f, "the graph sums %.9g, not %.9g", (double)got, (double)sum);
}

TEST(averages_are_those_of_pytorch_and_come_and_go_to_the_bit) {
    for (int r = 0; r < N_ROWS; r++) {
        float before[N], after[N];
        kit k = kit_open(&rows[r]);
        /* before the first step averages are the parameters */
        CHECK_SAYS(!weft_use_averages(k.s, true, &k.e), "%s", k.e.text);
        check_a(&k, (float[]){0.5f, 0.5f, 0.5f, 0.5f, 0.5f}, "at first");
        CHECK(!weft_use_averages(k.s, false, &k.e));
        for (int step = 0; step < STEPS; step++) CHECK_SAYS(!kit_step(&k, step), "%s", k.e.text);
        CHECK(!weft_store_get(k.store, "a", before, sizeof before, &k.e));
        check_a(&k, golden[r][PARAMETER], "parameter");
        for (int twice = 0; twice < 2; twice++) {
            CHECK_SAYS(!weft_use_averages(k.s, true, &k.e), "%s", k.e.text);
            check_a(&k, golden[r][AVERAGE], "average");
            check_sum(&k, golden[r][AVERAGE]);
        }
        for (int twice = 0; twice < 2; twice++)
            CHECK_SAYS(!weft_use_averages(k.s, false, &k.e), "%s", k.e.text);
        CHECK(!weft_store_get(k.store, "a", after, sizeof after, &k.e));
        CHECK(memcmp(before, after, sizeof before) == 0);
        check_sum(&k, golden[r][PARAMETER]);
        kit_close(&k);
    }
}

TEST(averages_are_read_and_never_trained) {
    char path[] = "/tmp/weft_averages_XXXXXX";
    int file = mkstemp(path);
    if (CHECK(file >= 0)) close(file);
    kit k = kit_open(&rows[0]), plain = kit_open(&(weft_optimizer){.type = "sgd"});
    for (int step = 0; step < STEPS; step++) kit_step(&k, step);
    CHECK(weft_use_averages(plain.s, true, &plain.e) == WEFT_NAME);
    CHECK_HOLDS(plain.e.text, "set weft_optimizer.ema");
    CHECK(weft_use_averages(NULL, true, &k.e) == WEFT_ARGUMENT);
    CHECK(!weft_use_averages(k.s, true, &k.e));
    CHECK(kit_step(&k, 0) == WEFT_ORDER);
    CHECK_HOLDS(k.e.text, "train: averages are in the place of parameters: call weft_use_averages");
    CHECK(weft_run(k.s, "clip", NULL, 0, NULL, 0, &k.e) == WEFT_ORDER);
    CHECK(weft_weights_save(k.store, path, true, &k.e) == WEFT_ORDER);
    CHECK(weft_session_save(k.s, path, true, &k.e) == WEFT_ORDER);
    /* a file for inference holds averages */
    CHECK_SAYS(!weft_weights_save(k.store, path, false, &k.e), "%s", k.e.text);
    CHECK(weft_weights_load(k.store, path, &k.e) == WEFT_ORDER);
    CHECK_SAYS(!weft_weights_load(plain.store, path, &plain.e), "%s", plain.e.text);
    check_a(&plain, golden[0][AVERAGE], "of the file");
    CHECK(!weft_use_averages(k.s, false, &k.e));
    CHECK(kit_step(&k, 0) == WEFT_OK);
    unlink(path);
    kit_close(&k);
    kit_close(&plain);
}

/* ---- where an average begins ---- */

/* Graphs "a" and "b" train the parameter of their name by one optimizer: each run moves it by -0.1. */
static kit kit_shared(double ema) {
    static const char *const names[] = {"a", "b"};
    kit k = {.m = weft_model_new("shared")};
    for (int i = 0; i < 2; i++) {
        weft_graph *g = weft_graph_new(k.m, names[i], WEFT_TRAIN);
        weft_value *x = weft_input(g, "x", WEFT_F32, WEFT_SHAPE(N));
        weft_value *p = weft_parameter(x, names[i], WEFT_SHAPE(N), (weft_init){WEFT_INIT_CONSTANT, 1, 0});
        weft_minimize(weft_sum(weft_mul(p, x), 0, NULL, false), names[i],
                      &(weft_optimizer){.type = "sgd", .name = "both", .lr = 0.1, .ema = ema});
    }
    k.plan = weft_compile(k.m, &(weft_compile_options){.verify = true}, &k.e);
    k.store = k.plan ? weft_store_new(k.plan, 1, &k.e) : NULL;
    CHECK_SAYS(k.store != NULL, "%s", k.e.text);
    return k;
}

static void shared_run(kit *k, const char *graph, int times) {
    static const float ones[N] = {1, 1, 1, 1, 1};
    if (!k->s) k->s = weft_session_open(k->plan, k->store, &k->e);
    for (int i = 0; i < times; i++)
        CHECK_SAYS(!weft_run(k->s, graph, &(weft_feed){"x", ones, sizeof ones}, 1, NULL, 0, &k->e), "%s",
                   k->e.text);
}

/* The averages of a and b, and afterwards the parameters. */
static void check_shared(kit *k, const float averages[2], const float parameters[2]) {
    for (int on = 1; on >= 0; on--) {
        const float *want = on ? averages : parameters;
        CHECK_SAYS(!weft_use_averages(k->s, on, &k->e), "%s", k->e.text);
        for (int i = 0; i < 2; i++) {
            float got[N] = {0};
            CHECK(!weft_store_get(k->store, i ? "b" : "a", got, sizeof got, &k->e));
            CHECK_SAYS(fabsf(got[0] - want[i]) < 1e-6f && fabsf(got[N - 1] - want[i]) < 1e-6f,
                       "%s %c is %g, not %g", on ? "average" : "parameter", "ab"[i], (double)got[0],
                       (double)want[i]);
        }
    }
}

TEST(averages_begin_with_the_first_update_of_their_own_parameter) {
    kit k = kit_shared(0.75);
    shared_run(&k, "a", 1);
    check_shared(&k, (float[]){0.9f, 1}, (float[]){0.9f, 1});
    shared_run(&k, "b", 1);
    check_shared(&k, (float[]){0.9f, 0.9f}, (float[]){0.9f, 0.9f});
    shared_run(&k, "a", 1);
    check_shared(&k, (float[]){0.875f, 0.9f}, (float[]){0.8f, 0.9f});
    kit_close(&k);
}

/* Files go from a training without averages to one with them, and back. */
TEST(a_training_goes_on_with_or_without_the_averages_of_its_file) {
    char path[] = "/tmp/weft_averages_XXXXXX";
    int file = mkstemp(path);
    if (CHECK(file >= 0)) close(file);
    kit k[4]; /* without, with, with, and without */
    for (int i = 0; i < 4; i++) {
        k[i] = kit_shared(i == 1 || i == 2 ? 0.75 : 0);
        if (i) CHECK_SAYS(!weft_weights_load(k[i].store, path, &k[i].e), "%s", k[i].e.text);
        shared_run(&k[i], "a", 2);
        CHECK_SAYS(!weft_session_save(k[i].s, path, true, &k[i].e), "%s", k[i].e.text);
    }
    check_shared(&k[1], (float[]){0.675f, 1}, (float[]){0.6f, 1}); /* 0.7, then 0.6 */
    check_shared(&k[2], (float[]){0.5734375f, 1}, (float[]){0.4f, 1});
    float last[N] = {0};
    CHECK(!weft_store_get(k[3].store, "a", last, sizeof last, &k[3].e) && fabsf(last[0] - 0.2f) < 1e-6f);
    for (int i = 0; i < 4; i++) kit_close(&k[i]);
    unlink(path);
}

TEST(no_number_on_the_way_to_an_average_is_nan) {
    kit k = {.m = pair(&rows[0])};
    k.plan = weft_compile(k.m, &(weft_compile_options){.unoptimized = true}, &k.e);
    k.store = k.plan ? weft_store_new(k.plan, 1, &k.e) : NULL;
    k.s = k.store ? weft_session_open(k.plan, k.store, &k.e) : NULL;
    weft_session_check(k.s, true);
    for (int step = 0; step < 2; step++) CHECK_SAYS(!kit_step(&k, step), "%s", k.e.text);
    kit_close(&k);
}

TEST(what_averages_stand_for_is_not_set) {
    float ones[N] = {1, 1, 1, 1, 1};
    double step = 7;
    kit k = kit_shared(0.75);
    shared_run(&k, "a", 1);
    CHECK(!weft_use_averages(k.s, true, &k.e));
    CHECK(weft_store_set(k.store, "a", ones, sizeof ones, &k.e) == WEFT_ORDER);
    CHECK_HOLDS(k.e.text, "a: averages are in the place of parameters: call weft_use_averages");
    CHECK(weft_store_set(k.store, "optimizer.both/a/ema", ones, sizeof ones, &k.e) == WEFT_ORDER);
    CHECK(!weft_store_set(k.store, "optimizer.both/step", &step, sizeof step, &k.e));
    CHECK(!weft_use_averages(k.s, false, &k.e));
    CHECK(!weft_store_set(k.store, "a", ones, sizeof ones, &k.e));
    kit_close(&k);
}

TEST(a_parameter_has_one_average) {
    weft_error e = {0};
    weft_model *m = pair(&rows[0]);
    weft_graph *g = weft_graph_new(m, "again", WEFT_TRAIN);
    weft_value *loss = weft_sum(weft_square(weft_value_of(g, "a")), 0, NULL, false);
    weft_minimize(loss, "a", &(weft_optimizer){.type = "sgd", .ema = 0.5});
    weft_plan *plan = weft_compile(m, NULL, &e);
    CHECK(!plan);
    CHECK_HOLDS(e.text, "optimizers 'sgd:all' and 'sgd:a' both keep an average of a: leave ema 0");
    weft_plan_free(plan);
    weft_model_free(m);
}

/* ---- in worlds ---- */

/* Two subgraphs, so that a rank may own nothing of a bucket; one is trained by matrices. */
static weft_model *net(void) {
    weft_model *m = weft_model_new("net");
    weft_graph *g = weft_graph_new(m, "step", WEFT_TRAIN);
    weft_value *x = weft_input(g, "x", WEFT_F32, WEFT_SHAPE(4, 16)), *y = x;
    WEFT_SCOPE(x, "one") y = weft_tanh(weft_linear(y, 300, "a"));
    WEFT_SCOPE(x, "two") y = weft_linear(weft_tanh(weft_linear(y, 33, "b")), 5, "c");
    y = weft_mean(weft_square(y), 0, NULL, false);
    weft_minimize(y, "one", &(weft_optimizer){.type = "adamw", .lr = 0.01, .ema = 0.8, .clip_norm = 0.1});
    weft_minimize(y, "two", &(weft_optimizer){.type = "lamb", .lr = 0.01, .ema = 0.9});
    weft_output(y, "loss");
    CHECK_SAYS(!weft_model_error(m)->status, "%s", weft_model_error(m)->text);
    return m;
}

/* Averages come and go between steps, and are there at the end. */
static void train_and_average(world_rank *r) {
    for (int step = 0; step < r->job->steps; step++) {
        int micros = r->job->options.accumulate > 1 ? r->job->options.accumulate : 1;
        for (int i = 0; i < micros && !r->error.status; i++)
            world_micro(r, "step", ((int64_t)step * r->world + r->rank) * micros + i, NULL);
        if (step != 2 || r->error.status) continue;
        weft_use_averages(r->session, true, &r->error);
        if (!r->error.status) weft_use_averages(r->session, false, &r->error);
    }
    if (!r->error.status && !r->job->context) weft_use_averages(r->session, true, &r->error);
}

TEST(ranks_have_the_averages_of_one) {
    static const weft_compile_options kinds[] = {{.zero = 0},
                                                 {.zero = 1},
                                                 {.zero = 2},
                                                 {.zero = 1, .bucket_cap_mb = 0.01},
                                                 {.precision = WEFT_BF16, .zero = 2}};
    weft_model *m = net();
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        for (int left = 0; left < 2; left++) {
            char what[60];
            world_job job = {.model = m, .steps = 5, .run = train_and_average, .context = left ? m : NULL};
            job.options = kinds[k];
            job.options.zero = 0;
            job.options.accumulate = 2;
            world_rank *alone = world_run(&job);
            job.options = kinds[k];
            job.options.world = 2;
            job.options.verify = true;
            world_rank *ranks = world_run(&job);
            snprintf(what, sizeof what, "kind %zu, %s", k, left ? "parameters" : "averages");
            world_check(alone, ranks, 2, world_trained, what);
            world_free(alone);
            world_free(ranks);
        }
    weft_model_free(m);
}

SUITE("averages",
      {T(averages_are_those_of_pytorch_and_come_and_go_to_the_bit), T(averages_are_read_and_never_trained),
       T(averages_begin_with_the_first_update_of_their_own_parameter),
       T(a_training_goes_on_with_or_without_the_averages_of_its_file),
       T(no_number_on_the_way_to_an_average_is_nan), T(what_averages_stand_for_is_not_set),
       T(a_parameter_has_one_average), T(ranks_have_the_averages_of_one)})
