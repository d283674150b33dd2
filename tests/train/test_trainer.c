/* test_trainer.c - the trainer against loops written by hand over weft_run: the same bits; its epochs, hooks,
 * validations and predictions; what is refused, stopped and continued with. */
#include "support/ranks.h"
#include "support/test.h"
#include "weft/weft.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BATCH = 4, SAMPLES = 46, WIDTH = 3, PER_EPOCH = SAMPLES / BATCH };

/* ---- data: sample i is (i, i / 2, 1 / (i + 1)), its target the sine of i ---- */

static weft_status read_sample(void *context, int64_t i, void *const *into, weft_error *error) {
    float *x = into[0], *t = into[1];
    (void)context, (void)error;
    x[0] = (float)i / 40, x[1] = (float)i / 80, x[2] = 1 / (float)(i + 1);
    *t = (float)sin((double)i);
    return WEFT_OK;
}

static const weft_source samples = {.count = SAMPLES,
                                    .n = 2,
                                    .arrays = {{"x", WEFT_F32, 1, {WIDTH}}, {"t", WEFT_F32, 1, {1}}},
                                    .read = read_sample};
static const weft_source *const list[] = {&samples};
#define DATA                                                                                                 \
    { 1, list, NULL }

/* ---- a model: a and b train parts of a network, val measures it, predict shows it ---- */

static weft_value *network(weft_value *x) {
    WEFT_SCOPE(x, "left") x = weft_tanh(weft_linear(x, 8, "fc", NULL));
    WEFT_SCOPE(x, "right") x = weft_linear(x, 1, "fc", NULL);
    return x;
}

static weft_value *input(weft_graph *g, const char *name, int64_t width) {
    return weft_input(g, name, WEFT_F32, WEFT_SHAPE(WEFT_BATCH, width));
}

static void add_graph(weft_model *m, const char *name, weft_mode mode, const char *pattern, double ema) {
    weft_graph *g = weft_graph_new(m, name, mode);
    weft_value *loss = weft_mse(network(input(g, "x", WIDTH)), input(g, "t", 1), NULL);
    if (mode == WEFT_TRAIN)
        weft_minimize(loss, pattern, &(weft_optimizer){.type = "adam", .lr = 1e-2, .ema = ema});
    weft_output(loss, "loss");
}

static weft_model *build_with(double ema) {
    weft_model *m = weft_model_new("m");
    weft_model_set_batch(m, BATCH);
    add_graph(m, "a", WEFT_TRAIN, "left", ema);
    add_graph(m, "b", WEFT_TRAIN, "right", ema);
    add_graph(m, "val", WEFT_EVAL, NULL, 0);
    weft_output(network(input(weft_graph_new(m, "predict", WEFT_EVAL), "x", WIDTH)), "y");
    return m;
}

static weft_model *build(void) {
    return build_with(0);
}

/* ---- by hand ---- */

typedef struct hand {
    weft_plan *plan;
    weft_store *store;
    weft_session *session;
    weft_loader *loader;
    weft_error e;
} hand;

static hand hand_new(const weft_model *m, uint64_t seed) {
    hand h = {.plan = NULL};
    weft_loader_options how = {.batch = BATCH, .shuffle = true, .drop_last = true, .seed = seed, .all = true};
    if ((h.plan = weft_compile(m, NULL, &h.e)) && (h.store = weft_store_new(h.plan, seed, &h.e)))
        h.session = weft_session_open(h.plan, h.store, &h.e);
    h.loader = weft_loader_new(1, list, &how, NULL, &h.e);
    CHECK_SAYS(h.session && h.loader, "%s", h.e.text);
    return h;
}

static double hand_run(hand *h, const char *graph, int64_t batch) {
    const void *data[2];
    int64_t rows = 0;
    float loss = 0;
    weft_loader_seek(h->loader, batch);
    CHECK_SAYS(weft_loader_next(h->loader, data, &rows, &h->e), "%s", h->e.text);
    weft_feed feeds[] = {{"x", data[0], BATCH * WIDTH * 4}, {"t", data[1], BATCH * 4}};
    weft_status status = weft_run(h->session, graph, feeds, 2, &(weft_fetch){"loss", &loss, 4}, 1, &h->e);
    CHECK_SAYS(status == WEFT_OK, "%s", h->e.text);
    return (double)loss;
}

static void hand_free(hand *h) {
    weft_loader_free(h->loader);
    weft_session_close(h->session);
    weft_store_free(h->store);
    weft_plan_free(h->plan);
}

/* All f32 values of two stores, bit by bit. */
static bool stores_equal(const weft_store *a, const weft_store *b) {
    const char *path;
    for (int i = 0; (path = weft_store_path(a, i)); i++) {
        weft_dtype dtype;
        int64_t shape[WEFT_MAX_NDIM], n = 1;
        int ndim = weft_store_shape(a, path, &dtype, shape);
        for (int k = 0; k < ndim; k++) n *= shape[k];
        if (dtype != WEFT_F32) continue;
        float x[256], y[256];
        if (n > 256 || weft_store_get(a, path, x, (size_t)n * 4, NULL) ||
            weft_store_get(b, path, y, (size_t)n * 4, NULL) || memcmp(x, y, (size_t)n * 4) != 0)
            return CHECK_SAYS(false, "%s differs", path);
    }
    return true;
}

/* ---- training ---- */

static weft_trainer *trainer_of(const weft_model *m, const weft_trainer_options *o) {
    weft_error e = {0};
    weft_trainer *t = weft_trainer_new(m, o, &e);
    CHECK_SAYS(t != NULL, "%s", e.text);
    return t;
}

/* "a*2 b": two batches an iteration, b on the second; five iterations of an epoch of eleven batches. */
TEST(a_flow_gives_the_bits_of_a_loop_by_hand) {
    weft_error e = {0};
    weft_model *m = build();
    weft_model_set_flow(m, "a*2 b");
    hand h = hand_new(m, 7);
    double a = 0, b = 0;
    for (int epoch = 0; epoch < 3; epoch++) {
        weft_loader_set_epoch(h.loader, epoch);
        for (int64_t k = 0; k + 2 <= PER_EPOCH; k += 2) {
            a = (hand_run(&h, "a", k) + hand_run(&h, "a", k + 1)) / 2;
            b = hand_run(&h, "b", k + 1);
        }
    }
    weft_trainer *t = trainer_of(m, &(weft_trainer_options){.seed = 7, .train = DATA, .epochs = 3});
    CHECK_SAYS(t && weft_trainer_fit(t, &e) == WEFT_OK, "%s", e.text);
    const weft_progress *p = weft_trainer_progress(t);
    CHECK(p->iteration == 15 && p->iterations == 15 && p->epoch == 3 && p->samples == 15 * 2 * BATCH);
    CHECK(weft_metrics_get(&p->train, "loss") == a && weft_metrics_get(&p->train, "b/loss") == b);
    CHECK(isnan(weft_metrics_get(&p->train, "c/loss")));
    CHECK(stores_equal(weft_trainer_store(t), h.store));
    weft_trainer_free(t);
    hand_free(&h);
    weft_model_free(m);
}

/* The same flow, said by calls. */
static weft_status two_and_one(weft_trainer *t, void *user, weft_error *error) {
    ++*(int *)user;
    weft_status status = weft_trainer_run(t, "a", WEFT_FLOW_NEXT, error);
    if (!status) status = weft_trainer_run(t, "a", WEFT_FLOW_NEXT, error);
    return status ? status : weft_trainer_run(t, "b", WEFT_FLOW_SAME, error);
}

TEST(a_step_of_ones_own_gives_the_same_bits) {
    weft_error e = {0};
    int calls = 0;
    weft_model *m = build(), *with_flow = build();
    weft_model_set_flow(with_flow, "a*2 b");
    weft_trainer *own = trainer_of(
        m, &(weft_trainer_options){.train = DATA, .epochs = 2, .train_step = two_and_one, .user = &calls});
    weft_trainer *flow = trainer_of(with_flow, &(weft_trainer_options){.train = DATA, .epochs = 2});
    CHECK_SAYS(weft_trainer_fit(own, &e) == WEFT_OK && weft_trainer_fit(flow, &e) == WEFT_OK, "%s", e.text);
    CHECK(calls == 10 && stores_equal(weft_trainer_store(own), weft_trainer_store(flow)));
    CHECK(weft_trainer_run(own, "a", WEFT_FLOW_NEXT, &e) == WEFT_ORDER);
    CHECK_HOLDS(e.text, "within options.train_step");
    weft_trainer_free(own);
    weft_trainer_free(flow);
    weft_model_free(m);
    weft_model_free(with_flow);
}

