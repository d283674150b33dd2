/* test_assign.c - graphs that assign to parameters, as weight clipping (WGAN, arXiv 1701.07875) and momentum
 * teachers (BYOL, arXiv 2006.07733, section 3.1) do, beside a graph that trains: against numbers that are
 * computed here from what was there before, in worlds of one and two with ZeRO too, where the graphs also run
 * while gathers and updates of the last step are in flight. */
#include "support/test.h"
#include "support/world.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DECAY 0.75 /* exact in f32, as is CLIP */
#define CLIP  0.125
enum { STEPS = 5, MOST = 4096 };

static weft_value *mlp(weft_value *x, const char *name) {
    WEFT_SCOPE(x, name) x = weft_linear(weft_tanh(weft_linear(x, 24, "fc1", NULL)), 8, "fc2", NULL);
    return x;
}

/* The parameter "teacher/..." of "student/...". */
static weft_value *teacher_of(weft_graph *g, const char *student) {
    char path[100];
    snprintf(path, sizeof path, "teacher%s", student + strlen("student"));
    return weft_value_of(g, path);
}

/* student and critic are trained in one graph; the teacher is what the other graphs make it. */
static weft_model *model(void) {
    weft_model *m = weft_model_new("m");
    weft_graph *g = weft_graph_new(m, "step", WEFT_TRAIN);
    weft_value *x = weft_input(g, "x", WEFT_F32, WEFT_SHAPE(4, 16));
    weft_value *loss = weft_mse(mlp(x, "student"), weft_stop_gradient(mlp(x, "teacher")), NULL);
    loss = weft_add(loss, weft_mean(mlp(x, "critic"), WEFT_ALL, false));
    weft_minimize(loss, "student,critic", &(weft_optimizer){.type = "adam", .lr = 0.01});
    weft_output(loss, "loss");

    weft_graph *copy = weft_graph_new(m, "copy", WEFT_EVAL), *ema = weft_graph_new(m, "ema", WEFT_EVAL);
    weft_graph *clip = weft_graph_new(m, "clip", WEFT_EVAL);
    weft_parameter_info p;
    for (int i = 0; weft_model_parameter(m, "student", i, &p); i++) {
        weft_assign(teacher_of(copy, p.path), weft_value_of(copy, p.path));
        weft_value *old = weft_scale(teacher_of(ema, p.path), DECAY);
        weft_assign(teacher_of(ema, p.path),
                    weft_add(old, weft_scale(weft_value_of(ema, p.path), 1 - DECAY)));
    }
    for (int i = 0; weft_model_parameter(m, "critic", i, &p); i++)
        weft_assign(weft_value_of(clip, p.path), weft_clamp(weft_value_of(clip, p.path), -CLIP, CLIP));
    return m;
}

/* ---- what a rank does ---- */

typedef struct values {
    float v[MOST];
} values;

static int read_all(world_rank *r, const char *net, values *into) {
    weft_parameter_info p;
    int n = 0;
    for (int i = 0; weft_model_parameter(r->job->model, net, i, &p) && !r->error.status; i++) {
        int count = (int)(p.shape[0] * (p.ndim > 1 ? p.shape[1] : 1));
        weft_store_get(r->store, p.path, into->v + n, (size_t)count * sizeof(float), &r->error);
        n += count;
    }
    return n;
}

/* Whether every value is as `want` says of the values before. */
static void expect(world_rank *r, const char *net, const values *before, const values *other,
                   float (*want)(float before, float other)) {
    values *now = test_memory(sizeof *now);
    int n = read_all(r, net, now);
    for (int i = 0; i < n && !r->error.status; i++) {
        float w = want(before->v[i], other->v[i]);
        if (now->v[i] == w) continue;
        r->error.status = WEFT_INTERNAL;
        snprintf(r->error.text, sizeof r->error.text, "%s[%d] is %g, not %g", net, i, now->v[i], w);
    }
    free(now);
}

static float copied(float before, float other) {
    return (void)before, other;
}

static float averaged(float before, float other) {
    float kept = (float)DECAY * before, added = (float)(1 - DECAY) * other;
    return kept + added;
}

static float clipped(float before, float other) {
    (void)other;
    return fminf(fmaxf(before, -(float)CLIP), (float)CLIP);
}

static void graph(world_rank *r, const char *name) {
    if (!r->error.status) weft_run(r->session, name, NULL, 0, NULL, 0, &r->error);
}

static void step(world_rank *r, int64_t number) {
    if (!r->error.status) world_micro(r, "step", number * r->job->options.world + r->rank, NULL);
}

/* Syncs before each look into the store. */
static void run_checked(world_rank *r) {
    values *old = test_memory(3 * sizeof *old), *student = old + 1, *critic = old + 2;
    read_all(r, "student", student);
    graph(r, "copy");
    expect(r, "teacher", student, student, copied);
    for (int i = 0; i < STEPS; i++) {
        step(r, i);
        if (!r->error.status) weft_sync(r->session, &r->error);
        read_all(r, "teacher", old);
        read_all(r, "student", student);
        read_all(r, "critic", critic);
        graph(r, "clip");
        expect(r, "critic", critic, critic, clipped);
        graph(r, "ema");
        expect(r, "teacher", old, student, averaged);
        expect(r, "student", student, student, copied);
    }
    free(old);
}

