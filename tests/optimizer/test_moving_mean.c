/* test_moving_mean.c - weft_moving_mean(): its numbers, the same bits in any world, and that no other call
 * and no setting for all optimizers changes it. */
#include "graph/core/op.h"
#include "support/world.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 4, IN = 5, OUT = 3, STEPS = 6 };
#define MOMENTUM 0.9 /* of the center */

/* A student that learns what a teacher says after the center of its outputs is subtracted. */
static weft_model *dino(const char *pattern, weft_dtype precision) {
    weft_model *m = weft_model_new("dino");
    weft_value *x = weft_input(weft_graph_new(m, "train", WEFT_TRAIN), "x", WEFT_F32, WEFT_SHAPE(BATCH, IN));
    weft_value *teacher = weft_linear(x, OUT, "teacher", NULL);
    weft_value *center = weft_moving_mean(weft_mean(teacher, WEFT_AXES(0), false), MOMENTUM, "center");
    weft_value *target = weft_softmax(weft_scale(weft_sub(teacher, center), 4), -1);
    weft_value *student = weft_log_softmax(weft_linear(x, OUT, "student", NULL), -1);
    weft_value *loss = weft_neg(weft_mean(weft_mul(weft_stop_gradient(target), student), WEFT_ALL, false));
    weft_minimize(loss, pattern, &(weft_optimizer){.type = "adam", .lr = 0.05, .clip_norm = 0.1});
    weft_output(loss, "loss");
    x = weft_input(weft_graph_new(m, "eval", WEFT_EVAL), "x", WEFT_F32, WEFT_SHAPE(BATCH, OUT));
    weft_output(weft_sub(x, weft_moving_mean(weft_mean(x, WEFT_AXES(0), false), MOMENTUM, "center")), "y");
    if (precision) weft_model_set_precision(m, NULL, precision);
    CHECK_SAYS(!weft_model_error(m)->status, "%s", weft_model_error(m)->text);
    return m;
}

/* ---- numbers ---- */

/* One state alone, which follows its input. */
static weft_model *follower(double momentum) {
    weft_model *m = weft_model_new("follower");
    weft_value *x = weft_input(weft_graph_new(m, "train", WEFT_TRAIN), "x", WEFT_F32, WEFT_SHAPE(OUT));
    weft_output(weft_moving_mean(x, momentum, "mean"), "before");
    return m;
}

static void check_steps(double momentum, int accumulate) {
    weft_error e = {0};
    weft_model *m = follower(momentum);
    weft_plan *plan = weft_compile(m, &(weft_compile_options){.threads = 1, .accumulate = accumulate}, &e);
    weft_store *store = plan ? weft_store_new(plan, 1, &e) : NULL;
    weft_session *s = store ? weft_session_open(plan, store, &e) : NULL;
    double want[OUT] = {0};
    float x[OUT], before[OUT], got[OUT];
    test_random r = {3};
    for (int step = 0; s && step < STEPS; step++) {
        double sum[OUT] = {0};
        for (int micro = 0; micro < accumulate && !e.status; micro++) {
            for (int i = 0; i < OUT; i++) sum[i] += x[i] = (float)random_in(&r, -2, 5);
            weft_run(s, "train", &(weft_feed){"x", x, sizeof x}, 1,
                     &(weft_fetch){"before", before, sizeof before}, 1, &e);
            for (int i = 0; i < OUT; i++)
                CHECK_SAYS(fabs(before[i] - want[i]) < 1e-5, "step %d: %g was %g", step, before[i], want[i]);
        }
        for (int i = 0; i < OUT; i++) want[i] = momentum * want[i] + (1 - momentum) * sum[i] / accumulate;
    }
    CHECK_SAYS(s && !e.status, "%s", e.text);
    if (s) weft_sync(s, &e);
    if (s && !weft_store_get(store, "mean", got, sizeof got, &e))
        for (int i = 0; i < OUT; i++)
            CHECK_SAYS(fabs(got[i] - want[i]) < 1e-5, "momentum %g: %g, not %g", momentum, got[i], want[i]);
    weft_session_close(s);
    weft_store_free(store);
    weft_plan_free(plan);
    weft_model_free(m);
}

TEST(it_is_the_mean_of_the_micro_batches_of_each_step) {
    static const double momenta[] = {0, 0.5, 0.9};
    for (int i = 0; i < 3; i++)
        for (int accumulate = 1; accumulate < 5; accumulate++) check_steps(momenta[i], accumulate);
}

/* ---- worlds ---- */

