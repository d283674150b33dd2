/* test_session.c - the meaning of a run: order of state, parameters as of the start, batches bound at compile
 * time, accumulation, the same bits twice, wrong feeds, exact memory. */
#include "examples/zoo.h"
#include "support/test.h"
#include "weft/weft.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- a model, a plan, a store and a session in one ---- */

typedef struct rig {
    weft_plan *plan;
    weft_store *store;
    weft_session *session;
    weft_error error;
} rig;

static rig rig_open(weft_model *m, const weft_compile_options *options) {
    rig r = {0};
    r.plan = weft_compile(m, options, &r.error);
    r.store = r.plan ? weft_store_new(r.plan, 7, &r.error) : NULL;
    r.session = r.store ? weft_session_open(r.plan, r.store, &r.error) : NULL;
    CHECK_SAYS(r.session != NULL, "%s", r.error.text);
    return r;
}

static void rig_close(rig *r) {
    weft_session_close(r->session);
    weft_store_free(r->store);
    weft_plan_free(r->plan);
}

static float get(rig *r, const char *path) {
    float v = NAN;
    CHECK_SAYS(weft_store_get(r->store, path, &v, sizeof v, &r->error) == WEFT_OK, "%s", r->error.text);
    return v;
}

static const weft_init ones = {WEFT_INIT_ONES, 0, 0};

static weft_value *scalar_parameter(weft_graph *g, const char *name) {
    return weft_parameter_in(g, name, 0, NULL, ones);
}

/* ---- meaning ---- */

/* s starts at 1: y1 reads 1, then s = 2 s, y2 reads 2, then s = s + 3; the store ends with 5. */
TEST(state_is_read_as_the_last_earlier_write_left_it) {
    weft_model *m = weft_model_new("m");
    weft_graph *g = weft_graph_new(m, "g", WEFT_TRAIN);
    weft_value *x = weft_input(g, "x", WEFT_F32, 0, NULL);
    weft_value *s = weft_state(x, "s", 0, NULL, ones);
    weft_assign(s, weft_scale(s, 2));
    weft_value *s2 = weft_state(x, "s", 0, NULL, ones);
    weft_assign(s2, weft_offset(s2, 3));
    weft_output(weft_add(s, x), "y1"); /* built last, but s is the value read first */
    weft_output(weft_add(s2, x), "y2");
    rig r = rig_open(m, NULL);
    float feed = 0, y1 = 0, y2 = 0;
    weft_status status = weft_run(r.session, "g", (weft_feed[]){{"x", &feed, 4}}, 1,
                                  (weft_fetch[]){{"y1", &y1, 4}, {"y2", &y2, 4}}, 2, &r.error);
    CHECK_SAYS(status == WEFT_OK, "%s", r.error.text);
    CHECK_SAYS(y1 == 1 && y2 == 2 && get(&r, "s") == 5, "y1 %g, y2 %g, s %g", y1, y2, get(&r, "s"));
    rig_close(&r);
    weft_model_free(m);
}

/* Of the unbiased variance of a batch it is 2 (x - mean) / (n - 1), of the mean 1 / n. */
TEST(gradients_flow_through_statistics_of_a_batch) {
    enum { N = 6, C = 2 };
    weft_model *m = weft_model_new("m");
    weft_graph *g = weft_graph_new(m, "g", WEFT_EVAL);
    weft_value *x = weft_input(g, "x", WEFT_F32, WEFT_SHAPE(N, C)), *mean, *variance, *d;
    weft_value *w = weft_constant(g, WEFT_F32, WEFT_SHAPE(C), 2),
               *b = weft_constant(g, WEFT_F32, WEFT_SHAPE(C), 1);
    weft_batch_norm_op(x, w, b, 0, &mean, &variance);
    weft_value *loss = weft_sum(weft_add(weft_scale(mean, 5), weft_scale(variance, 3)), WEFT_ALL, false);
    weft_gradients(loss, 1, &x, &d);
    weft_output(d, "d");
    weft_output(variance, "variance");
    rig r = rig_open(m, NULL);
    float in[N * C], out[N * C], of_batch[C];
    for (int i = 0; i < N * C; i++) in[i] = (float)sin(1 + 3 * i);
    CHECK_SAYS(!weft_run(r.session, "g", &(weft_feed){"x", in, sizeof in}, 1,
                         (weft_fetch[]){{"d", out, sizeof out}, {"variance", of_batch, sizeof of_batch}}, 2,
                         &r.error),
               "%s", r.error.text);
    for (int c = 0; c < C; c++) {
        double sum = 0, squares = 0;
        for (int i = 0; i < N; i++) sum += in[i * C + c];
        for (int i = 0; i < N; i++) squares += pow(in[i * C + c] - sum / N, 2);
        CHECK(fabs(of_batch[c] - squares / (N - 1)) < 1e-6);
        for (int i = 0; i < N; i++)
            CHECK(fabs(out[i * C + c] - (5. / N + 3 * 2 * (in[i * C + c] - sum / N) / (N - 1))) < 1e-5);
    }
    rig_close(&r);
    weft_model_free(m);
}

