/* test_averages.c - averages of parameters: PyTorch's, in any world, and in the place of parameters for
 * whatever reads these. */
#include "support/world.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- against PyTorch ---- */

/* What make_averages.py evaluates: the optimizer, and how AveragedModel is made; and the same here. */
/* clang-format off */
#define ROWS(X) \
    X("torch.optim.SGD(p, lr=0.05, momentum=0.9)", "avg_fn=get_ema_avg_fn(0.9)", {.type = "sgd", .lr = 0.05, .momentum = 0.9, .ema = 0.9}) \
    X("torch.optim.AdamW(p, lr=0.1)", "avg_fn=get_ema_avg_fn(0.5)", {.type = "adamw", .lr = 0.1, .ema = 0.5}) \
    X("torch.optim.RMSprop(p, lr=0.02)", "avg_fn=get_ema_avg_fn(0.99)", {.type = "rmsprop", .lr = 0.02, .ema = 0.99}) \
    X("torch.optim.SGD(p, lr=0.05)", "multi_avg_fn=get_ema_multi_avg_fn()", {.type = "sgd", .lr = 0.05, .ema = 0.999}) \
    X("torch.optim.SGD(p, lr=0.05)", "avg_fn=exp_momentum_ema(0.01, 3)", {.type = "sgd", .lr = 0.05, .ema = 0.99, .ema_gamma = 3})
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
    weft_value *of_a = weft_sum(weft_square(weft_sub(a, x)), WEFT_ALL, false);
    weft_minimize(weft_add(of_a, weft_sum(weft_square(weft_sub(b, x)), WEFT_ALL, false)), NULL, o);
    g = weft_graph_new(m, "sum", WEFT_EVAL);
    weft_output(weft_sum(weft_value_of(g, "a"), WEFT_ALL, false), "sum");
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
    CHECK(weft_weights_load(k.store, path, NULL, NULL, &k.e) == WEFT_ORDER);
    CHECK_SAYS(!weft_weights_load(plain.store, path, NULL, NULL, &plain.e), "%s", plain.e.text);
    check_a(&plain, golden[0][AVERAGE], "of the file");
    CHECK(!weft_use_averages(k.s, false, &k.e));
    CHECK(kit_step(&k, 0) == WEFT_OK);
    unlink(path);
    kit_close(&k);
    kit_close(&plain);
}

/* ---- state of the model ---- */

enum { SAMPLES = 4, MODULES = 2, TENSORS = 3 };
static const float norm_golden[MODULES * TENSORS][N] = {
#include "golden/averages_norm.h"
};
static const char *const norm_paths[TENSORS] = {"net/bn/weight", "net/bn/running_mean", "net/bn/running_var"};

/* Graph "train" trains a norm, "val" applies it, "count" assigns to a state beside it. */
static weft_model *norm_model(const weft_optimizer *o) {
    weft_model *m = weft_model_new("norm");
    for (int val = 0; val < 2; val++) {
        weft_graph *g = weft_graph_new(m, val ? "val" : "train", val ? WEFT_EVAL : WEFT_TRAIN);
        weft_value *x = weft_input(g, "x", WEFT_F32, WEFT_SHAPE(SAMPLES, N)), *y = x;
        WEFT_SCOPE(x, "net") y = weft_batch_norm(x, "bn", NULL);
        weft_value *off = weft_offset(y, -1), *loss = weft_mean(weft_square(off), WEFT_ALL, false);
        if (!val) weft_minimize(loss, "net", o);
        weft_output(val ? y : loss, "y");
    }
    weft_graph *g = weft_graph_new(m, "reset", WEFT_EVAL);
    weft_assign(weft_value_of(g, norm_paths[1]), weft_scale(weft_value_of(g, norm_paths[1]), 0));
    CHECK_SAYS(!weft_model_error(m)->status, "%s", weft_model_error(m)->text);
    return m;
}

static kit norm_open(void) {
    kit k = {.m = norm_model(&(weft_optimizer){.type = "sgd", .lr = 0.1, .ema = 0.9, .ema_buffers = true})};
    k.plan = weft_compile(k.m, &(weft_compile_options){.verify = true}, &k.e);
    k.store = k.plan ? weft_store_new(k.plan, 1, &k.e) : NULL;
    k.s = k.store ? weft_session_open(k.plan, k.store, &k.e) : NULL;
    CHECK_SAYS(k.s != NULL, "%s", k.e.text);
    return k;
}

