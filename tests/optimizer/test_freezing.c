/* test_freezing.c - groups that train in some updates only: PyTorch's numbers where gradients are None, in
 * any world, saved in between; and what a schedule of momentum makes of nadam. */
#include "support/world.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What make_freezing.py evaluates, clip_norm, a factor on beta1 at each step, whether b freezes, and the
 * optimizer. */
/* clang-format off */
#define BETA1 .schedule = {{WEFT_SCHEDULE_EXPONENTIAL, .of = WEFT_SCHEDULED_MOMENTUM, .gamma = 0.8}}
#define ROWS(X) \
    X("torch.optim.SGD(p, lr=0.05, momentum=0.9, dampening=0.2, weight_decay=0.1)", 0, 0, true, {.type = "sgd", .lr = 0.05, .momentum = 0.9, .dampening = 0.2, .weight_decay = 0.1}) \
    X("torch.optim.SGD(p, lr=0.05, momentum=0.9)", 0.7, 0, true, {.type = "sgd", .lr = 0.05, .momentum = 0.9, .clip_norm = 0.7}) \
    X("torch.optim.Adam(p, lr=0.1)", 0, 0, true, {.type = "adam", .lr = 0.1}) \
    X("torch.optim.AdamW(p, lr=0.1, weight_decay=0.1)", 0.5, 0, true, {.type = "adamw", .lr = 0.1, .weight_decay = 0.1, .clip_norm = 0.5}) \
    X("torch.optim.Adam(p, lr=0.1, amsgrad=True)", 0, 0, true, {.type = "amsgrad", .lr = 0.1}) \
    X("torch.optim.RAdam(p, lr=0.1)", 0, 0, true, {.type = "radam", .lr = 0.1}) \
    X("torch.optim.Adamax(p, lr=0.1)", 0.5, 0, true, {.type = "adamax", .lr = 0.1, .clip_norm = 0.5}) \
    X("torch.optim.Rprop(p, lr=0.1)", 0, 0, true, {.type = "rprop", .lr = 0.1}) \
    X("torch.optim.Adagrad(p, lr=0.1, lr_decay=0.1)", 0, 0, true, {.type = "adagrad", .lr = 0.1, .lr_decay = 0.1}) \
    X("torch.optim.NAdam(p, lr=0.1)", 0, 0.8, false, {.type = "nadam", .lr = 0.1, BETA1}) \
    X("torch.optim.NAdam(p, lr=0.1)", 0, 0, false, {.type = "nadam", .lr = 0.1})
/* clang-format on */

enum { N = 5, STEPS = 8, FROM = 2, TO = 6 };
static const double golden[][2][N] = {
#include "golden/freezing.h"
};
typedef struct row {
    bool freezes;
    weft_optimizer optimizer;
} row;
static const row rows[] = {
#define X(torch, norm, gamma, freezes, ...) {freezes, __VA_ARGS__},
    ROWS(X)
#undef X
};
enum { N_ROWS = sizeof rows / sizeof *rows };
static const weft_param_group late = {"b", .from = FROM, .to = TO};

static weft_model *pair(const row *r) {
    weft_init half = {WEFT_INIT_CONSTANT, 0.5, 0};
    weft_model *m = weft_model_new("pair");
    weft_graph *g = weft_graph_new(m, "train", WEFT_TRAIN);
    weft_value *x = weft_input(g, "x", WEFT_F32, WEFT_SHAPE(N)), *loss = NULL;
    weft_optimizer o = r->optimizer;
    if (r->freezes) o.n_groups = 1, o.groups = &late;
    for (int i = 0; i < 2; i++) {
        weft_value *p = weft_parameter(x, i ? "b" : "a", WEFT_SHAPE(N), half);
        weft_value *one = weft_scale(weft_sum(weft_square(weft_sub(p, x)), WEFT_ALL, false), i ? 0.5 : 1);
        loss = loss ? weft_add(loss, one) : one;
    }
    weft_minimize(loss, NULL, &o);
    weft_output(loss, "loss");
    CHECK_SAYS(!weft_model_error(m)->status, "%s", weft_model_error(m)->text);
    return m;
}

static void steps(weft_session *s, int from, int to) {
    weft_error e = {0};
    for (int step = from; step < to; step++) {
        float x[N];
        for (int i = 0; i < N; i++) x[i] = (float)((step * 3 + i * 5) % 7) / 3 - 1;
        CHECK_SAYS(!weft_run(s, "train", (weft_feed[]){{"x", x, sizeof x}}, 1, NULL, 0, &e), "%s", e.text);
    }
}