/* A garbage collector frees in any order; two sessions may hold one store. */
TEST(a_session_holds_its_plan_and_its_store) {
    weft_model *m = weft_model_new("m");
    weft_graph *g = weft_graph_new(m, "g", WEFT_TRAIN);
    weft_value *x = weft_input(g, "x", WEFT_F32, WEFT_SHAPE(2, 3));
    weft_value *loss = weft_mean(weft_square(weft_linear(x, 4, "fc", NULL)), WEFT_ALL, false);
    weft_minimize(loss, "", &(weft_optimizer){.type = "adam"});
    weft_output(loss, "loss");
    weft_error e = {0};
    weft_plan *plan = weft_compile(m, NULL, &e);
    weft_store *store = weft_store_new(plan, 1, &e);
    weft_session *first = weft_session_open(plan, store, &e), *second = weft_session_open(plan, store, &e);
    NEED(first && second);
    weft_model_free(m);
    weft_plan_free(plan);
    weft_store_free(store);
    const float data[6] = {1, 2, 3, 4, 5, 6};
    float losses[2] = {0};
    for (int i = 0; i < 2; i++) {
        weft_session *s = i ? second : first;
        CHECK(!weft_run(s, "g", &(weft_feed){"x", data, sizeof data}, 1, &(weft_fetch){"loss", &losses[i], 4},
                        1, &e));
        weft_session_close(s);
    }
    CHECK_SAYS(losses[1] < losses[0], "%g, then %g", losses[0], losses[1]);
}

/* s = mean(a a^T), then s = mean(b). The second is ready first, and b's memory free the sooner, the sooner s
 * takes it. */
TEST(the_write_that_was_built_last_is_the_last) {
    static const int64_t square[] = {200, 200};
    weft_model *m = weft_model_new("m");
    weft_graph *g = weft_graph_new(m, "g", WEFT_EVAL);
    weft_value *b = weft_random_uniform(g, 2, square, 3, 4);
    weft_value *s = weft_state(b, "s", 0, NULL, ones);
    weft_value *a = weft_random_uniform(g, 2, square, 0, 1);
    weft_assign(s, weft_mean(weft_matmul(a, a, false, true), WEFT_ALL, false));
    weft_assign(s, weft_mean(b, WEFT_ALL, false));
    rig r = rig_open(m, &(weft_compile_options){.verify = true});
    CHECK_SAYS(weft_run(r.session, "g", NULL, 0, NULL, 0, &r.error) == WEFT_OK, "%s", r.error.text);
    CHECK_SAYS(get(&r, "s") > 3 && get(&r, "s") < 4, "%g: not the mean of what was built last", get(&r, "s"));
    rig_close(&r);
    weft_model_free(m);
}

/* loss_a = a b, loss_b = a b: with both read as of the start a' = a - lr b and b' = b - lr a. */
TEST(two_minimize_calls_of_a_graph_take_effect_together) {
    weft_model *m = weft_model_new("m");
    weft_graph *g = weft_graph_new(m, "g", WEFT_TRAIN);
    weft_value *a = NULL, *b = NULL;
    WEFT_GRAPH_SCOPE(g, "left") a = scalar_parameter(g, "a");
    WEFT_GRAPH_SCOPE(g, "right") b = scalar_parameter(g, "b");
    weft_minimize(weft_mul(a, weft_scale(b, 2)), "left", &(weft_optimizer){.type = "sgd", .lr = 0.1});
    weft_minimize(weft_mul(a, weft_scale(b, 3)), "right", &(weft_optimizer){.type = "sgd", .lr = 0.1});
    rig r = rig_open(m, NULL);
    CHECK(weft_run(r.session, "g", NULL, 0, NULL, 0, &r.error) == WEFT_OK);
    CHECK(fabsf(get(&r, "left/a") - 0.8f) < 1e-6f);
    CHECK(fabsf(get(&r, "right/b") - 0.7f) < 1e-6f);
    rig_close(&r);
    weft_model_free(m);
}