static void norm_steps(kit *k, int from, int to) {
    float x[SAMPLES][N];
    for (int step = from; step < to; step++) {
        for (int i = 0; i < SAMPLES * N; i++)
            x[i / N][i % N] = (float)((step * 3 + i / N * 11 + i % N * 5) % 7) / 3 - 1;
        CHECK_SAYS(!weft_run(k->s, "train", &(weft_feed){"x", x, sizeof x}, 1, NULL, 0, &k->e), "%s",
                   k->e.text);
    }
}

static void norm_check(kit *k, bool averaged) {
    CHECK_SAYS(!weft_use_averages(k->s, averaged, &k->e), "%s", k->e.text);
    for (int t = 0; t < TENSORS; t++) {
        float got[N];
        CHECK(!weft_store_get(k->store, norm_paths[t], got, sizeof got, &k->e));
        for (int i = 0; i < N; i++) {
            float want = norm_golden[averaged * TENSORS + t][i];
            CHECK_SAYS(fabsf(got[i] - want) <= 2e-6f, "%s %s[%d] is %.9g, not %.9g",
                       averaged ? "average" : "", norm_paths[t], i, (double)got[i], (double)want);
        }
    }
}

/* What "val" makes of zeros: (0 - mean) / sqrt(var + eps) weight, as the bias is 0 and stays within 1. */
static void val_check(kit *k, bool averaged) {
    float x[SAMPLES][N] = {{0}}, y[SAMPLES][N], bias[N];
    CHECK(!weft_store_get(k->store, "net/bn/bias", bias, sizeof bias, &k->e));
    CHECK_SAYS(
        !weft_run(k->s, "val", &(weft_feed){"x", x, sizeof x}, 1, &(weft_fetch){"y", y, sizeof y}, 1, &k->e),
        "%s", k->e.text);
    for (int i = 0; i < N; i++) {
        const float(*g)[N] = &norm_golden[averaged * TENSORS];
        float want = bias[i] - g[1][i] / sqrtf(g[2][i] + 1e-5f) * g[0][i];
        CHECK_SAYS(fabsf(y[0][i] - want) <= 1e-5f, "val %d: %g, not %g", i, (double)y[0][i], (double)want);
    }
}

TEST(statistics_are_averaged_as_pytorch_does_with_use_buffers) {
    char path[] = "/tmp/weft_averages_XXXXXX";
    float zero[N] = {0};
    int file = mkstemp(path);
    if (CHECK(file >= 0)) close(file);
    kit half = norm_open(), k = norm_open();
    norm_steps(&half, 0, 3);
    CHECK_SAYS(!weft_session_save(half.s, path, true, &half.e), "%s", half.e.text);
    CHECK_SAYS(!weft_weights_load(k.store, path, NULL, NULL, &k.e), "%s", k.e.text);
    norm_steps(&k, 3, STEPS);
    for (int on = 1; on >= 0; on--) {
        norm_check(&k, on);
        val_check(&k, on);
    }
    CHECK(!weft_use_averages(k.s, true, &k.e));
    CHECK(weft_store_set(k.store, norm_paths[1], zero, sizeof zero, &k.e) == WEFT_ORDER);
    CHECK(weft_run(k.s, "reset", NULL, 0, NULL, 0, &k.e) == WEFT_ORDER);
    CHECK(!weft_use_averages(k.s, false, &k.e));
    CHECK_SAYS(!weft_run(k.s, "reset", NULL, 0, NULL, 0, &k.e), "%s", k.e.text);
    unlink(path);
    kit_close(&half);
    kit_close(&k);
}