/* Saved and loaded into another store in the middle. */
TEST(what_is_frozen_stays_as_pytorch_leaves_it) {
    for (int r = 0; r < N_ROWS; r++) {
        char path[] = "/tmp/weft_freezing_XXXXXX";
        int file = mkstemp(path);
        if (CHECK(file >= 0)) close(file);
        weft_error e = {0};
        weft_model *m = pair(&rows[r]);
        weft_plan *plan = weft_compile(m, &(weft_compile_options){.verify = true}, &e);
        if (!CHECK_SAYS(plan != NULL, "row %d: %s", r, e.text)) continue;
        weft_store *store[2] = {weft_store_new(plan, 1, &e), weft_store_new(plan, 2, &e)};
        for (int half = 0; half < 2; half++) {
            weft_session *s = weft_session_open(plan, store[half], &e);
            if (half) CHECK_SAYS(!weft_weights_load(store[1], path, NULL, NULL, &e), "%s", e.text);
            steps(s, half * STEPS / 2, (half + 1) * STEPS / 2);
            if (!half) CHECK_SAYS(!weft_weights_save(store[0], path, true, &e), "%s", e.text);
            weft_session_close(s);
        }
        for (int p = 0; p < 2; p++) {
            float got[N];
            CHECK(!weft_store_get(store[1], p ? "b" : "a", got, sizeof got, &e));
            for (int i = 0; i < N; i++)
                CHECK_SAYS(fabs((double)got[i] - golden[r][p][i]) <= 2e-6, "row %d, %s: %.9g, not %.9g", r,
                           p ? "b" : "a", (double)got[i], golden[r][p][i]);
        }
        unlink(path);
        for (int i = 0; i < 2; i++) weft_store_free(store[i]);
        weft_plan_free(plan);
        weft_model_free(m);
    }
}

/* ---- in worlds ---- */

static weft_model *net(const weft_optimizer *o) {
    weft_model *m = weft_model_new("net");
    weft_graph *g = weft_graph_new(m, "step", WEFT_TRAIN);
    weft_value *x = weft_input(g, "x", WEFT_F32, WEFT_SHAPE(4, 16)), *y = x;
    WEFT_SCOPE(x, "net") {
        y = weft_tanh(weft_linear(y, 300, "a", NULL));
        y = weft_linear(weft_tanh(weft_linear(y, 33, "b", NULL)), 5, "c", NULL);
    }
    y = weft_mean(weft_square(y), WEFT_ALL, false);
    weft_minimize(y, NULL, o);
    weft_output(y, "loss");
    CHECK_SAYS(!weft_model_error(m)->status, "%s", weft_model_error(m)->text);
    return m;
}

TEST(ranks_freeze_and_train_to_the_bits_of_one) {
    static const weft_param_group groups[] = {{"net/a", .from = 2, .to = 4}, {"*bias", .from = 1}};
    static const struct {
        const char *type;
        weft_dtype precision;
        int zero;
        weft_shard shard;
    } cases[] = {{"adam", WEFT_F32, 0, 0},  {"sgd", WEFT_F32, 1, WEFT_SHARD_FLAT},
                 {"lamb", WEFT_F32, 2, 0},  {"rprop", WEFT_BF16, 2, WEFT_SHARD_FLAT},
                 {"adamw", WEFT_F16, 1, 0}, {"rmsprop", WEFT_F16, 2, WEFT_SHARD_FLAT}};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        weft_optimizer o = {
            .type = cases[k].type, .clip_norm = 0.05, .ema = 0.9, .n_groups = 2, .groups = groups};
        if (k == 4) o.clip_value = 0.01;
        weft_model *m = net(&o);
        world_job job = {
            .model = m, .steps = 6, .options = {.accumulate = 2, .precision = cases[k].precision}};
        world_rank *alone = world_run(&job);
        job.options = (weft_compile_options){.world = 2,
                                             .zero = cases[k].zero,
                                             .shard = cases[k].shard,
                                             .bucket_cap_mb = 0.01,
                                             .precision = cases[k].precision,
                                             .verify = true};
        world_rank *ranks = world_run(&job);
        world_check(alone, ranks, 2, world_trained, cases[k].type);
        world_free(alone);
        world_free(ranks);
        weft_model_free(m);
    }
}

SUITE("freezing",
      {T(what_is_frozen_stays_as_pytorch_leaves_it), T(ranks_freeze_and_train_to_the_bits_of_one)})