/* A critic of spectrally normed layers, used twice in one graph and once in another. */
static weft_value *critic(weft_value *x, weft_parametrization form) {
    weft_linear_options o = {.parametrization = form};
    WEFT_SCOPE(x, "critic") {
        x = weft_leaky_relu(weft_linear(x, 6, "a", &o), 0.2);
        x = weft_linear(x, 1, "b", &o);
    }
    return weft_mean(x, WEFT_ALL, false);
}

static weft_model *normed(const char *pattern, weft_dtype precision) {
    weft_model *m = weft_model_new("normed");
    for (int i = 0; i < 2; i++) {
        weft_graph *g = weft_graph_new(m, i ? "g_step" : "d_step", WEFT_TRAIN);
        weft_value *x = weft_input(g, "x", WEFT_F32, WEFT_SHAPE(BATCH, IN));
        weft_value *fake = weft_linear(x, IN, "generator", NULL);
        weft_value *loss = critic(i ? fake : weft_stop_gradient(fake), WEFT_SPECTRAL_NORM_IN_STEP);
        if (i == 0) loss = weft_sub(loss, critic(x, WEFT_SPECTRAL_NORM_IN_STEP));
        weft_minimize(loss, i ? "generator" : pattern, &(weft_optimizer){.type = "adam", .lr = 0.05});
        weft_output(loss, "loss");
    }
    if (precision) weft_model_set_precision(m, NULL, precision);
    CHECK_SAYS(!weft_model_error(m)->status, "%s", weft_model_error(m)->text);
    return m;
}

static void check_worlds(weft_model *(*build)(const char *pattern, weft_dtype precision),
                         const char *pattern) {
    static const weft_dtype precisions[] = {0, WEFT_BF16, WEFT_F16};
    static const int worlds[] = {1, 2, 4};
    for (int p = 0; p < 3; p++) {
        weft_model *m = build(pattern, precisions[p]);
        world_job job = {
            .model = m, .steps = STEPS, .options = {.world = 1, .accumulate = 4, .verify = true}};
        world_rank *one = world_run(&job);
        for (int w = 0; w < 3; w++)
            for (int zero = 0; zero < 3; zero++) {
                world_job other = job;
                other.options.world = worlds[w];
                other.options.accumulate = 4 / worlds[w];
                other.options.zero = zero;
                other.options.bucket_cap_mb = 1e-4;
                other.options.guard = zero ? WEFT_GUARD_NAN : WEFT_GUARD_OFF;
                world_rank *ranks = world_run(&other);
                char said[80];
                snprintf(said, sizeof said, "precision %d, world %d, zero %d", (int)precisions[p], worlds[w],
                         zero);
                world_check(one, ranks, worlds[w], world_all, said);
                world_free(ranks);
            }
        world_free(one);
        weft_model_free(m);
    }
}

TEST(any_world_has_the_same_bits) {
    check_worlds(dino, "student");
    check_worlds(normed, "critic");
}

/* No note that several ranks differ from one. */
TEST(plans_of_several_ranks_have_nothing_to_say) {
    for (int i = 0; i < 2; i++) {
        weft_error e = {0};
        weft_model *m = i ? normed("critic", 0) : dino("student", 0);
        weft_plan *plan = weft_compile(m, &(weft_compile_options){.world = 2}, &e);
        if (CHECK_SAYS(plan != NULL, "%s", e.text))
            CHECK_SAYS(!weft_plan_note(plan, 0), "%s", weft_plan_note(plan, 0));
        weft_plan_free(plan);
        weft_model_free(m);
    }
}

/* What a step leaves of u is one iteration from what it found, as in a graph with one use. */
TEST(a_spectral_norm_in_step_is_the_plain_one_where_a_step_has_one_use) {
    float u[2][6] = {{0}};
    for (int i = 0; i < 2; i++) {
        weft_model *m = weft_model_new("one");
        weft_value *x =
            weft_input(weft_graph_new(m, "train", WEFT_TRAIN), "x", WEFT_F32, WEFT_SHAPE(BATCH, IN));
        weft_value *loss = critic(x, i ? WEFT_SPECTRAL_NORM_IN_STEP : WEFT_SPECTRAL_NORM);
        weft_minimize(loss, "critic", &(weft_optimizer){.type = "sgd", .lr = 0.05});
        world_job job = {.model = m, .steps = STEPS, .options = {.world = 1}};
        world_rank *ranks = world_run(&job);
        const world_part *part = world_find(ranks, "critic/a/parametrizations/weight/0/_u");
        if (CHECK(part != NULL)) memcpy(&u[i], part->data, sizeof u[i]);
        world_free(ranks);
        weft_model_free(m);
    }
    for (int k = 0; k < 6; k++)
        CHECK_SAYS(fabs((double)u[0][k] - (double)u[1][k]) < 1e-6, "%g, %g", (double)u[0][k],
                   (double)u[1][k]);
}