TEST(averages_of_state_need_some_and_have_one_optimizer) {
    static const struct {
        weft_optimizer o;
        bool is_twice;
        const char *says;
    } wrong[] = {
        {{.type = "sgd", .ema_buffers = true}, false, "settings of averages: set ema, too"},
        {{.type = "sgd", .ema_gamma = 5}, false, "settings of averages: set ema, too"},
        {{.type = "sgd", .ema = 0.5, .ema_buffers = true},
         true,
         "both keep an average of net/bn/running_mean"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        weft_error e = {0};
        weft_model *m = weft_model_new("m");
        for (int k = 0; k < 2; k++) {
            weft_graph *g = weft_graph_new(m, k ? "b" : "a", WEFT_TRAIN);
            weft_value *x = weft_input(g, "x", WEFT_F32, WEFT_SHAPE(SAMPLES, N)), *y = x;
            WEFT_SCOPE(x, "net") y = weft_batch_norm(x, "bn", NULL);
            y = weft_linear(y, 2, k ? "fc2" : "fc", NULL);
            weft_optimizer o = wrong[i].o;
            if (k) o = (weft_optimizer){.type = "adam", .ema = 0.5, .ema_buffers = wrong[i].is_twice};
            weft_minimize(weft_mean(y, WEFT_ALL, false), k ? "fc2,net/bn/running*" : "net", &o);
        }
        weft_plan *plan = weft_compile(m, NULL, &e);
        CHECK_HOLDS(e.text, wrong[i].says);
        weft_plan_free(plan);
        weft_model_free(m);
    }
    weft_error e = {0};
    weft_model *m = pair(&(weft_optimizer){.type = "sgd", .ema = 0.5, .ema_buffers = true});
    weft_plan *plan = weft_compile(m, NULL, &e);
    CHECK_HOLDS(e.text, "sets ema_buffers, but no f32 state is under ''");
    weft_plan_free(plan);
    weft_model_free(m);
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
        weft_minimize(weft_sum(weft_mul(p, x), WEFT_ALL, false), names[i],
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
        if (i) CHECK_SAYS(!weft_weights_load(k[i].store, path, NULL, NULL, &k[i].e), "%s", k[i].e.text);
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
    weft_session_set_check(k.s, true);
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
    weft_value *loss = weft_sum(weft_square(weft_value_of(g, "a")), WEFT_ALL, false);
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
    WEFT_SCOPE(x, "one") y = weft_tanh(weft_linear(y, 300, "a", NULL));
    WEFT_SCOPE(x, "two") y = weft_linear(weft_tanh(weft_linear(y, 33, "b", NULL)), 5, "c", NULL);
    y = weft_mean(weft_square(y), WEFT_ALL, false);
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

/* A rank's statistics are its own, and so are their averages, whatever is sharded; with SyncBatchNorm all
 * ranks have the same. */
TEST(averages_of_state_are_the_same_however_ranks_share_the_rest) {
    static const weft_compile_options kinds[] = {{.zero = 1}, {.zero = 2}, {.bucket_cap_mb = 0.0001}};
    for (int sync = 0; sync < 2; sync++) {
        weft_optimizer o = {
            .type = "adamw", .lr = 0.01, .ema = 0.8, .ema_gamma = 4, .ema_buffers = true, .clip_norm = 0.1};
        weft_model *m = norm_model(&o);
        if (sync) weft_model_set_ddp(m, "net", &(weft_ddp_options){.sync_batch_norm = true});
        world_job job = {.model = m, .steps = 4, .options = {.world = 2, .accumulate = 2, .verify = true}};
        world_rank *want = world_run(&job);
        const world_part *mean = world_find(&want[0], norm_paths[1]);
        const world_part *average = world_find(&want[0], "optimizer.adamw:net/net/bn/running_mean/ema");
        CHECK(mean && average && memcmp(mean->data, average->data, N * sizeof(float)));
        if (sync && average)
            CHECK(!memcmp(average->data, world_find(&want[1], average->path)->data, N * sizeof(float)));
        for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
            job.options = kinds[i];
            job.options.world = 2, job.options.accumulate = 2, job.options.verify = true;
            world_rank *got = world_run(&job);
            for (int r = 0; r < 2; r++) {
                const world_part *p = world_find(&got[r], average->path),
                                 *q = world_find(&want[r], average->path);
                CHECK_SAYS(p && q && !memcmp(p->data, q->data, N * sizeof(float)), "sync %d kind %zu rank %d",
                           sync, i, r);
            }
            world_free(got);
        }
        world_free(want);
        weft_model_free(m);
    }
}

SUITE("averages",
      {T(statistics_are_averaged_as_pytorch_does_with_use_buffers),
       T(averages_of_state_need_some_and_have_one_optimizer),
       T(averages_of_state_are_the_same_however_ranks_share_the_rest),
       T(averages_are_those_of_pytorch_and_come_and_go_to_the_bit), T(averages_are_read_and_never_trained),
       T(averages_begin_with_the_first_update_of_their_own_parameter),
       T(a_training_goes_on_with_or_without_the_averages_of_its_file),
       T(no_number_on_the_way_to_an_average_is_nan), T(what_averages_stand_for_is_not_set),
       T(a_parameter_has_one_average), T(ranks_have_the_averages_of_one)})