/* The same without a sync, so that the graphs meet what is in flight. */
static void run_in_flight(world_rank *r) {
    graph(r, "copy");
    for (int i = 0; i < STEPS; i++) {
        step(r, i);
        graph(r, "clip");
        graph(r, "ema");
    }
}

TEST(teachers_and_clipped_weights_are_what_is_computed_by_hand) {
    static const struct {
        int zero;
        weft_shard shard;
        double cap;
    } ways[] = {{0, 0, 0}, {0, 0, 0.001}, {1, WEFT_SHARD_GREEDY, 0}, {2, WEFT_SHARD_FLAT, 0.001}};
    weft_model *m = model();
    CHECK_SAYS(!weft_model_error(m)->status, "%s", weft_model_error(m)->text);
    for (int world = 1; world <= 2; world++)
        for (size_t k = 0; k < (world > 1 ? sizeof ways / sizeof *ways : 1); k++) {
            world_rank *ranks[2];
            for (int flies = 0; flies < 2; flies++) {
                world_job job = {.model = m,
                                 .options = {.world = world,
                                             .zero = ways[k].zero,
                                             .shard = ways[k].shard,
                                             .bucket_cap_mb = ways[k].cap,
                                             .verify = true},
                                 .seed = 3,
                                 .run = flies ? run_in_flight : run_checked};
                ranks[flies] = world_run(&job);
            }
            world_check(ranks[0], ranks[1], world, world_parameters, "in flight");
            world_check(ranks[0], ranks[0], world, world_parameters, "all ranks");
            world_free(ranks[0]);
            world_free(ranks[1]);
        }
    weft_model_free(m);
}

/* ---- one graph ---- */

/* Runs graph "g" `runs` times and reads its output "y" and parameter "w", one number each. */
static void run_graph(weft_model *m, weft_isa isa, int runs, float *y, float *w) {
    weft_error e = {0};
    weft_plan *plan = weft_compile(m, &(weft_compile_options){.isa = isa, .verify = true}, &e);
    weft_store *store = plan ? weft_store_new(plan, 1, &e) : NULL;
    weft_session *s = store ? weft_session_open(plan, store, &e) : NULL;
    for (int i = 0; s && i < runs && !e.status; i++)
        weft_run(s, "g", NULL, 0, &(weft_fetch){"y", &y[i], sizeof *y}, 1, &e);
    if (!e.status) weft_store_get(store, "w", w, 64 * 64 * sizeof *w, &e);
    CHECK_SAYS(!e.status, "%s", e.text);
    weft_session_close(s);
    weft_store_free(store);
    weft_plan_free(plan);
}

/* w doubles between two products that kernels pack it for: sums of 64 x 64 x 64 ones, and of twos. */
static weft_model *doubling(void) {
    weft_model *m = weft_model_new("m");
    weft_graph *g = weft_graph_new(m, "g", WEFT_EVAL);
    weft_value *one = weft_constant(g, WEFT_F32, WEFT_SHAPE(64, 64), 1);
    weft_value *w = weft_parameter_in(g, "w", WEFT_SHAPE(64, 64), (weft_init){WEFT_INIT_ONES});
    weft_value *first = weft_matmul(weft_tanh(weft_scale(one, 0)), w, false, true);
    weft_value *y = weft_add(first, weft_matmul(one, w, false, true));
    weft_assign(w, weft_scale(w, 2));
    weft_value *now = weft_value_of(g, "w");
    CHECK(now != w);
    weft_output(weft_sum(weft_add(y, weft_matmul(one, now, false, true)), WEFT_ALL, false), "y");
    return m;
}

TEST(a_read_after_the_assign_sees_it_and_packs_are_made_anew) {
    static float w[64 * 64];
    for (int parsed = 0; parsed < 2; parsed++)
        for (int isa = 0; isa < 2; isa++) {
            float y[3] = {0};
            weft_error e = {0};
            weft_model *m = doubling();
            char *text = weft_model_text(m);
            weft_model *again = weft_model_parse(text, "text", NULL, &e);
            CHECK_SAYS(again != NULL, "%s", e.text);
            run_graph(parsed ? again : m, isa ? WEFT_ISA_REFERENCE : WEFT_ISA_AUTO, 3, y, w);
            for (int i = 0; i < 3; i++)
                CHECK_SAYS(y[i] == 64.f * 64 * 64 * 3 * (float)(1 << i), "%d: %g", i, y[i]);
            CHECK(w[0] == 8 && w[64 * 64 - 1] == 8);
            weft_text_free(text);
            weft_model_free(again);
            weft_model_free(m);
        }
}

/* ---- refusals ---- */