/* ---- what does not change it ---- */

static bool centers_agree(weft_model *a, weft_model *b, const char *path) {
    world_job job = {.steps = STEPS, .options = {.world = 1}};
    world_rank *ranks[2];
    for (int i = 0; i < 2; i++) {
        world_job own = job;
        own.model = i ? b : a;
        ranks[i] = world_run(&own);
    }
    const world_part *x = world_find(ranks[0], path), *y = world_find(ranks[1], path);
    bool agree = x && y && memcmp(x->data, y->data, (size_t)x->elements * x->width) == 0;
    world_free(ranks[0]);
    world_free(ranks[1]);
    return agree;
}

TEST(settings_for_all_optimizers_are_not_for_it) {
    weft_model *plain = dino("student", 0), *set = dino("student", 0), *named = dino("student", 0);
    weft_model_set_optimizer(
        set, NULL, "lr=0.5 clip_norm=1e-6 clip_value=1e-6 ema=0.5 schedule=\"step,period=1,gamma=0.1\"");
    weft_model_set_optimizer(named, "moving_mean:center", "momentum=0.5");
    CHECK_SAYS(!weft_model_error(set)->status, "%s", weft_model_error(set)->text);
    CHECK_SAYS(!weft_model_error(named)->status, "%s", weft_model_error(named)->text);
    CHECK(centers_agree(plain, set, "center"));
    CHECK(!centers_agree(plain, set, "student/weight"));
    CHECK(!centers_agree(plain, named, "center"));
    weft_model_free(plain);
    weft_model_free(set);
    weft_model_free(named);
}

TEST(a_call_for_the_whole_model_does_not_train_it) {
    weft_model *all = dino("", 0), *plain = dino("student", 0);
    weft_freeze(all, "teacher");
    weft_freeze(plain, "teacher");
    CHECK(centers_agree(all, plain, "center"));
    weft_model_free(all);
    weft_model_free(plain);
}

/* ---- what else may happen to it ---- */

/* What `change` makes of a model with one mean: its values after a step of 1 and one of `second`. */
typedef struct outcome {
    float mean[OUT];
    weft_status status; /* of compiling and running */
    char text[1100];
} outcome;

static outcome follow(void (*change)(weft_model *m), double momentum, float second,
                      const weft_compile_options *options) {
    outcome o = {0};
    weft_error e = {0};
    weft_model *m = follower(momentum);
    if (change) change(m);
    weft_plan *plan = weft_compile(m, options, &e);
    weft_store *store = plan ? weft_store_new(plan, 1, &e) : NULL;
    weft_session *s = store ? weft_session_open(plan, store, &e) : NULL;
    for (int step = 0; s && step < 2 && !e.status; step++) {
        float x[OUT];
        for (int i = 0; i < OUT; i++) x[i] = step ? second : 1;
        weft_run(s, "train", &(weft_feed){"x", x, sizeof x}, 1, NULL, 0, &e);
    }
    if (s && !e.status) weft_sync(s, &e);
    if (s && !e.status) weft_store_get(store, "mean", o.mean, sizeof o.mean, &e);
    o.status = e.status;
    snprintf(o.text, sizeof o.text, "%s", e.text);
    weft_session_close(s);
    weft_store_free(store);
    weft_plan_free(plan);
    weft_model_free(m);
    return o;
}

static void check_mean(const char *what, outcome o, double want) {
    for (int i = 0; i < OUT; i++)
        CHECK_SAYS(!o.status && fabs((double)o.mean[i] - want) <= 1e-6 * (1 + fabs(want)),
                   "%s: %g, not %g (%s)", what, (double)o.mean[i], want, o.text);
}

static void freeze(weft_model *m) {
    weft_freeze(m, "");
}
static void schedule(weft_model *m) {
    weft_model_set_optimizer(m, "moving_mean:mean", "schedule=\"constant:0-100,from=0.5,of=momentum\"");
}
static void schedule_rate(weft_model *m) {
    weft_model_set_optimizer(m, "moving_mean:mean", "schedule=\"cosine:0-10\"");
}
static void clip(weft_model *m) {
    weft_model_set_optimizer(m, "moving_mean:mean", "clip_norm=0.1");
}
static void set_all(weft_model *m) {
    weft_model_set_optimizer(m, NULL, "lr=3");
}
static void halve(weft_model *m) {
    weft_model_set_precision(m, NULL, WEFT_F16);
}