/* One parameter used twice in a graph and trained by two graphs with one optimizer. */
TEST(a_parameter_used_twice_gets_the_sum_of_its_gradients) {
    weft_model *m = weft_model_new("m");
    static const char *const names[] = {"one", "two"};
    for (int i = 0; i < 2; i++) {
        weft_graph *g = weft_graph_new(m, names[i], WEFT_TRAIN);
        weft_value *w = NULL;
        WEFT_GRAPH_SCOPE(g, "net") w = scalar_parameter(g, "w");
        weft_value *again = NULL;
        WEFT_GRAPH_SCOPE(g, "net") again = scalar_parameter(g, "w");
        weft_value *loss = weft_add(weft_scale(w, 2), weft_mul(again, again)); /* d/dw = 2 + 2 w */
        weft_minimize(loss, "net", &(weft_optimizer){.type = "sgd", .lr = 0.1, .momentum = 0.5});
        weft_output(loss, "loss");
    }
    rig r = rig_open(m, NULL);
    CHECK(weft_run(r.session, "one", NULL, 0, NULL, 0, &r.error) == WEFT_OK);
    CHECK(fabsf(get(&r, "net/w") - 0.6f) < 1e-6f); /* gradient 4, buffer 4 */
    CHECK(weft_run(r.session, "two", NULL, 0, NULL, 0, &r.error) == WEFT_OK);
    CHECK_SAYS(fabsf(get(&r, "net/w") - 0.08f) < 1e-6f, "%g", get(&r, "net/w")); /* 3.2 + 0.5 * 4 = 5.2 */
    rig_close(&r);
    weft_model_free(m);
}

/* ---- a small model with everything that repeats: dropout, batch norm, adam with clipping ---- */

enum { BATCH = 12, IN = 5 };

static weft_value *network(weft_value *x) {
    WEFT_SCOPE(x, "net") {
        x = weft_linear(x, 16, "fc1", NULL);
        x = weft_dropout(weft_relu(weft_batch_norm(x, "bn", NULL)), 0.25);
        x = weft_linear(x, 3, "fc2", NULL);
    }
    return x;
}

static weft_model *small_model(double clip_norm) {
    weft_model *m = weft_model_new("small");
    weft_model_set_batch(m, BATCH);
    weft_graph *g = weft_graph_new(m, "step", WEFT_TRAIN);
    weft_value *x = weft_input(g, "x", WEFT_F32, 2, (int64_t[]){WEFT_BATCH, IN});
    weft_value *y = weft_input(g, "y", WEFT_U8, 1, (int64_t[]){WEFT_BATCH});
    weft_value *loss = weft_cross_entropy(network(x), y, NULL);
    weft_minimize(loss, "net", &(weft_optimizer){.type = "adam", .lr = 1e-2, .clip_norm = clip_norm});
    weft_output(loss, "loss");
    weft_graph *p = weft_graph_new(m, "predict", WEFT_EVAL);
    weft_output(network(weft_input(p, "x", WEFT_F32, 2, (int64_t[]){WEFT_BATCH, IN})), "logits");
    CHECK_SAYS(weft_model_error(m)->status == WEFT_OK, "%s", weft_model_error(m)->text);
    return m;
}

static void make_batch(float *x, uint8_t *y, int step) {
    test_random random = {(uint64_t)step + 1};
    for (int i = 0; i < BATCH * IN; i++) x[i] = (float)random_in(&random, -1, 1);
    for (int i = 0; i < BATCH; i++) y[i] = (uint8_t)(random_bits(&random) % 3);
}

static void train(rig *r, int steps, float *losses) {
    float x[BATCH * IN];
    uint8_t y[BATCH];
    for (int i = 0; i < steps; i++) {
        make_batch(x, y, i);
        weft_status status =
            weft_run(r->session, "step", (weft_feed[]){{"x", x, sizeof x}, {"y", y, sizeof y}}, 2,
                     (weft_fetch[]){{"loss", &losses[i], 4}}, 1, &r->error);
        CHECK_SAYS(status == WEFT_OK, "%s", r->error.text);
    }
}

TEST(two_runs_of_one_model_give_the_same_bits) {
    float losses[2][20], weights[2][16 * IN];
    for (int i = 0; i < 2; i++) {
        weft_model *m = small_model(0.5);
        rig r = rig_open(m, NULL);
        train(&r, 20, losses[i]);
        CHECK(weft_store_get(r.store, "net/fc1/weight", weights[i], sizeof weights[i], NULL) == WEFT_OK);
        rig_close(&r);
        weft_model_free(m);
    }
    CHECK(memcmp(losses[0], losses[1], sizeof losses[0]) == 0);
    CHECK(memcmp(weights[0], weights[1], sizeof weights[0]) == 0);
    CHECK(losses[0][19] < losses[0][0]);
}

TEST(fast_kernels_train_as_the_reference_does) {
    float losses[2][10];
    for (int i = 0; i < 2; i++) {
        weft_model *m = small_model(0.5);
        rig r = rig_open(
            m, &(weft_compile_options){.isa = i ? WEFT_ISA_AUTO : WEFT_ISA_REFERENCE, .verify = true});
        train(&r, 10, losses[i]);
        rig_close(&r);
        weft_model_free(m);
    }
    for (int i = 0; i < 10; i++)
        CHECK_SAYS(fabsf(losses[0][i] - losses[1][i]) < 1e-5f * fabsf(losses[0][i]), "step %d: %g and %g", i,
                   losses[0][i], losses[1][i]);
}