/* The same with updates as calls of their own. */
static weft_status by_hand(weft_trainer *t, void *user, weft_error *error) {
    static const char *const graphs[] = {"a", "a", "b"};
    weft_status status = WEFT_OK;
    (void)user;
    for (int i = 0; i < 3 && !status; i++) {
        status = weft_trainer_run(t, graphs[i], i < 2 ? WEFT_FLOW_NEXT : WEFT_FLOW_SAME, error);
        if (!status) status = weft_run_update(weft_trainer_session(t, NULL), graphs[i], error);
    }
    return status;
}

TEST(a_step_of_ones_own_may_update_by_itself) {
    weft_error e = {0};
    int calls = 0;
    weft_model *m = build();
    weft_trainer *t[2];
    for (int i = 0; i < 2; i++) {
        weft_trainer_options how = {.train = DATA, .val = DATA, .epochs = 1, .compile = {.accumulate = 2}};
        how.train_step = i ? by_hand : two_and_one;
        how.user = &calls;
        how.compile.manual = i;
        t[i] = trainer_of(m, &how);
        CHECK_SAYS(weft_trainer_fit(t[i], &e) == WEFT_OK, "%s", e.text);
    }
    CHECK(calls == 2 && stores_equal(weft_trainer_store(t[0]), weft_trainer_store(t[1])));
    for (int i = 0; i < 2; i++) weft_trainer_free(t[i]);
    weft_model_free(m);
}

static weft_status same_first(weft_trainer *t, void *user, weft_error *error) {
    (void)user;
    return weft_trainer_run(t, "a", WEFT_FLOW_SAME, error);
}

static weft_status no_such(weft_trainer *t, void *user, weft_error *error) {
    (void)user;
    return weft_trainer_run(t, "c", WEFT_FLOW_NEXT, error);
}