static void refused(weft_model *m, const char *part) {
    weft_error e = {0};
    weft_plan *plan = weft_compile(m, NULL, &e);
    CHECK(!plan);
    CHECK_HOLDS(e.text, "test_assign.c:");
    CHECK_HOLDS(e.text, part);
    weft_plan_free(plan);
    weft_model_free(m);
}

TEST(what_cannot_be_assigned_is_told) {
    weft_model *m = model();
    weft_graph *g = weft_graph_new(m, "both", WEFT_TRAIN);
    weft_value *x = weft_input(g, "x", WEFT_F32, WEFT_SHAPE(4, 16));
    weft_minimize(weft_mean(mlp(x, "student"), WEFT_ALL, false), "student", &(weft_optimizer){.type = "sgd"});
    weft_value *w = weft_value_of(g, "teacher/fc1/bias");
    weft_assign(w, weft_scale(w, 2));
    refused(m, "graph both trains (minimize at test_assign.c:");
    m = model();
    g = weft_graph_new(m, "other", WEFT_EVAL);
    weft_value_of(g, "student/fc3/bias");
    refused(m, "value_of: there is no parameter or state 'student/fc3/bias': make it first");
    m = model();
    x = weft_input(weft_graph_new(m, "other", WEFT_EVAL), "x", WEFT_F32, WEFT_SHAPE(4, 16));
    weft_assign(mlp(x, "student"), x);
    refused(m, "must come from weft_state, weft_parameter or weft_value_of");
    m = model();
    g = weft_graph_new(m, "other", WEFT_EVAL);
    weft_assign(weft_value_of(g, "student/fc1/bias"), weft_value_of(g, "teacher/fc2/bias"));
    refused(m, "student/fc1/bias is f32[24], the value f32[8]");
}

/* ---- lists of parameters ---- */

TEST(parameters_are_listed_by_pattern_while_a_model_is_built) {
    weft_model *m = model();
    weft_parameter_info p;
    int n = 0;
    for (int i = 0; weft_model_parameter(m, "student,critic/fc2", i, &p); i++) n++;
    CHECK(n == 6);
    CHECK(weft_model_parameter(m, "*fc1/weight", 2, &p));
    CHECK_TEXT(p.path, "critic/fc1/weight");
    CHECK(p.dtype == WEFT_F32 && p.ndim == 2 && p.shape[0] == 24 && p.shape[1] == 16);
    CHECK(!p.is_state && !p.is_frozen);
    CHECK(!weft_model_parameter(m, "nothing", 0, &p) && !weft_model_parameter(m, "", 12, &p));
    CHECK(!weft_model_parameter(NULL, "", 0, &p) && !weft_model_parameter(m, "", -1, &p));
    weft_freeze(m, "teacher,critic");
    CHECK(weft_model_parameter(m, "critic", 0, &p) && p.is_frozen);
    weft_freeze(m, "student,no");
    CHECK_HOLDS(weft_model_error(m)->text, "freeze: no parameter matches 'no'");
    CHECK_HOLDS(weft_model_error(m)->text, "names like teacher/fc1/weight");
    weft_model_free(m);
}

TEST(a_pattern_that_matches_nothing_is_told_the_nearest_parameter) {
    static const char *const rows[][2] = {{"critc*", "critic/fc1/weight"},
                                          {"critic/fc3", "critic/fc1/weight"},
                                          {"critic/fc2/wieght", "critic/fc2/weight"},
                                          {"*biass", "teacher/fc1/bias"},
                                          {"teacher.*", "teacher/fc1/weight"},
                                          {"zzzzzz", "teacher/fc1/weight"}};
    for (int i = 0; i < 6; i++) {
        weft_model *m = model();
        weft_freeze(m, rows[i][0]);
        CHECK_HOLDS(weft_model_error(m)->text, rows[i][1]);
        weft_model_free(m);
    }
}

TEST(each_of_several_patterns_must_match) {
    static const char *const wrong[] = {"student,nets", "student,", ",student", "student, critic"};
    static const char *const named[] = {"'nets'", "','", "','", "' critic'"};
    for (int i = 0; i < 4; i++) {
        weft_model *m = weft_model_new("m");
        weft_graph *g = weft_graph_new(m, "step", WEFT_TRAIN);
        weft_value *x = weft_input(g, "x", WEFT_F32, WEFT_SHAPE(4, 16));
        weft_value *y = weft_add(mlp(x, "student"), mlp(x, "critic"));
        weft_minimize(weft_mean(y, WEFT_ALL, false), wrong[i], &(weft_optimizer){.type = "sgd"});
        refused(m, named[i]);
    }
}

SUITE("assign",
      {T(teachers_and_clipped_weights_are_what_is_computed_by_hand),
       T(a_read_after_the_assign_sees_it_and_packs_are_made_anew), T(what_cannot_be_assigned_is_told),
       T(parameters_are_listed_by_pattern_while_a_model_is_built), T(each_of_several_patterns_must_match),
       T(a_pattern_that_matches_nothing_is_told_the_nearest_parameter)})