/* Predict at batch 1 and 7 on the store that a training session at 12 uses. */
TEST(sessions_of_other_batch_sizes_share_a_store) {
    weft_model *m = small_model(0);
    rig r = rig_open(m, NULL);
    float losses[5], x[7 * IN], one[3], seven[7 * 3];
    train(&r, 5, losses);
    for (int i = 0; i < 7 * IN; i++) x[i] = (float)sin(i);
    weft_plan *p1 = weft_compile(m, &(weft_compile_options){.batch = 1, .graph = "predict"}, &r.error);
    weft_plan *p7 = weft_compile(m, &(weft_compile_options){.batch = 7, .graph = "predict"}, &r.error);
    weft_session *s1 = weft_session_open(p1, r.store, &r.error),
                 *s7 = weft_session_open(p7, r.store, &r.error);
    NEED(s1 && s7);
    CHECK(weft_run(s7, "predict", (weft_feed[]){{"x", x, sizeof x}}, 1,
                   (weft_fetch[]){{"logits", seven, sizeof seven}}, 1, NULL) == WEFT_OK);
    for (int i = 0; i < 7; i++) {
        CHECK(weft_run(s1, "predict", (weft_feed[]){{"x", x + i * IN, IN * 4}}, 1,
                       (weft_fetch[]){{"logits", one, sizeof one}}, 1, NULL) == WEFT_OK);
        for (int k = 0; k < 3; k++) CHECK(fabsf(one[k] - seven[3 * i + k]) < 1e-5f);
    }
    weft_session_close(s1);
    weft_session_close(s7);
    weft_plan_free(p1);
    weft_plan_free(p7);
    rig_close(&r);
    weft_model_free(m);
}

/* ---- accumulation: two micro-batches of 4 are one batch of 8, except for rounding ---- */

static weft_model *linear_model(double clip_norm) {
    weft_model *m = weft_model_new("linear");
    weft_model_set_batch(m, 8);
    weft_graph *g = weft_graph_new(m, "step", WEFT_TRAIN);
    weft_value *x = weft_input(g, "x", WEFT_F32, 2, (int64_t[]){WEFT_BATCH, IN});
    weft_value *t = weft_input(g, "t", WEFT_F32, 2, (int64_t[]){WEFT_BATCH, 2});
    weft_value *y = x;
    WEFT_SCOPE(x, "net") y = weft_linear(weft_tanh(weft_linear(x, 9, "a", NULL)), 2, "b", NULL);
    weft_value *loss = weft_mse(y, t, NULL);
    weft_minimize(loss, "net", &(weft_optimizer){.type = "adamw", .lr = 1e-2, .clip_norm = clip_norm});
    weft_output(loss, "loss");
    return m;
}

static void train_linear(int64_t batch, int accumulate, double clip_norm, float weights[9 * IN]) {
    weft_model *m = linear_model(clip_norm);
    rig r = rig_open(m, &(weft_compile_options){.batch = batch, .accumulate = accumulate, .verify = true});
    float x[8 * IN], t[8 * 2];
    for (int step = 0; step < 6; step++) {
        test_random random = {(uint64_t)step + 99};
        for (int i = 0; i < 8 * IN; i++) x[i] = (float)random_in(&random, -1, 1);
        for (int i = 0; i < 16; i++) t[i] = (float)random_in(&random, -1, 1);
        for (int k = 0; k < 8 / batch; k++) {
            weft_feed feeds[] = {{"x", x + k * batch * IN, (size_t)batch * IN * 4},
                                 {"t", t + k * batch * 2, (size_t)batch * 8}};
            CHECK_SAYS(weft_run(r.session, "step", feeds, 2, NULL, 0, &r.error) == WEFT_OK, "%s",
                       r.error.text);
        }
    }
    CHECK(weft_store_get(r.store, "net/a/weight", weights, 9 * IN * 4, NULL) == WEFT_OK);
    CHECK((weft_plan_memory(r.plan).gradients > 0) == (accumulate > 1));
    rig_close(&r);
    weft_model_free(m);
}

TEST(micro_batches_add_up_to_the_batch) {
    static const double clips[] = {0, 0.05};
    for (int c = 0; c < 2; c++) {
        float whole[9 * IN], halves[9 * IN], quarters[9 * IN];
        train_linear(8, 1, clips[c], whole);
        train_linear(4, 2, clips[c], halves);
        train_linear(2, 4, clips[c], quarters);
        for (int i = 0; i < 9 * IN; i++) {
            CHECK_SAYS(fabsf(whole[i] - halves[i]) < 1e-5f, "clip %g, %d: %g and %g", clips[c], i, whole[i],
                       halves[i]);
            CHECK_SAYS(fabsf(whole[i] - quarters[i]) < 1e-5f, "clip %g, %d: %g and %g", clips[c], i, whole[i],
                       quarters[i]);
        }
    }
}

/* ---- wrong calls: one clear error each, and the session continues ---- */