TEST(wrong_steps_are_told) {
    static const struct {
        weft_status (*step)(weft_trainer *, void *, weft_error *);
        const char *says;
    } rows[] = {{same_first, "of the run before it, which had 0"}, {no_such, "the model has no graph 'c'"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        weft_error e = {0};
        weft_model *m = build();
        weft_trainer *t = trainer_of(m, &(weft_trainer_options){.train = DATA, .train_step = rows[i].step});
        CHECK(weft_trainer_fit(t, &e) != WEFT_OK);
        CHECK_HOLDS(e.text, rows[i].says);
        weft_trainer_free(t);
        weft_model_free(m);
    }
}

/* ---- hooks ---- */

typedef struct notes {
    char text[4000];
    int64_t stop_at; /* iterations; 0: not */
    weft_status fails;
    int freed;
} notes;

static weft_status note(void *self, weft_trainer *t, weft_hook_point point, weft_error *error) {
    notes *n = self;
    const weft_progress *p = weft_trainer_progress(t);
    size_t at = strlen(n->text);
    (void)error;
    snprintf(n->text + at, sizeof n->text - at, "%s %d.%d\n", weft_hook_point_name(point), (int)p->epoch,
             (int)p->iteration);
    if (point == WEFT_AFTER_ITERATION && p->iteration == n->stop_at) weft_trainer_stop(t);
    return point == WEFT_AFTER_ITERATION ? n->fails : WEFT_OK;
}

static void note_end(void *self) {
    ((notes *)self)->freed++;
}

#define NOTES(n)                                                                                             \
    (weft_hook) {                                                                                            \
        "notes", note, note_end, NULL, (n)                                                                   \
    }

TEST(hooks_are_called_at_every_point_in_order) {
    weft_error e = {0};
    notes n = {.text = ""};
    weft_model *m = build();
    weft_model_set_flow(m, "a*5 b");
    weft_trainer *t = trainer_of(m, &(weft_trainer_options){.train = DATA,
                                                            .val = DATA,
                                                            .test = DATA,
                                                            .epochs = 2,
                                                            .val_epochs = 2,
                                                            .n_hooks = 1,
                                                            .hooks = &NOTES(&n)});
    CHECK_SAYS(weft_trainer_fit(t, &e) == WEFT_OK && weft_trainer_test(t, NULL, &e) == WEFT_OK, "%s", e.text);
    CHECK_SAYS(weft_trainer_save(t, "/tmp/weft_trainer.safetensors", false, &e) == WEFT_OK, "%s", e.text);
    CHECK_TEXT(
        n.text,
        "before_run 0.0\nbefore_epoch 0.0\nbefore_iteration 0.0\nafter_iteration 0.1\nbefore_iteration 0.1\n"
        "after_iteration 0.2\nafter_epoch 0.2\nbefore_epoch 1.2\nbefore_iteration 1.2\nafter_iteration 1.3\n"
        "before_iteration 1.3\nafter_iteration 1.4\nbefore_val 1.4\nafter_val 1.4\nafter_epoch 1.4\n"
        "after_run 2.4\nbefore_test 2.4\nafter_test 2.4\nbefore_save 2.4\nafter_save 2.4\n");
    weft_trainer_free(t);
    CHECK(n.freed == 1);
    weft_model_free(m);
    unlink("/tmp/weft_trainer.safetensors");
}

TEST(a_stopped_training_goes_on_to_the_same_bits) {
    weft_error e = {0};
    for (int stop = 1; stop < 2 * PER_EPOCH; stop++) {
        notes n = {.stop_at = stop};
        weft_model *m = build();
        weft_trainer *t = trainer_of(
            m, &(weft_trainer_options){.train = DATA, .epochs = 2, .n_hooks = 1, .hooks = &NOTES(&n)});
        weft_trainer *whole = trainer_of(m, &(weft_trainer_options){.train = DATA, .epochs = 2});
        CHECK_SAYS(weft_trainer_fit(t, &e) == WEFT_OK, "%s", e.text);
        CHECK(weft_trainer_progress(t)->iteration == stop);
        CHECK_SAYS(weft_trainer_fit(t, &e) == WEFT_OK && weft_trainer_fit(whole, &e) == WEFT_OK, "%s",
                   e.text);
        CHECK(weft_trainer_progress(t)->iteration == 2 * PER_EPOCH);
        CHECK(stores_equal(weft_trainer_store(t), weft_trainer_store(whole)));
        weft_trainer_free(t);
        weft_trainer_free(whole);
        weft_model_free(m);
    }
}

TEST(a_hook_that_fails_ends_the_loop) {
    weft_error e = {0};
    notes n = {.fails = WEFT_IO};
    weft_model *m = build();
    weft_trainer *t =
        trainer_of(m, &(weft_trainer_options){.train = DATA, .n_hooks = 1, .hooks = &NOTES(&n)});
    CHECK(weft_trainer_fit(t, &e) == WEFT_IO && weft_trainer_progress(t)->iteration == 1);
    CHECK_HOLDS(e.text, "a hook failed");
    CHECK_HOLDS(n.text, "after_run");
    weft_trainer_free(t);
    CHECK(!weft_trainer_new(m, &(weft_trainer_options){.epochs = -1, .n_hooks = 1, .hooks = &NOTES(&n)}, &e));
    CHECK(n.freed == 2);
    weft_model_free(m);
}

/* What a hook's error or single steps leave at the end of an epoch, the next call ends. */
TEST(an_epoch_that_was_left_at_its_end_is_ended) {
    weft_error e = {0};
    weft_metrics metrics;
    notes n = {.text = ""};
    weft_model *m = build();
    weft_trainer *t =
        trainer_of(m, &(weft_trainer_options){.train = DATA, .epochs = 2, .n_hooks = 1, .hooks = &NOTES(&n)});
    weft_trainer *whole =
        trainer_of(m, &(weft_trainer_options){.train = DATA, .epochs = 2, .metrics_every = 3});
    for (int i = 0; i < PER_EPOCH; i++)
        CHECK_SAYS(weft_trainer_train_step(t, &metrics, &e) == WEFT_OK, "%s", e.text);
    CHECK(metrics.n == 2);
    CHECK_SAYS(weft_trainer_fit(t, &e) == WEFT_OK && weft_trainer_fit(whole, &e) == WEFT_OK, "%s", e.text);
    CHECK(weft_trainer_progress(t)->iteration == 2 * PER_EPOCH && weft_trainer_progress(t)->epoch == 2);
    CHECK(weft_trainer_progress(whole)->train.n == 0); /* 22 iterations: the last that was due was 21 */
    CHECK(stores_equal(weft_trainer_store(t), weft_trainer_store(whole)));
    CHECK_HOLDS(n.text, "before_run 0.11\nafter_epoch 0.11\nbefore_epoch 1.11\n");
    weft_trainer_free(t);
    weft_trainer_free(whole);
    weft_model_free(m);
}

/* A step of your own: the limit that comes first holds, and the last epoch is validated. */
TEST(epochs_and_iterations_both_limit_a_step_of_ones_own) {
    weft_error e = {0};
    int calls = 0;
    notes n = {.text = ""};
    weft_model *m = build();
    weft_trainer_options how = {.train = DATA,
                                .val = DATA,
                                .epochs = 3,
                                .val_epochs = 2,
                                .iterations = 1000,
                                .train_step = two_and_one,
                                .user = &calls,
                                .n_hooks = 1,
                                .hooks = &NOTES(&n)};
    weft_trainer *t = trainer_of(m, &how);
    CHECK_SAYS(weft_trainer_fit(t, &e) == WEFT_OK, "%s", e.text);
    CHECK(calls == 15 && weft_trainer_progress(t)->epoch == 3);
    CHECK_HOLDS(n.text, "after_val 1.10\n");
    CHECK_HOLDS(n.text, "after_val 2.15\n");
    weft_trainer_free(t);
    weft_model_free(m);
}

/* An output of one number for each class looks like rows only where a batch has as many. */
/* One batch ten times, then three of which an epoch of eleven has one. */
static weft_status ten_and_three(weft_trainer *t, void *user, weft_error *error) {
    int64_t n = weft_trainer_progress(t)->iteration == 10 ? 3 : 1;
    weft_status status = WEFT_OK;
    (void)user;
    while (!status && n--) status = weft_trainer_run(t, "a", WEFT_FLOW_NEXT, error);
    return status;
}

TEST(an_epoch_that_ends_within_a_step_has_its_hooks_and_samples) {
    weft_error e = {0};
    notes n = {.text = ""};
    weft_model *m = build();
    weft_trainer *t = trainer_of(m, &(weft_trainer_options){.train = DATA,
                                                            .val = DATA,
                                                            .epochs = 2,
                                                            .iterations = 11,
                                                            .train_step = ten_and_three,
                                                            .n_hooks = 1,
                                                            .hooks = &NOTES(&n)});
    CHECK_SAYS(weft_trainer_fit(t, &e) == WEFT_OK, "%s", e.text);
    const weft_progress *p = weft_trainer_progress(t);
    CHECK_SAYS(p->samples == 13 * BATCH && p->train.samples == 3 * BATCH, "%lld and %lld samples",
               (long long)p->samples, (long long)p->train.samples);
    CHECK_HOLDS(n.text, "before_iteration 0.10\nbefore_val 0.10\nafter_val 0.10\nafter_epoch 0.10\n"
                        "before_epoch 1.10\nafter_iteration 1.11\nbefore_val 1.11\nafter_val 1.11\n"
                        "after_epoch 1.11\nafter_run 1.11\n");
    weft_trainer_free(t);
    /* Crossing the last epoch's end ends the run. */
    t = trainer_of(m, &(weft_trainer_options){.train = DATA, .epochs = 1, .train_step = ten_and_three});
    CHECK(weft_trainer_fit(t, &e) == WEFT_OK && weft_trainer_progress(t)->iteration == 11);
    weft_trainer_free(t);
    weft_model_free(m);
}

/* Two epochs, saved with all state, and two more by a new trainer: the bits of four. */
TEST(a_resumed_training_goes_on_with_its_epochs) {
    static const char file[] = "/tmp/weft_trainer_epochs.safetensors";
    weft_error e = {0};
    weft_model *m = weft_model_new("m");
    weft_model_set_batch(m, BATCH);
    weft_graph *g = weft_graph_new(m, "a", WEFT_TRAIN);
    weft_value *loss = weft_mse(network(input(g, "x", WIDTH)), input(g, "t", 1), NULL);
    weft_minimize(
        loss, "",
        &(weft_optimizer){.type = "adam",
                          .lr = 1e-2,
                          .schedule = {{WEFT_SCHEDULE_EXPONENTIAL, .gamma = 0.5, .by_epoch = true}}});
    weft_output(loss, "loss");
    weft_trainer *first = trainer_of(m, &(weft_trainer_options){.seed = 3, .train = DATA, .epochs = 2});
    weft_trainer *second = trainer_of(m, &(weft_trainer_options){.seed = 3, .train = DATA, .epochs = 2});
    weft_trainer *whole = trainer_of(m, &(weft_trainer_options){.seed = 3, .train = DATA, .epochs = 4});
    CHECK_SAYS(weft_trainer_fit(first, &e) == WEFT_OK && weft_trainer_fit(whole, &e) == WEFT_OK, "%s",
               e.text);
    CHECK_SAYS(weft_trainer_save(first, file, true, &e) == WEFT_OK &&
                   weft_weights_load(weft_trainer_store(second), file, NULL, NULL, &e) == WEFT_OK,
               "%s", e.text);
    CHECK_SAYS(weft_trainer_fit(second, &e) == WEFT_OK && weft_trainer_progress(second)->epoch == 2, "%s",
               e.text);
    CHECK(stores_equal(weft_trainer_store(second), weft_trainer_store(whole)));
    weft_trainer_free(first);
    weft_trainer_free(second);
    weft_trainer_free(whole);
    weft_model_free(m);
    unlink(file);
}

TEST(predictions_need_rows_of_samples) {
    weft_error e = {0};
    weft_model *m = weft_model_new("m");
    weft_model_set_batch(m, WIDTH);
    weft_value *x = input(weft_graph_new(m, "predict", WEFT_EVAL), "x", WIDTH);
    weft_output(weft_mean(x, WEFT_AXES(0), false), "y");
    weft_trainer *t = trainer_of(m, &(weft_trainer_options){.compile.graph = "predict"});
    weft_dataset data = {1, list, (const char *[]){"x", NULL}};
    CHECK(!weft_trainer_predict(t, NULL, NULL, &data, &e));
    CHECK_HOLDS(e.text, "output y has no axis of samples");
    weft_trainer_free(t);
    weft_model_free(m);
}

/* What is minimized is a metric under a name of its own, if it has none. */
TEST(minimized_losses_are_metrics) {
    static const char *const names[] = {"a", "loss", "loss_2", "b/loss", "b/loss_2"};
    weft_error e = {0};
    weft_metrics metrics;
    weft_optimizer sgd = {.type = "sgd"};
    weft_model *m = weft_model_new("m");
    weft_model_set_batch(m, BATCH);
    for (int i = 0; i < 2; i++) {
        weft_graph *g = weft_graph_new(m, i ? "b" : "a", WEFT_TRAIN);
        weft_value *y = network(input(g, "x", WIDTH)), *t = input(g, "t", 1);
        weft_value *left = weft_mse(y, t, NULL), *right = weft_l1(y, t, NULL);
        weft_minimize(left, "left", &sgd);
        weft_minimize(weft_scale(right, 2), "right", &sgd);
        if (i == 0) weft_output(right, "a");
        if (i == 1) weft_output(left, "loss");
    }
    weft_trainer *t = trainer_of(m, &(weft_trainer_options){.train = DATA});
    NEED(t != NULL);
    CHECK_SAYS(weft_trainer_train_step(t, &metrics, &e) == WEFT_OK, "%s", e.text);
    CHECK(metrics.n == 5);
    for (int i = 0; i < metrics.n && i < 5; i++) CHECK_TEXT(metrics.list[i].name, names[i]);
    CHECK(weft_metrics_get(&metrics, "loss_2") == 2 * weft_metrics_get(&metrics, "a"));
    weft_trainer_free(t);
    weft_model_free(m);
}

/* ---- evaluation ---- */

/* Means over samples: the last batch has two rows. */
TEST(validation_counts_every_sample_once) {
    weft_error e = {0};
    weft_metrics all, one;
    double sum = 0;
    int64_t count = 0;
    weft_model *m = build();
    weft_trainer *t = trainer_of(m, &(weft_trainer_options){.train = DATA, .val = DATA});
    CHECK_SAYS(weft_trainer_validate(t, &all, &e) == WEFT_OK && all.samples == SAMPLES, "%s", e.text);
    double mean = weft_metrics_get(&all, "loss");
    for (int i = 0; i <= PER_EPOCH; i++) {
        CHECK_SAYS(weft_trainer_val_step(t, &one, &e) == WEFT_OK, "%s", e.text);
        CHECK(one.samples == (i < PER_EPOCH ? BATCH : SAMPLES % BATCH));
        sum += weft_metrics_get(&one, "loss") * (double)one.samples;
        count += one.samples;
    }
    CHECK(count == SAMPLES && fabs(sum / SAMPLES - mean) < 1e-12);
    CHECK(weft_trainer_val_step(t, &one, &e) == WEFT_OK && one.samples == 0 && one.n == 0);
    CHECK(weft_trainer_val_step(t, &one, &e) == WEFT_OK && one.samples == BATCH);
    CHECK(weft_trainer_test(t, &one, &e) == WEFT_ORDER);
    CHECK_HOLDS(e.text, "set options.test");
    weft_trainer_free(t);
    weft_model_free(m);
}

/* A trainer of one graph needs no training; its predictions have the order of the samples. */
TEST(predictions_are_rows_in_the_order_of_samples) {
    weft_error e = {0};
    weft_model *m = build();
    weft_trainer *t = trainer_of(m, &(weft_trainer_options){.compile.graph = "predict"});
    weft_source only_x = samples;
    weft_dataset data = {1, (const weft_source *[]){&only_x}, (const char *[]){"x", NULL}};
    weft_array *all = weft_trainer_predict(t, NULL, NULL, &data, &e);
    int64_t shape[WEFT_MAX_NDIM];
    CHECK_SAYS(all && weft_array_shape(all, shape) == 2 && shape[0] == SAMPLES && shape[1] == 1, "%s",
               e.text);
    only_x.count = 1;
    weft_array *first = weft_trainer_predict(t, "predict", "y", &data, &e);
    CHECK_SAYS(first && fabsf(*(const float *)weft_array_data(first) - *(const float *)weft_array_data(all)) <
                            1e-6F,
               "%s", e.text);
    CHECK(!weft_trainer_predict(t, "predict", "z", &data, &e));
    CHECK_HOLDS(e.text, "graph predict has no output 'z'");
    CHECK(weft_trainer_fit(t, &e) == WEFT_ORDER);
    weft_array_free(all);
    weft_array_free(first);
    weft_trainer_free(t);
    weft_model_free(m);
}

/* ---- NaN and infinity ---- */

static void poison(weft_trainer *t) {
    float nan[8 * WIDTH];
    weft_error e = {0};
    for (int i = 0; i < 8 * WIDTH; i++) nan[i] = NAN;
    CHECK_SAYS(weft_store_set(weft_trainer_store(t), "left/fc/weight", nan, sizeof nan, &e) == WEFT_OK, "%s",
               e.text);
}

TEST(numbers_that_are_none_end_the_training) {
    weft_error e = {0};
    weft_model *m = build();
    weft_trainer *t = trainer_of(m, &(weft_trainer_options){.train = DATA});
    poison(t);
    CHECK(weft_trainer_fit(t, &e) == WEFT_DATA && weft_trainer_progress(t)->iteration == 0);
    CHECK_HOLDS(e.text, "graph a: loss is NaN on rank 0 in micro-batch 0; nothing was updated; ");
    CHECK_HOLDS(e.text, "the value of left/fc/weight");
    weft_trainer_free(t);
    t = trainer_of(m, &(weft_trainer_options){.train = DATA, .own_guard = true});
    poison(t);
    CHECK(weft_trainer_fit(t, &e) == WEFT_DATA && weft_trainer_progress(t)->iteration == 1);
    CHECK_HOLDS(e.text, "step 1: loss is nan");
    weft_trainer_free(t);
    t = trainer_of(
        m, &(weft_trainer_options){.train = DATA, .epochs = 2, .metrics_every = 1000, .own_guard = true});
    poison(t);
    CHECK(weft_trainer_fit(t, &e) == WEFT_DATA && weft_trainer_progress(t)->iteration == PER_EPOCH);
    CHECK_HOLDS(e.text, "step 11: left/fc/");
    CHECK_HOLDS(e.text, "is no longer finite");
    weft_trainer_free(t);
    t = trainer_of(m, &(weft_trainer_options){.train = DATA, .keep_going = true});
    poison(t);
    CHECK(weft_trainer_fit(t, &e) == WEFT_OK && weft_trainer_progress(t)->iteration == PER_EPOCH);
    CHECK(weft_trainer_check(t, &e) == WEFT_DATA);
    CHECK_HOLDS(e.text, "the weights are not finite");
    weft_trainer_free(t);
    weft_model_free(m);
}

/* ---- counting ---- */

/* What the optimizer itself counted in the training. */
static int64_t updates_of(const weft_trainer *t, const char *path) {
    double steps = -1;
    CHECK(weft_store_get(weft_trainer_store(t), path, &steps, sizeof steps, NULL) == WEFT_OK);
    return (int64_t)steps;
}

TEST(runs_are_counted_before_the_training_as_it_makes_them) {
    static const struct {
        const char *flow;
        weft_trainer_options how;
    } rows[] = {
        {"a b", {.train = DATA, .epochs = 3}},
        {"a b", {.train = DATA, .epochs = 3, .iterations = 5}},
        {"a b", {.train = DATA, .compile.accumulate = 2}},
        {"a*2 b", {.train = DATA, .epochs = 3}},
        {"0-6: a; 7-: a*2 b{accumulate=1}", {.train = DATA, .epochs = 3}},
        {"0-6: a; 7-: a*2 b*3", {.train = DATA, .epochs = 30, .iterations = 9}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int64_t a = -1, b = -1, all = -1;
        weft_error e = {0};
        weft_model *m = build();
        weft_model_set_flow(m, rows[i].flow);
        CHECK_SAYS(!weft_trainer_count(m, &rows[i].how, "a", &a, &e), "%s", e.text);
        CHECK(!weft_trainer_count(m, &rows[i].how, "b", &b, &e));
        CHECK(!weft_trainer_count(m, &rows[i].how, NULL, &all, &e));
        weft_trainer *t = trainer_of(m, &rows[i].how);
        CHECK_SAYS(!weft_trainer_fit(t, &e), "%s", e.text);
        int64_t ran_a = updates_of(t, "optimizer.adam:left/step"),
                ran_b = updates_of(t, "optimizer.adam:right/step");
        CHECK_SAYS(a == ran_a && b == ran_b && all == weft_trainer_progress(t)->iteration,
                   "row %zu: counted %lld, %lld, ran %lld, %lld", i, (long long)a, (long long)b,
                   (long long)ran_a, (long long)ran_b);
        weft_trainer_free(t);
        weft_model_free(m);
    }
}

TEST(what_cannot_be_counted_is_told) {
    int64_t runs = -1;
    weft_error e = {0};
    weft_model *m = build();
    weft_trainer_options how = {.train = DATA};
    CHECK(weft_trainer_count(m, &how, "val", &runs, &e) == WEFT_OK && runs == 0);
    CHECK(weft_trainer_count(m, &how, "c", &runs, &e) == WEFT_NAME);
    CHECK(weft_trainer_count(m, &how, "a", NULL, &e) == WEFT_ARGUMENT);
    CHECK(weft_trainer_count(m, NULL, "a", &runs, &e) == WEFT_ARGUMENT);
    CHECK(weft_trainer_count(NULL, &how, "a", &runs, NULL) == WEFT_ARGUMENT);
    how.train_step = two_and_one;
    CHECK(weft_trainer_count(m, &how, NULL, &runs, &e) == WEFT_ORDER);
    how.iterations = 7;
    CHECK(weft_trainer_count(m, &how, NULL, &runs, &e) == WEFT_OK && runs == 7);
    CHECK(weft_trainer_count(m, &how, "a", &runs, &e) == WEFT_ORDER);
    weft_model_free(m);
}

/* ---- options ---- */

/* The samples of every second number, from the epoch's on, the last first. */
static void thin_out(void *context, int64_t epoch, int64_t *order, int64_t n) {
    ++*(int *)context;
    for (int64_t i = 0; i < n; i++) order[i] = (2 * (n - 1 - i) + epoch) % SAMPLES;
}

/* Structures on the stack that nobody has set to zeros are refused before anything in them is used. */
TEST(structures_that_nobody_has_set_to_zeros_are_refused) {
    static const char says[] = "words of `reserved` are not 0";
    weft_model *m = weft_model_new("m");
    weft_error e;
    weft_trainer_options how;
    weft_hook hook;
    weft_evaluator evaluator;
    weft_source_options source;
    weft_env env;
    memset(&how, 0xAA, sizeof how);
    memset(&hook, 0xAA, sizeof hook);
    memset(&evaluator, 0xAA, sizeof evaluator);
    memset(&source, 0xAA, sizeof source);
    memset(&env, 0xAA, sizeof env);
    const weft_trainer_options with_hook = {.epochs = 1, .n_hooks = 1, .hooks = &hook};
    const weft_trainer_options with_evaluator = {.epochs = 1, .n_evaluators = 1, .evaluators = &evaluator};
    const weft_trainer_options *const wrong[] = {&how, &with_hook, &with_evaluator};
    weft_graph_new(m, "train", WEFT_TRAIN);
    for (int i = 0; i < 3; i++) {
        CHECK(!weft_trainer_new(m, wrong[i], &e) && e.status == WEFT_ARGUMENT);
        CHECK_HOLDS(e.text, says);
    }
    int64_t runs;
    CHECK(weft_trainer_count(m, &how, NULL, &runs, &e) == WEFT_ARGUMENT && strstr(e.text, says));
    CHECK(!weft_source_open("x.npy", &source, NULL, &e) && strstr(e.text, says));
    weft_model *other = weft_model_new_in("other", &env);
    CHECK(weft_model_error(other)->status == WEFT_ARGUMENT && strstr(weft_model_error(other)->text, says));
    weft_model_free(other);
    weft_model_free(m);
}

TEST(every_option_of_a_trainer_has_a_default_or_an_error) {
    static const weft_hook broken = {.name = "broken"};
    const weft_source *const none[] = {NULL};
    const char *const twice[] = {"x", "x"}, *const wrong[] = {"x", "z"};
    int asked = 0;
    const struct {
        const char *error;
        weft_trainer_options options;
    } rows[] = {
        {NULL, {.train = DATA}},
        {NULL, {.train = DATA, .iterations = 3, .seed = 5, .in_order = true, .metrics_every = 2}},
        {NULL, {.train = DATA, .epochs = INT64_MAX, .iterations = 9}},
        {NULL, {.train = DATA, .epochs = 2, .val = DATA, .val_epochs = -1, .val_iterations = 3}},
        {NULL, {.train = DATA, .val = DATA, .val_graph = "val", .test = DATA, .test_graph = "val"}},
        {NULL, {.train = DATA, .train_step = two_and_one, .user = (void *)none, .keep_going = true}},
        {NULL, {.train = DATA, .val = DATA, .without_averages = true}},
        {NULL, {.train = DATA, .sampler = thin_out, .sampler_context = &asked, .sampler_count = 2 * SAMPLES}},
        {"a sampler gives the order", {.train = DATA, .in_order = true, .sampler = thin_out}},
        {"a sampler needs data", {.iterations = 3, .sampler = thin_out}},
        {"sampler_count=8: there is no such sampler", {.train = DATA, .sampler_count = 8}},
        {"sampler_count=-1",
         {.train = DATA, .sampler = thin_out, .sampler_count = -1, .sampler_context = &asked}},
        {"3 samples are fewer than a batch of 4",
         {.train = DATA, .sampler = thin_out, .sampler_count = 3, .sampler_context = &asked}},
        {"is not fed: no data for it", {.epochs = 1}},
        {"epochs=-1: it must be a whole number from 1", {.train = DATA, .epochs = -1}},
        {"trainer: iterations=-1: it must be", {.train = DATA, .iterations = -1}},
        {"first_iteration=-1: it must be", {.train = DATA, .first_iteration = -1}},
        {"val_epochs=-2: it must be a whole number from -1", {.train = DATA, .val_epochs = -2}},
        {"val_iterations=-1: it must be", {.train = DATA, .val_iterations = -1}},
        {"metrics_every=-1: it must be", {.train = DATA, .metrics_every = -1}},
        {"n_hooks is 2 without as many hooks", {.train = DATA, .n_hooks = 2}},
        {"hook 0 could not be made", {.train = DATA, .n_hooks = 1, .hooks = &broken}},
        {"the model has no graph 'vol': did you mean 'val'?",
         {.train = DATA, .val = DATA, .val_graph = "vol"}},
        {"the model has no graph 'tost'", {.train = DATA, .test = DATA, .test_graph = "tost"}},
        {"source 0 is NULL", {.train = {1, none, NULL}}},
        {"n is 2 without as many sources", {.train = {2, NULL, NULL}}},
        {"two arrays feed this input", {.train = {1, list, twice}}},
        {"input t f32[4,1] is not fed", {.train = {1, list, wrong}}},
        {"46 samples are fewer than a batch of 64", {.train = DATA, .compile.batch = 64}},
        {"no graph 'c'", {.train = DATA, .compile.graph = "c"}},
        {"takes 16 batches on all ranks, and the data have 11", {.train = DATA, .compile.accumulate = 16}},
        {"with compile.manual a flow would never update", {.train = DATA, .compile.manual = true}},
    };
    weft_model *m = build();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        weft_error e = {0};
        weft_trainer *t = weft_trainer_new(m, &rows[i].options, &e);
        CHECK_SAYS(!t == (rows[i].error != NULL) && (t || strstr(e.text, rows[i].error)), "row %zu: '%s'", i,
                   e.text);
        weft_trainer_free(t);
    }
    CHECK(!weft_trainer_new(NULL, NULL, NULL) && !weft_trainer_new(m, NULL, NULL));
    weft_model_free(m);
}

/* A weight that is NaN: with `check` the node that reads it ends an evaluation, a prediction and a step,
 * which are else done and have NaN. */
TEST(checks_are_of_all_that_a_trainer_runs) {
    weft_model *m = build();
    weft_dataset data = {1, list, (const char *[]){"x", NULL}};
    for (int checks = 0; checks < 2; checks++) {
        float bias[8] = {NAN};
        weft_error e[3] = {{0}};
        weft_metrics means;
        weft_trainer *t = trainer_of(m, &(weft_trainer_options){.train = DATA,
                                                                .val = DATA,
                                                                .check = checks,
                                                                .no_capture = checks,
                                                                .own_guard = true,
                                                                .keep_going = true,
                                                                .iterations = 1});
        CHECK(!weft_store_set(weft_trainer_store(t), "left/fc/bias", bias, sizeof bias, NULL));
        weft_trainer_validate(t, &means, &e[0]);
        weft_array_free(weft_trainer_predict(t, "predict", "y", &data, &e[1]));
        weft_trainer_train_step(t, &means, &e[2]);
        for (int i = 0; i < 3; i++) {
            CHECK_SAYS(e[i].status == (checks ? WEFT_DATA : WEFT_OK), "%d: %s", i, e[i].text);
            if (checks) CHECK_HOLDS(e[i].text, "made NaN at element");
        }
        weft_trainer_free(t);
    }
    weft_model_free(m);
}

/* ---- graphs that assign ---- */

enum { TRAINS = 1, ASSIGNS = 2 };

/* Graph a trains "left" and "right"; another one measures, moves the bias of "left", or trains "right". */
static weft_model *build_moving(const char *name, weft_mode mode, int does, const char *flow,
                                const char *steps) {
    weft_model *m = weft_model_new("moving");
    weft_model_set_batch(m, BATCH);
    add_graph(m, "a", WEFT_TRAIN, "", 0);
    weft_graph *g = weft_graph_new(m, name, mode);
    weft_value *loss = weft_mse(network(input(g, "x", WIDTH)), input(g, "t", 1), NULL);
    if (does & TRAINS) weft_minimize(loss, "right", &(weft_optimizer){.type = "sgd", .lr = 1e-3});
    weft_value *bias = weft_value_of(g, "left/fc/bias");
    if (does & ASSIGNS) weft_assign(bias, weft_scale(bias, 0));
    weft_output(loss, "loss");
    if (flow) weft_model_set_flow_named(m, flow, steps);
    return m;
}

/* A graph that moves what another reads is run by the flow or by an evaluation that there is; or the program
 * says that something else runs it: by a flow of another name, by train_step. A graph that trains may be left
 * out of a flow. */
TEST(a_graph_that_assigns_is_run_or_refused) {
    static const struct {
        const char *name;
        weft_mode mode;
        int does;
        const char *flow, *steps;
        bool is_refused;
        weft_trainer_options how;
    } rows[] = {
        {"teacher", WEFT_EVAL, ASSIGNS, NULL, NULL, true, {.train = DATA}},
        {"teacher", WEFT_EVAL, ASSIGNS, "train", "a", true, {.train = DATA}},
        {"teacher", WEFT_EVAL, ASSIGNS, "train", "a teacher", false, {.train = DATA}},
        {"teacher", WEFT_EVAL, ASSIGNS, "reset", "teacher", false, {.train = DATA}},
        {"teacher", WEFT_EVAL, ASSIGNS, NULL, NULL, false, {.train = DATA, .train_step = two_and_one}},
        {"teacher", WEFT_EVAL, 0, NULL, NULL, false, {.train = DATA}},
        /* evaluations */
        {"val", WEFT_EVAL, ASSIGNS, NULL, NULL, true, {.train = DATA}},
        {"val", WEFT_EVAL, ASSIGNS, NULL, NULL, false, {.train = DATA, .val = DATA}},
        {"val", WEFT_EVAL, ASSIGNS, NULL, NULL, false, {.train = DATA, .test = DATA}},
        {"test", WEFT_EVAL, ASSIGNS, NULL, NULL, true, {.train = DATA}},
        {"test", WEFT_EVAL, ASSIGNS, NULL, NULL, false, {.train = DATA, .test = DATA}},
        {"teacher",
         WEFT_EVAL,
         ASSIGNS,
         NULL,
         NULL,
         false,
         {.train = DATA, .val = DATA, .val_graph = "teacher"}},
        {"teacher",
         WEFT_EVAL,
         ASSIGNS,
         NULL,
         NULL,
         false,
         {.val = DATA, .val_graph = "teacher", .compile.graph = "teacher"}},
        /* in train mode */
        {"teacher", WEFT_TRAIN, ASSIGNS, NULL, NULL, false, {.train = DATA}},
        {"teacher", WEFT_TRAIN, ASSIGNS, "train", "a", true, {.train = DATA}},
        {"teacher", WEFT_TRAIN, ASSIGNS, "train", "a teacher", false, {.train = DATA}},
        {"b", WEFT_TRAIN, TRAINS, "train", "a", false, {.train = DATA}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        weft_error e = {0};
        weft_model *m = build_moving(rows[i].name, rows[i].mode, rows[i].does, rows[i].flow, rows[i].steps);
        weft_trainer *t = weft_trainer_new(m, &rows[i].how, &e);
        CHECK_SAYS(!t == rows[i].is_refused, "row %zu: '%s'", i, e.text);
        if (!t && CHECK(e.status == WEFT_ORDER))
            CHECK_HOLDS(e.text, "assigns left/fc/bias, which graph a reads, but no flow runs it: name it in");
        weft_trainer_free(t);
        weft_model_free(m);
    }
}

/* The bias of "left" after three iterations is 0 where the graph that sets it runs, last of an iteration or
 * in the validation. */
TEST(a_graph_that_assigns_moves_what_it_assigns) {
    static const struct {
        const char *name, *flow, *steps;
        bool moves;
        weft_trainer_options how;
    } rows[] = {
        {"teacher", "train", "a teacher", true, {.train = DATA, .iterations = 3}},
        {"teacher", "reset", "teacher", false, {.train = DATA, .iterations = 3}},
        {"teacher", "reset", "a teacher", true, {.train = DATA, .iterations = 3, .compile.flow = "reset"}},
        {"val", NULL, NULL, true, {.train = DATA, .iterations = 3, .val = DATA}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        weft_error e = {0};
        float bias[8] = {0};
        weft_model *m = build_moving(rows[i].name, WEFT_EVAL, ASSIGNS, rows[i].flow, rows[i].steps);
        weft_trainer *t = trainer_of(m, &rows[i].how);
        CHECK_SAYS(t && !weft_trainer_fit(t, &e), "row %zu: %s", i, e.text);
        CHECK(!weft_store_get(weft_trainer_store(t), "left/fc/bias", bias, sizeof bias, &e));
        CHECK_SAYS((bias[0] == 0 && bias[7] == 0) == rows[i].moves, "row %zu: the bias is %g", i,
                   (double)bias[0]);
        weft_trainer_free(t);
        weft_model_free(m);
    }
}

/* ---- options that change what runs when ---- */

TEST(a_sampler_gives_the_order_of_each_epoch) {
    enum { COUNT = 18, EACH = COUNT / BATCH };
    weft_error e = {0};
    weft_metrics metrics;
    int asked[2] = {0}; /* by the loop's loader, by the trainer's */
    weft_model *m = build();
    hand h = hand_new(m, 0);
    weft_loader_free(h.loader);
    h.loader = weft_loader_new(1, list,
                               &(weft_loader_options){.batch = BATCH,
                                                      .drop_last = true,
                                                      .sampler = thin_out,
                                                      .sampler_context = &asked[0],
                                                      .sampler_count = COUNT},
                               NULL, &h.e);
    weft_trainer *t = trainer_of(m, &(weft_trainer_options){.train = DATA,
                                                            .sampler = thin_out,
                                                            .sampler_context = &asked[1],
                                                            .sampler_count = COUNT,
                                                            .epochs = 3});
    CHECK(weft_trainer_progress(t)->iterations == 3 * EACH);
    for (int i = 0; i < 3 * EACH; i++) {
        if (i % EACH == 0) weft_loader_set_epoch(h.loader, i / EACH);
        CHECK_SAYS(weft_trainer_train_step(t, &metrics, &e) == WEFT_OK, "%s", e.text);
        CHECK_SAYS(weft_metrics_get(&metrics, "loss") == hand_run(&h, "a", i % EACH), "iteration %d", i);
        CHECK(weft_metrics_get(&metrics, "b/loss") == hand_run(&h, "b", i % EACH));
    }
    CHECK(asked[1] == asked[0] && asked[0] == 3);
    weft_trainer_free(t);
    weft_model_free(m);
    hand_free(&h);
}

TEST(data_in_order_are_read_in_order) {
    weft_error e = {0};
    weft_metrics metrics;
    weft_model *m = build();
    hand h = hand_new(m, 0);
    weft_loader_free(h.loader);
    h.loader =
        weft_loader_new(1, list, &(weft_loader_options){.batch = BATCH, .drop_last = true}, NULL, &h.e);
    weft_trainer *t = trainer_of(m, &(weft_trainer_options){.train = DATA, .in_order = true, .epochs = 2});
    for (int i = 0; i < 2 * PER_EPOCH; i++) {
        CHECK_SAYS(weft_trainer_train_step(t, &metrics, &e) == WEFT_OK, "%s", e.text);
        CHECK(weft_metrics_get(&metrics, "loss") == hand_run(&h, "a", i % PER_EPOCH));
        CHECK(weft_metrics_get(&metrics, "b/loss") == hand_run(&h, "b", i % PER_EPOCH));
    }
    weft_trainer_free(t);
    hand_free(&h);
    weft_model_free(m);
}

/* After every third iteration, and after each second epoch of eleven and the last. */
TEST(validations_come_when_they_are_due) {
    weft_error e = {0};
    notes n = {.text = ""};
    weft_model *m = build();
    weft_trainer *t = trainer_of(m, &(weft_trainer_options){.train = DATA,
                                                            .val = DATA,
                                                            .epochs = 3,
                                                            .val_epochs = 2,
                                                            .val_iterations = 9,
                                                            .n_hooks = 1,
                                                            .hooks = &NOTES(&n)});
    char vals[200] = "";
    CHECK_SAYS(weft_trainer_fit(t, &e) == WEFT_OK, "%s", e.text);
    for (const char *at = n.text; (at = strstr(at, "after_val ")); at++)
        snprintf(vals + strlen(vals), sizeof vals - strlen(vals), "%.*s ", (int)strcspn(at + 10, "\n"),
                 at + 10);
    CHECK_TEXT(vals, "0.9 1.18 1.22 2.27 2.33 ");
    weft_trainer_free(t);
    weft_model_free(m);
}

static weft_status count_metrics(void *self, weft_trainer *t, weft_hook_point point, weft_error *error) {
    char *text = self;
    (void)error;
    if (point == WEFT_AFTER_ITERATION)
        snprintf(text + strlen(text), 40 - strlen(text), "%d", weft_trainer_progress(t)->train.n);
    return WEFT_OK;
}

TEST(metrics_are_taken_after_every_so_many_iterations) {
    weft_error e = {0};
    char text[40] = "";
    weft_hook hook = {"counts", count_metrics, NULL, NULL, text};
    weft_model *m = build();
    weft_trainer *t = trainer_of(
        m, &(weft_trainer_options){.train = DATA, .metrics_every = 3, .n_hooks = 1, .hooks = &hook});
    CHECK_SAYS(weft_trainer_fit(t, &e) == WEFT_OK, "%s", e.text);
    CHECK_TEXT(text, "00200200200");
    weft_trainer_free(t);
    weft_model_free(m);
}

/* ---- worlds ---- */

typedef struct member {
    double loss;
    int64_t samples, iteration;
    int calls; /* of two_and_one */
    float weight[8 * WIDTH];
} member;

typedef struct team {
    int accumulate;
    bool own;
    member members[4];
} team;

static void train_member(weft_comm *comm, int rank, void *context) {
    team *all = context;
    member *r = &all->members[rank];
    weft_error e = {0};
    weft_model *m = build();
    if (!all->own) weft_model_set_flow(m, "a*2 b");
    weft_trainer *t = trainer_of(m, &(weft_trainer_options){.compile.accumulate = all->accumulate,
                                                            .comm = comm,
                                                            .seed = 9,
                                                            .train = DATA,
                                                            .val = DATA,
                                                            .epochs = 4,
                                                            .train_step = all->own ? two_and_one : NULL,
                                                            .user = &r->calls});
    CHECK_SAYS(t && weft_trainer_fit(t, &e) == WEFT_OK, "%s", e.text);
    if (t) {
        const weft_progress *p = weft_trainer_progress(t);
        CHECK(p->rank == rank && p->world == (comm ? comm->world : 1) && p->val.samples == SAMPLES);
        r->loss = weft_metrics_get(&p->train, "loss");
        r->samples = p->samples, r->iteration = p->iteration;
        CHECK(!weft_sync(weft_trainer_session(t, &e), &e));
        CHECK(!weft_store_get(weft_trainer_store(t), "left/fc/weight", r->weight, sizeof r->weight, &e));
    }
    weft_trainer_free(t);
    weft_model_free(m);
}

/* Two ranks, or two micro-batches: two iterations of four batches of an epoch's eleven. */
TEST(a_world_trains_to_the_bits_of_one_rank) {
    for (int own = 0; own < 2; own++) {
        team one = {.accumulate = 2, .own = own}, two = {.accumulate = 1, .own = own};
        ranks_run(1, 60, train_member, &one);
        ranks_run(2, 60, train_member, &two);
        CHECK(one.members[0].iteration == 8 && one.members[0].samples == 8 * 4 * BATCH);
        for (int r = 0; r < 2; r++) {
            CHECK(two.members[r].samples == one.members[0].samples && two.members[r].iteration == 8);
            CHECK(fabs(two.members[r].loss - one.members[0].loss) < 1e-12 && one.members[0].loss > 0);
            CHECK(memcmp(two.members[r].weight, one.members[0].weight, sizeof one.members[0].weight) == 0);
        }
    }
}

/* One trainer validates averages by itself; the other has them put into their place by hand. */
TEST(validations_and_tests_read_averages_where_there_are_any) {
    weft_error e = {0};
    weft_metrics by_itself = {0}, plain = {0}, by_hand = {0}, of_test = {0}, step = {0};
    weft_model *m = build_with(0.95);
    weft_trainer *t[2];
    for (int i = 0; i < 2; i++) {
        t[i] = trainer_of(
            m, &(weft_trainer_options){.train = DATA, .val = DATA, .test = DATA, .without_averages = i == 1});
        CHECK_SAYS(!weft_trainer_fit(t[i], &e), "%s", e.text);
    }
    CHECK(!weft_trainer_validate(t[0], &by_itself, &e) && !weft_trainer_validate(t[1], &plain, &e));
    double averaged = weft_metrics_get(&by_itself, "loss"), trained = weft_metrics_get(&plain, "loss");
    CHECK_SAYS(averaged != trained, "both are %g", averaged);
    CHECK(!weft_trainer_test(t[0], &of_test, &e) && weft_metrics_get(&of_test, "loss") == averaged);
    CHECK(stores_equal(weft_trainer_store(t[0]), weft_trainer_store(t[1])));
    CHECK(!weft_use_averages(weft_trainer_session(t[1], &e), true, &e));
    CHECK(!weft_trainer_validate(t[1], &by_hand, &e) && weft_metrics_get(&by_hand, "loss") == averaged);
    /* what is in place stays, and is what a step reads */
    CHECK(!weft_use_averages(weft_trainer_session(t[0], &e), true, &e));
    CHECK(!weft_trainer_validate(t[0], &by_hand, &e) && weft_metrics_get(&by_hand, "loss") == averaged);
    double first[2][2];
    for (int on = 1; on >= 0; on--)
        for (int i = 0; i < 2; i++) {
            CHECK(weft_uses_averages(weft_trainer_store(t[i])));
            if (!on) CHECK(!weft_use_averages(weft_trainer_session(t[i], &e), false, &e));
            CHECK_SAYS(!weft_trainer_val_step(t[i], &step, &e), "%s", e.text);
            first[on][i] = weft_metrics_get(&step, "loss");
            while (step.samples && !weft_trainer_val_step(t[i], &step, &e)) continue;
        }
    CHECK(first[0][0] == first[0][1] && first[1][0] == first[1][1] && first[0][0] != first[1][0]);
    CHECK(stores_equal(weft_trainer_store(t[0]), weft_trainer_store(t[1])));
    for (int i = 0; i < 2; i++) weft_trainer_free(t[i]);
    weft_model_free(m);
}

/* What the validations of a training measured is what its files, loaded for an evaluation, give. */
TEST(files_of_the_best_weights_give_what_was_measured) {
    for (int state = 0; state < 2; state++) {
        char path[] = "/tmp/weft_trainer_XXXXXX";
        int file = mkstemp(path);
        if (CHECK(file >= 0)) close(file);
        weft_error e = {0};
        weft_metrics again = {0};
        weft_hook best = weft_hook_best(&(weft_best){"loss", .path = path, .optimizer_state = state});
        weft_model *m = build_with(0.95);
        weft_trainer *t =
            trainer_of(m, &(weft_trainer_options){.train = DATA, .val = DATA, .n_hooks = 1, .hooks = &best});
        CHECK_SAYS(!weft_trainer_fit(t, &e), "%s", e.text);
        CHECK(!weft_uses_averages(weft_trainer_store(t)));
        double measured = weft_metrics_get(&weft_trainer_progress(t)->val, "loss");
        weft_trainer *reads = trainer_of(m, &(weft_trainer_options){.compile.graph = "val", .val = DATA});
        CHECK_SAYS(!weft_weights_load(weft_trainer_store(reads), path, NULL, NULL, &e), "%s", e.text);
        CHECK_SAYS(!weft_trainer_validate(reads, &again, &e), "%s", e.text);
        CHECK_SAYS(weft_metrics_get(&again, "loss") == measured, "%g, not %g",
                   weft_metrics_get(&again, "loss"), measured);
        weft_trainer_free(reads);
        weft_trainer_free(t);
        weft_model_free(m);
        unlink(path);
    }
}

/* ---- averages in a world ---- */

typedef struct averaged_world {
    int zero;
    int steps[2];
    weft_status status[2];
    char text[2][400];
} averaged_world;

static weft_status read_or_fail(void *context, int64_t i, void *const *into, weft_error *error) {
    const bool *fails = context;
    if (!*fails) return read_sample(NULL, i, into, error);
    *error = (weft_error){.status = WEFT_FILE, .text = "photos/7.png: it is damaged"};
    return WEFT_FILE;
}

/* Each rank steps through its share, of which rank 0 has one batch more; then rank 1 cannot read. */
static void validate_averages(weft_comm *comm, int rank, void *context) {
    averaged_world *r = context;
    bool fails = false;
    float before[8 * WIDTH] = {0}, after[8 * WIDTH] = {0};
    weft_error e = {0};
    weft_metrics step = {.samples = 1};
    weft_source mine = samples;
    mine.context = &fails, mine.read = read_or_fail, mine.count = 9 * BATCH;
    weft_model *m = build_with(0.95);
    weft_trainer *t =
        trainer_of(m, &(weft_trainer_options){.comm = comm,
                                              .compile.zero = r->zero,
                                              .train = DATA,
                                              .val = {1, (const weft_source *[]){&mine}, NULL}});
    CHECK_SAYS(t && weft_trainer_fit(t, &e) == WEFT_OK, "%s", e.text);
    while (step.samples && !weft_trainer_val_step(t, &step, &e)) r->steps[rank] += step.samples > 0;
    CHECK_SAYS(!e.status, "%s", e.text);
    weft_store_get(weft_trainer_store(t), "left/fc/weight", before, sizeof before, &e);
    fails = rank == 1;
    for (int i = 0; i < 3 && !e.status; i++) /* some batches have been read ahead */
        r->status[rank] = weft_trainer_validate(t, NULL, &e);
    snprintf(r->text[rank], sizeof r->text[rank], "%.399s", e.text);
    weft_store_get(weft_trainer_store(t), "left/fc/weight", after, sizeof after, &e);
    CHECK(!weft_uses_averages(weft_trainer_store(t)));
    CHECK(before[0] != 0 && memcmp(before, after, sizeof before) == 0);
    weft_trainer_free(t);
    weft_model_free(m);
}

TEST(ranks_with_averages_step_alone_and_learn_of_each_others_errors) {
    for (int zero = 0; zero < 2; zero++) {
        averaged_world r = {.zero = zero};
        ranks_run(2, 60, validate_averages, &r);
        CHECK(r.steps[0] == 5 && r.steps[1] == 4);
        CHECK(r.status[0] == WEFT_PEER && r.status[1] == WEFT_FILE);
        CHECK_HOLDS(r.text[0], "rank 1 has given up: photos/7.png: it is damaged");
        CHECK_HOLDS(r.text[1], "photos/7.png: it is damaged");
    }
}

/* ---- errors before the first step ---- */

typedef struct short_of {
    bool counts; /* weft_trainer_count, too */
    weft_status status[3];
    char text[3][400];
} short_of;

/* Rank 1's file is shorter than a batch. */
static void make_without_data(weft_comm *comm, int rank, void *context) {
    short_of *r = context;
    int64_t runs;
    weft_error e = {0};
    weft_source mine = samples;
    mine.count = rank == 1 ? BATCH - 1 : samples.count;
    weft_model *m = build();
    weft_trainer_options o = {.comm = comm, .train = {1, (const weft_source *[]){&mine}, NULL}};
    weft_status status = r->counts ? weft_trainer_count(m, &o, NULL, &runs, &e) : WEFT_OK;
    weft_trainer *t = status ? NULL : weft_trainer_new(m, &o, &e);
    r->status[rank] = t ? weft_trainer_fit(t, &e) : e.status;
    snprintf(r->text[rank], sizeof r->text[rank], "%.399s", e.text);
    weft_trainer_free(t);
    weft_model_free(m);
}

TEST(an_error_of_one_rank_before_the_first_step_ends_all) {
    for (int counts = 0; counts < 2; counts++) {
        short_of r = {.counts = counts};
        ranks_run(3, 60, make_without_data, &r);
        for (int k = 0; k < 3; k++) {
            CHECK_SAYS(r.status[k] == (k == 1 ? WEFT_ARGUMENT : WEFT_PEER), "rank %d: %s", k, r.text[k]);
            CHECK_HOLDS(r.text[k], "samples are fewer than a batch");
            if (k != 1) CHECK_HOLDS(r.text[k], "rank 1 has given up: ");
        }
    }
}

/* The averages of what graph b trains are NaN for ever, and no error: what they are of is read instead. */
TEST(averages_that_never_begin_end_no_training) {
    weft_error e = {0};
    weft_metrics of = {0};
    weft_model *m = build_with(0.95);
    CHECK(!weft_model_set_flow(m, "a"));
    weft_trainer *t = trainer_of(m, &(weft_trainer_options){.train = DATA, .val = DATA, .epochs = 2});
    CHECK_SAYS(!weft_trainer_fit(t, &e) && !weft_trainer_check(t, &e), "%s", e.text);
    CHECK(!weft_trainer_validate(t, &of, &e) && isfinite(weft_metrics_get(&of, "loss")));
    weft_trainer_free(t);
    weft_model_free(m);
}

SUITE("trainer", {T(a_flow_gives_the_bits_of_a_loop_by_hand),
                  T(a_step_of_ones_own_gives_the_same_bits),
                  T(a_step_of_ones_own_may_update_by_itself),
                  T(wrong_steps_are_told),
                  T(hooks_are_called_at_every_point_in_order),
                  T(a_stopped_training_goes_on_to_the_same_bits),
                  T(a_hook_that_fails_ends_the_loop),
                  T(an_epoch_that_was_left_at_its_end_is_ended),
                  T(an_epoch_that_ends_within_a_step_has_its_hooks_and_samples),
                  T(a_resumed_training_goes_on_with_its_epochs),
                  T(epochs_and_iterations_both_limit_a_step_of_ones_own),
                  T(predictions_need_rows_of_samples),
                  T(validation_counts_every_sample_once),
                  T(predictions_are_rows_in_the_order_of_samples),
                  T(numbers_that_are_none_end_the_training),
                  T(runs_are_counted_before_the_training_as_it_makes_them),
                  T(what_cannot_be_counted_is_told),
                  T(structures_that_nobody_has_set_to_zeros_are_refused),
                  T(every_option_of_a_trainer_has_a_default_or_an_error),
                  T(checks_are_of_all_that_a_trainer_runs),
                  T(a_graph_that_assigns_is_run_or_refused),
                  T(a_graph_that_assigns_moves_what_it_assigns),
                  T(minimized_losses_are_metrics),
                  T(validations_and_tests_read_averages_where_there_are_any),
                  T(averages_that_never_begin_end_no_training),
                  T(files_of_the_best_weights_give_what_was_measured),
                  T(ranks_with_averages_step_alone_and_learn_of_each_others_errors),
                  T(an_error_of_one_rank_before_the_first_step_ends_all),
                  T(data_in_order_are_read_in_order),
                  T(a_sampler_gives_the_order_of_each_epoch),
                  T(validations_come_when_they_are_due),
                  T(metrics_are_taken_after_every_so_many_iterations),
                  T(a_world_trains_to_the_bits_of_one_rank)})