TEST(it_is_moved_as_settings_say_or_they_are_refused) {
    check_mean("plain", follow(NULL, 0.5, 3, NULL), 0.25 + 1.5);
    check_mean("frozen", follow(freeze, 0.5, 3, NULL), 0);
    check_mean("scheduled", follow(schedule, 0.5, 3, NULL), 0.25 * 0.75 + 0.75 * 3);
    check_mean("f16", follow(halve, 0.5, 3, NULL), 1.75);
    outcome o = follow(schedule_rate, 0.5, 3, NULL);
    CHECK_HOLDS(o.text, "moving_mean has no lr: leave it out");
    o = follow(clip, 0.5, 3, NULL);
    CHECK_HOLDS(o.text, "no setting but momentum");
    o = follow(set_all, 0.5, 3, NULL);
    CHECK_HOLDS(o.text, "has no optimizer that settings for all are for");
}

/* A value that is not finite is a bad step with a guard; without one it stays, except for momentum 0. */
TEST(values_that_are_not_finite_or_large_are_what_they_are) {
    static const weft_guard guards[] = {WEFT_GUARD_OFF, WEFT_GUARD_NAN, WEFT_GUARD_SPIKE, WEFT_GUARD_GRAD};
    for (int i = 0; i < 4; i++) {
        weft_compile_options with = {.threads = 1, .guard = guards[i]};
        check_mean("large", follow(NULL, 0.5, 1e25f, &with), 5e24);
        outcome o = follow(NULL, 0.5, NAN, &with);
        CHECK_SAYS(i ? o.status == WEFT_DATA : isnan(o.mean[0]), "guard %d: status %d, %g", guards[i],
                   (int)o.status, (double)o.mean[0]);
    }
    check_mean("no momentum", follow(NULL, 0, 7, NULL), 7);
}

/* The wire of gradients rounds to bf16; what is followed does not. */
TEST(the_wire_does_not_round_it) {
    weft_model *m = dino("student", 0);
    weft_model_set_ddp_text(m, "", "bf16_wire=1");
    world_job job = {.model = m, .steps = 1, .options = {.world = 1, .accumulate = 4}};
    world_rank *one = world_run(&job);
    job.options.world = 4, job.options.accumulate = 1;
    world_rank *four = world_run(&job);
    const world_part *a = world_find(one, "center"), *b = world_find(four, "center");
    CHECK(a && b && !memcmp(a->data, b->data, sizeof(float) * OUT));
    a = world_find(one, "student/weight"), b = world_find(four, "student/weight");
    CHECK(a && b && memcmp(a->data, b->data, sizeof(float) * OUT * IN));
    world_free(one);
    world_free(four);
    weft_model_free(m);
}

TEST(rates_are_those_of_other_optimizers) {
    weft_error e = {0};
    weft_model *m = dino("student", 0);
    weft_plan *plan = weft_compile(m, NULL, &e);
    weft_store *store = weft_store_new(plan, 1, &e);
    const char *optimizer = "";
    double lr = 0;
    CHECK(weft_store_lr(plan, store, 0, &optimizer, &lr));
    CHECK_TEXT(optimizer, "adam:student");
    CHECK(!weft_store_lr(plan, store, 1, &optimizer, &lr));
    CHECK(!weft_store_set_lr(store, NULL, 0.25, &e));
    CHECK(weft_store_set_lr(store, "moving_mean:center", 0.25, &e) == WEFT_NAME);
    weft_store_free(store);
    weft_plan_free(plan);
    weft_model_free(m);
}

/* A model with one graph and its input, for one wrong call. */
static weft_value *wrong_model(weft_dtype dtype, int64_t batch) {
    weft_model *m = weft_model_new("wrong");
    return weft_input(weft_graph_new(m, "train", WEFT_TRAIN), "x", dtype, WEFT_SHAPE(batch, OUT));
}

static void check_wrong(weft_value *x, const char *text) {
    weft_model *m = weft_graph_model(weft_value_graph(x));
    CHECK_HOLDS(weft_model_error(m)->text, text);
    weft_model_free(m);
}