TEST(wrong_feeds_are_named) {
    weft_model *m = small_model(0);
    rig r = rig_open(m, NULL);
    float x[BATCH * IN] = {0};
    uint8_t y[BATCH] = {0};
    weft_feed both[] = {{"x", x, sizeof x}, {"y", y, sizeof y}};
    struct {
        weft_feed feeds[2];
        int n;
        const char *says;
    } cases[] = {
        {{{"x", x, sizeof x}}, 1, "input 'y' (u8[12]) is not fed"},
        {{{"x", x, sizeof x}, {"z", y, sizeof y}}, 2, "has no input 'z'"},
        {{{"x", x, sizeof x}, {"x", x, sizeof x}}, 2, "fed twice"},
        {{{"x", x, 4}, {"y", y, sizeof y}}, 2, "input 'x' is f32[12,5], 240 bytes; it was fed 4"},
        {{{"x", (char *)x + 1, sizeof x}, {"y", y, sizeof y}}, 2, "not aligned"},
        {{{"x", NULL, sizeof x}, {"y", y, sizeof y}}, 2, "NULL"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        CHECK(weft_run(r.session, "step", cases[i].feeds, cases[i].n, NULL, 0, &r.error) != WEFT_OK);
        CHECK_HOLDS(r.error.text, cases[i].says);
    }
    float loss[2];
    CHECK(weft_run(r.session, "step", both, 2, (weft_fetch[]){{"loss", loss, 8}}, 1, &r.error) == WEFT_SHAPE);
    CHECK(weft_run(r.session, "nope", both, 2, NULL, 0, &r.error) == WEFT_NAME);
    y[3] = 3;
    CHECK(weft_run(r.session, "step", both, 2, NULL, 0, &r.error) == WEFT_DATA);
    CHECK_HOLDS(r.error.text, "cross_entropy");
    y[3] = 2;
    CHECK(weft_run(r.session, "step", both, 2, NULL, 0, &r.error) == WEFT_OK);
    rig_close(&r);
    weft_model_free(m);
}

TEST(errors_name_the_place_the_scope_and_both_shapes) {
    weft_model *m = weft_model_new("m");
    weft_graph *g = weft_graph_new(m, "g", WEFT_TRAIN);
    weft_value *a = weft_input(g, "a", WEFT_F32, 2, (int64_t[]){128, 64});
    weft_value *b = weft_input(g, "b", WEFT_F32, 1, (int64_t[]){10});
    weft_value *c = a;
    WEFT_SCOPE(a, "generator") WEFT_SCOPE(a, "fc") c = weft_relu(weft_add(a, b));
    CHECK(c == NULL && weft_relu(c) == NULL);
    CHECK_HOLDS(weft_model_error(m)->text, "test_session.c:");
    CHECK_HOLDS(weft_model_error(m)->text,
                "in generator/fc: add: f32[128,64] and f32[10] do not broadcast: axis -1 is 64 and 10");
    weft_error error;
    CHECK(weft_compile(m, NULL, &error) == NULL);
    CHECK_TEXT(error.text, weft_model_error(m)->text);
    weft_model_free(m);
}

TEST(minimizing_over_an_unreached_parameter_is_an_error) {
    weft_model *m = weft_model_new("m");
    weft_graph *g = weft_graph_new(m, "g", WEFT_TRAIN);
    weft_value *w = NULL;
    WEFT_GRAPH_SCOPE(g, "net") {
        w = scalar_parameter(g, "used");
        scalar_parameter(g, "unused");
    }
    weft_minimize(weft_square(w), "net", &(weft_optimizer){.type = "sgd"});
    weft_error error = {0};
    CHECK(weft_compile(m, NULL, &error) == NULL);
    CHECK_HOLDS(error.text, "does not depend on parameter net/unused");
    weft_freeze(m, "net/unused");
    weft_plan *plan = weft_compile(m, NULL, &error);
    CHECK_SAYS(plan != NULL, "%s", error.text);
    weft_plan_free(plan);
    weft_model_free(m);
}

/* ---- derived values: a convolution's packed weight follows its parameter ---- */

static weft_value *small_conv(weft_value *x) {
    WEFT_SCOPE(x, "net") x = weft_conv2d(x, &(weft_conv){.out = 16, .kernel = 3, .pad = 1}, "conv");
    return x;
}

TEST(packed_weights_follow_every_change_of_their_parameter) {
    enum { PIXELS = 2 * 16 * 6 * 6 };
    weft_model *m = weft_model_new("m");
    weft_graph *t = weft_graph_new(m, "train", WEFT_TRAIN), *p = weft_graph_new(m, "predict", WEFT_EVAL);
    weft_value *x = weft_input(t, "x", WEFT_F32, 4, (int64_t[]){2, 16, 6, 6});
    weft_minimize(weft_mean(weft_square(small_conv(x)), WEFT_ALL, false), "net",
                  &(weft_optimizer){.type = "sgd", .lr = 0.5});
    weft_output(small_conv(weft_input(p, "x", WEFT_F32, 4, (int64_t[]){2, 16, 6, 6})), "y");
    static float in[PIXELS], y[2][PIXELS], weight[16 * 16 * 9];
    test_random random = {3};
    for (int i = 0; i < PIXELS; i++) in[i] = (float)random_in(&random, -1, 1);
    rig r = rig_open(m, NULL);
    weft_plan *plain_plan = weft_compile(m, &(weft_compile_options){.isa = WEFT_ISA_REFERENCE}, &r.error);
    weft_session *plain = weft_session_open(plain_plan, r.store, &r.error);
    NEED(plain);
    weft_feed feed = {"x", in, sizeof in};
    for (int round = 0; round < 4; round++) {
        if (round == 2) { /* set by hand */
            for (size_t i = 0; i < sizeof weight / 4; i++) weight[i] = (float)random_in(&random, -1, 1);
            CHECK(weft_store_set(r.store, "net/conv/weight", weight, sizeof weight, NULL) == WEFT_OK);
        } else if (round) { /* trained, by one session or the other */
            CHECK(weft_run(round == 1 ? r.session : plain, "train", &feed, 1, NULL, 0, &r.error) == WEFT_OK);
        }
        CHECK(weft_run(r.session, "predict", &feed, 1, (weft_fetch[]){{"y", y[0], sizeof y[0]}}, 1,
                       &r.error) == WEFT_OK);
        CHECK(weft_run(plain, "predict", &feed, 1, (weft_fetch[]){{"y", y[1], sizeof y[1]}}, 1, &r.error) ==
              WEFT_OK);
        float most = 0;
        for (int i = 0; i < PIXELS; i++) most = fmaxf(most, fabsf(y[0][i] - y[1][i]));
        CHECK_SAYS(most < 1e-4f, "round %d: off by %g", round, most);
    }
    weft_session_close(plain);
    weft_plan_free(plain_plan);
    rig_close(&r);
    weft_model_free(m);
}

/* ---- memory: exactly the plan's bytes, once ---- */

typedef struct counted {
    size_t calls, bytes, large; /* large: bytes of single blocks of at least a page */
} counted;

static void *counting_alloc(void *context, size_t bytes, size_t alignment) {
    counted *c = context;
    c->calls++;
    c->bytes += bytes;
    void *memory = NULL;
    return posix_memalign(&memory, alignment, bytes) ? NULL : memory;
}

static void counting_free(void *context, void *memory, size_t bytes) {
    counted *c = context;
    c->bytes -= bytes;
    free(memory);
}

TEST(store_and_session_take_the_plans_bytes_and_steps_take_none) {
    counted c = {0};
    weft_allocator allocator = {counting_alloc, counting_free, &c};
    weft_env env = {.allocator = &allocator};
    weft_model *m = weft_model_new_in("m", &env);
    weft_model_set_batch(m, 64);
    weft_graph *g = weft_graph_new(m, "step", WEFT_TRAIN);
    weft_value *x = weft_input(g, "x", WEFT_F32, 2, (int64_t[]){WEFT_BATCH, 256});
    weft_value *y = x;
    WEFT_SCOPE(x, "net") y = weft_linear(weft_relu(weft_linear(x, 512, "a", NULL)), 256, "b", NULL);
    weft_minimize(weft_mse(y, x, NULL), "net", &(weft_optimizer){.type = "adam"});
    rig r = {0};
    r.plan = weft_compile(m, NULL, &r.error);
    NEED(r.plan);
    size_t before = c.bytes;
    r.store = weft_store_new(r.plan, 1, &r.error);
    r.session = weft_session_open(r.plan, r.store, &r.error);
    NEED(r.session);
    size_t taken = c.bytes - before, total = weft_plan_memory(r.plan).total;
    /* beside tensors: some tens of KiB of paths and prepared calls */
    CHECK_SAYS(taken >= total && taken < total + 256 * 1024, "took %zu, the plan says %zu", taken, total);
    float *feed = test_memory(64 * 256 * 4);
    memset(feed, 0, 64 * 256 * 4);
    size_t calls = c.calls;
    for (int i = 0; i < 5; i++)
        CHECK(weft_run(r.session, "step", (weft_feed[]){{"x", feed, 64 * 256 * 4}}, 1, NULL, 0, &r.error) ==
              WEFT_OK);
    CHECK(c.calls == calls);
    free(feed);
    rig_close(&r);
    weft_model_free(m);
    CHECK_SAYS(c.bytes == 0, "%zu bytes are left", c.bytes);
}

/* Every live block, to tell tensors from the rest. */
typedef struct blocks {
    size_t n, bytes[20000];
    void *at[20000];
} blocks;

static void *blocks_alloc(void *context, size_t bytes, size_t alignment) {
    blocks *b = context;
    void *memory = NULL;
    if (b->n == sizeof b->at / sizeof *b->at || posix_memalign(&memory, alignment, bytes)) return NULL;
    b->at[b->n] = memory;
    b->bytes[b->n++] = bytes;
    return memory;
}

static void blocks_free(void *context, void *memory, size_t bytes) {
    blocks *b = context;
    size_t i = b->n;
    while (i && b->at[i - 1] != memory) i--;
    if (CHECK(i && b->bytes[i - 1] == bytes)) {
        b->n--;
        b->at[i - 1] = b->at[b->n];
        b->bytes[i - 1] = b->bytes[b->n];
    }
    free(memory);
}

/* One block for the store's tensors, one for the session's, of the plan's bytes each; the rest are lists of
 * paths, steps and kernels' settings, at most 3 KiB a node. */
static void check_memory(const zoo_entry *z) {
    static blocks b;
    weft_error e = {0};
    weft_allocator allocator = {blocks_alloc, blocks_free, &b};
    weft_model *m = weft_model_new_in(z->name, &(weft_env){.allocator = &allocator});
    zoo_options o = z->own ? *z->own : (zoo_options)ZOO_DEFAULTS;
    o.batch = 2;
    weft_model_set_batch(m, o.batch);
    z->build(m, &o);
    weft_plan *plan = weft_compile(m, &(weft_compile_options){.threads = 2}, &e);
    CHECK_SAYS(plan != NULL, "%s: %s", z->name, e.text);
    weft_memory want = weft_plan_memory(plan);
    uint64_t stored = want.parameters + want.gradients + want.optimizer, rest = 0, own = want.total - stored;
    size_t before = b.n, nodes = 0;
    char *text = weft_plan_text(plan);
    for (const char *at = text; at && (at = strstr(at, "\n%")); at++) nodes++;
    weft_text_free(text);
    weft_store *store = weft_store_new(plan, 1, &e);
    weft_session *s = weft_session_open(plan, store, &e);
    CHECK_SAYS(s != NULL, "%s: %s", z->name, e.text);
    for (size_t i = before; i < b.n; i++)
        if (stored && b.bytes[i] == stored)
            stored = 0;
        else if (own && b.bytes[i] == own)
            own = 0;
        else
            rest += b.bytes[i];
    CHECK_SAYS(!stored && !own, "%s: no block of %llu and of %llu bytes", z->name, (unsigned long long)stored,
               (unsigned long long)own);
    CHECK_SAYS(rest < 131072 + 3072 * nodes, "%s: %llu bytes beside tensors, for %zu nodes", z->name,
               (unsigned long long)rest, nodes);
    weft_session_close(s);
    weft_store_free(store);
    weft_plan_free(plan);
    weft_model_free(m);
    CHECK(b.n == 0);
}

TEST(tensors_of_the_zoos_models_take_the_plans_bytes_exactly) {
    for (int i = 0; i < ZOO_MODELS; i++)
        if (strcmp(zoo_models[i].name, "gpt2_124m")) check_memory(&zoo_models[i]); /* it fills 1.5 GB */
}

/* ---- batch_norm without what it has by default ---- */

enum { BN_ROWS = 4, BN_CHANNELS = 2, BN_BATCHES = 3 };

static weft_value *plain_norm(weft_graph *g, bool has_statistics) {
    weft_value *x = weft_input(g, "x", WEFT_F32, WEFT_SHAPE(BN_ROWS, BN_CHANNELS));
    weft_batch_norm_options o = {
        .no_weight = true, .cumulative = has_statistics, .no_statistics = !has_statistics};
    return weft_batch_norm(x, "bn", &o);
}

/* The mean and the unbiased variance of a channel. */
static void statistics(const float (*x)[BN_CHANNELS], int channel, double *mean, double *variance) {
    *mean = *variance = 0;
    for (int i = 0; i < BN_ROWS; i++) *mean += (double)x[i][channel] / BN_ROWS;
    for (int i = 0; i < BN_ROWS; i++) *variance += pow((double)x[i][channel] - *mean, 2) / (BN_ROWS - 1);
}

/* Momentum None of PyTorch: running statistics are means over the batches that were seen. */
TEST(batch_norm_takes_the_mean_over_all_batches) {
    float x[BN_ROWS][BN_CHANNELS], y[BN_ROWS][BN_CHANNELS], kept[BN_CHANNELS];
    double sums[2][BN_CHANNELS] = {{0}};
    int64_t count = 0;
    weft_model *m = weft_model_new("m");
    weft_output(plain_norm(weft_graph_new(m, "step", WEFT_TRAIN), true), "y");
    weft_output(plain_norm(weft_graph_new(m, "val", WEFT_EVAL), true), "y");
    rig r = rig_open(m, &(weft_compile_options){.verify = true});
    for (int b = 0; r.session && b < BN_BATCHES; b++) {
        for (int i = 0; i < BN_ROWS * BN_CHANNELS; i++)
            x[i / BN_CHANNELS][i % BN_CHANNELS] = (float)((i * 7 + b * 5) % 11);
        CHECK(!weft_run(r.session, "step", &(weft_feed){"x", x, sizeof x}, 1, NULL, 0, &r.error));
        for (int k = 0; k < BN_CHANNELS; k++) {
            double mean, variance;
            statistics(x, k, &mean, &variance);
            sums[0][k] += mean / BN_BATCHES, sums[1][k] += variance / BN_BATCHES;
        }
    }
    if (r.session) {
        CHECK(!weft_run(r.session, "val", &(weft_feed){"x", x, sizeof x}, 1, &(weft_fetch){"y", y, sizeof y},
                        1, &r.error));
        CHECK(!weft_store_get(r.store, "bn/num_batches_tracked", &count, sizeof count, &r.error) &&
              count == 3);
        for (int s = 0; s < 2; s++) {
            CHECK(!weft_store_get(r.store, s ? "bn/running_var" : "bn/running_mean", kept, sizeof kept,
                                  &r.error));
            for (int k = 0; k < BN_CHANNELS; k++)
                CHECK_SAYS(fabs((double)kept[k] - sums[s][k]) < 1e-5, "%d %d: %g", s, k, (double)kept[k]);
        }
        for (int i = 0; i < BN_ROWS * BN_CHANNELS; i++) {
            int k = i % BN_CHANNELS;
            double want =
                ((double)x[i / BN_CHANNELS][i % BN_CHANNELS] - sums[0][k]) / sqrt(sums[1][k] + 1e-5);
            CHECK_SAYS(fabs((double)y[i / BN_CHANNELS][i % BN_CHANNELS] - want) < 1e-5, "%d: %g, not %g", i,
                       (double)y[i / BN_CHANNELS][i % BN_CHANNELS], want);
        }
    }
    CHECK_SAYS(!r.error.status, "%s", r.error.text);
    rig_close(&r);
    weft_model_free(m);
}

/* Without running statistics an eval graph takes the batch's, which are biased in y. */
TEST(batch_norm_without_statistics_keeps_no_state) {
    float x[BN_ROWS][BN_CHANNELS], y[BN_ROWS][BN_CHANNELS];
    weft_parameter_info none;
    weft_model *m = weft_model_new("m");
    weft_output(plain_norm(weft_graph_new(m, "val", WEFT_EVAL), false), "y");
    CHECK(!weft_model_parameter(m, "", 0, &none));
    rig r = rig_open(m, &(weft_compile_options){.verify = true});
    for (int i = 0; i < BN_ROWS * BN_CHANNELS; i++) x[i / BN_CHANNELS][i % BN_CHANNELS] = (float)(i * 7 % 11);
    if (r.session)
        CHECK(!weft_run(r.session, "val", &(weft_feed){"x", x, sizeof x}, 1, &(weft_fetch){"y", y, sizeof y},
                        1, &r.error));
    for (int i = 0; i < BN_ROWS * BN_CHANNELS; i++) {
        double mean, variance;
        statistics(x, i % BN_CHANNELS, &mean, &variance);
        double want = ((double)x[i / BN_CHANNELS][i % BN_CHANNELS] - mean) /
                      sqrt(variance * (BN_ROWS - 1) / BN_ROWS + 1e-5);
        CHECK_SAYS(fabs((double)y[i / BN_CHANNELS][i % BN_CHANNELS] - want) < 1e-5, "%d: %g, not %g", i,
                   (double)y[i / BN_CHANNELS][i % BN_CHANNELS], want);
    }
    rig_close(&r);
    weft_model_free(m);
}

SUITE("session",
      {T(state_is_read_as_the_last_earlier_write_left_it), T(gradients_flow_through_statistics_of_a_batch),
       T(a_session_holds_its_plan_and_its_store), T(the_write_that_was_built_last_is_the_last),
       T(two_minimize_calls_of_a_graph_take_effect_together),
       T(a_parameter_used_twice_gets_the_sum_of_its_gradients), T(two_runs_of_one_model_give_the_same_bits),
       T(fast_kernels_train_as_the_reference_does), T(sessions_of_other_batch_sizes_share_a_store),
       T(micro_batches_add_up_to_the_batch), T(wrong_feeds_are_named),
       T(errors_name_the_place_the_scope_and_both_shapes),
       T(minimizing_over_an_unreached_parameter_is_an_error),
       T(tensors_of_the_zoos_models_take_the_plans_bytes_exactly),
       T(packed_weights_follow_every_change_of_their_parameter),
       T(batch_norm_takes_the_mean_over_all_batches), T(batch_norm_without_statistics_keeps_no_state),
       T(store_and_session_take_the_plans_bytes_and_steps_take_none)})