TEST(what_is_wrong_is_said) {
    weft_error e = {0};
    weft_value *x = wrong_model(WEFT_F32, 2);
    CHECK(!weft_moving_mean(x, 1, "mean"));
    check_wrong(x, "moving_mean: momentum 1: it must be in [0, 1)");
    x = wrong_model(WEFT_I32, 2);
    weft_moving_mean(x, 0.9, "mean");
    check_wrong(x, "moving_mean: the value is i32[2,3]: it must be f32");
    x = wrong_model(WEFT_F32, 2);
    weft_moving_mean(x, 0.9, "mean");
    weft_moving_mean(weft_scale(x, 2), 0.9, "mean");
    check_wrong(x, "graph train moves mean already");
    x = wrong_model(WEFT_F32, 2);
    weft_linear(x, OUT, "fc", NULL);
    WEFT_SCOPE(x, "fc") weft_moving_mean(weft_mean(x, WEFT_AXES(0), false), 0.9, "bias");
    check_wrong(x, "fc/bias is a parameter of another call");
    /* the batch in its shape */
    x = wrong_model(WEFT_F32, WEFT_BATCH);
    weft_output(weft_moving_mean(x, 0, "mean"), "y");
    weft_model *m = weft_graph_model(weft_value_graph(x));
    CHECK(!weft_compile(m, &(weft_compile_options){.batch = 4}, &e));
    CHECK_HOLDS(e.text, "reshape");
    weft_model_free(m);
    /* a pattern that names it alone */
    m = dino("student,center", 0);
    CHECK(!weft_compile(m, NULL, &e));
    CHECK_HOLDS(e.text, "'center' matches center alone, which follows a value");
    weft_model_free(m);
}

/* A scope of the mean's name, two graphs, a long path, a model that was read, and an eval graph alone. */
TEST(places_where_it_may_stand) {
    weft_error e = {0};
    char name[120];
    weft_model *m = follower(0.9);
    weft_value *x = weft_input(weft_graph_new(m, "other", WEFT_TRAIN), "x", WEFT_F32, WEFT_SHAPE(2, OUT));
    weft_value *y = weft_linear(x, OUT, "mean", NULL); /* a layer beside the mean: mean/weight, mean/bias */
    weft_moving_mean(weft_mean(y, WEFT_AXES(0), false), 0.9, "mean");
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = 0;
    WEFT_SCOPE(x, name) WEFT_SCOPE(x, name) weft_moving_mean(weft_mean(y, WEFT_AXES(0), false), 0.5, name);
    weft_minimize(weft_mean(weft_square(y), WEFT_ALL, false), "", &(weft_optimizer){.type = "sgd"});
    char *text = weft_model_text(m);
    weft_model *again = weft_model_parse(text, "text", NULL, &e);
    CHECK_SAYS(again != NULL, "%s", e.text);
    weft_graph *third = again ? weft_graph_new(again, "third", WEFT_TRAIN) : NULL;
    weft_value *z = third ? weft_input(third, "x", WEFT_F32, WEFT_SHAPE(OUT)) : NULL;
    weft_moving_mean(z, 0.9, "mean");
    weft_model *both[] = {m, again};
    for (int i = 0; i < 2; i++) {
        weft_plan *plan = both[i] ? weft_compile(both[i], &(weft_compile_options){.verify = true}, &e) : NULL;
        CHECK_SAYS(plan != NULL, "%s", e.text);
        weft_plan_free(plan);
        weft_model_free(both[i]);
    }
    weft_text_free(text);
    m = weft_model_new("eval");
    x = weft_input(weft_graph_new(m, "eval", WEFT_EVAL), "x", WEFT_F32, WEFT_SHAPE(OUT));
    weft_output(weft_moving_mean(x, 0.9, "mean"), "y");
    weft_plan *plan = weft_compile(m, NULL, &e);
    CHECK_SAYS(plan != NULL, "%s", e.text);
    weft_plan_free(plan);
    weft_model_free(m);
}

SUITE("moving mean",
      {T(it_is_the_mean_of_the_micro_batches_of_each_step), T(any_world_has_the_same_bits),
       T(plans_of_several_ranks_have_nothing_to_say),
       T(a_spectral_norm_in_step_is_the_plain_one_where_a_step_has_one_use),
       T(settings_for_all_optimizers_are_not_for_it), T(a_call_for_the_whole_model_does_not_train_it),
       T(it_is_moved_as_settings_say_or_they_are_refused),
       T(values_that_are_not_finite_or_large_are_what_they_are), T(the_wire_does_not_round_it),
       T(rates_are_those_of_other_optimizers), T(what_is_wrong_is_said), T(places_where_it_may_stand)})
