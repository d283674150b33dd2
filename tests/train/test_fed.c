/* test_fed.c - inputs without a batch axis, fed by numbers (weft_trainer_options.set): constants and curves
 * in steps, evaluations and predictions; the bits of a loop by hand; resuming, ranks, micro-batches, types;
 * what is refused. The graphs give their numbers as metrics, so that each is seen where it is used. */
#include "support/programs.h"
#include "support/ranks.h"
#include "support/test.h"
#include "weft/weft.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 4, N_SAMPLES = 22, WIDTH = 3, PER_EPOCH = N_SAMPLES / BATCH };

/* ---- data and model ---- */

static weft_status read_sample(void *context, int64_t i, void *const *into, weft_error *error) {
    float *x = into[0], *t = into[1];
    (void)context, (void)error;
    x[0] = (float)i / 20, x[1] = (float)i / 40, x[2] = 1 / (float)(i + 1);
    *t = (float)sin((double)i);
    return WEFT_OK;
}

static const weft_source samples = {.count = N_SAMPLES,
                                    .n = 2,
                                    .arrays = {{"x", WEFT_F32, 1, {WIDTH}}, {"t", WEFT_F32, 1, {1}}},
                                    .read = read_sample};
static const weft_source *const list[] = {&samples};
#define SOURCES                                                                                              \
    { 1, list, NULL }

static weft_value *scalar(weft_graph *g, const char *name, weft_dtype dtype) {
    return weft_input(g, name, dtype, 0, NULL);
}

/* The network's output times tau. */
static weft_value *network(weft_graph *g, weft_value *tau) {
    weft_value *x = weft_input(g, "x", WEFT_F32, WEFT_SHAPE(WEFT_BATCH, WIDTH));
    return weft_mul(weft_linear(weft_tanh(weft_linear(x, 8, "in", NULL)), 1, "out", NULL), tau);
}

/* tau comes first, so that the batch is not that of the first input. */
static void add_graph(weft_model *m, const char *name, weft_mode mode) {
    weft_graph *g = weft_graph_new(m, name, mode);
    weft_value *tau = scalar(g, "tau", WEFT_F32);
    weft_value *y = network(g, tau);
    weft_value *loss = weft_mse(y, weft_input(g, "t", WEFT_F32, WEFT_SHAPE(WEFT_BATCH, 1)), NULL);
    if (mode == WEFT_TRAIN) weft_minimize(loss, "", &(weft_optimizer){.type = "adam", .lr = 1e-2});
    weft_output(loss, "loss");
    weft_output(weft_scale(tau, 1), "tau");
}

static weft_model *build(void) {
    weft_model *m = weft_model_new("m");
    weft_model_set_batch(m, BATCH);
    add_graph(m, "a", WEFT_TRAIN);
    add_graph(m, "val", WEFT_EVAL);
    weft_graph *g = weft_graph_new(m, "predict", WEFT_EVAL);
    weft_value *tau = scalar(g, "tau", WEFT_F32), *psi = weft_input(g, "psi", WEFT_F32, WEFT_SHAPE(2));
    weft_output(network(g, tau), "y");
    weft_output(weft_add(psi, tau), "psi");
    return m;
}

static weft_trainer *trainer_of(const weft_model *m, const weft_trainer_options *o) {
    weft_error e = {0};
    weft_trainer *t = weft_trainer_new(m, o, &e);
    CHECK_SAYS(t != NULL, "%s", e.text);
    return t;
}

static double step_of(weft_trainer *t, const char *metric) {
    weft_error e = {0};
    weft_metrics step = {0};
    CHECK_SAYS(weft_trainer_train_step(t, &step, &e) == WEFT_OK, "%s", e.text);
    return weft_metrics_get(&step, metric);
}

/* ---- numbers of iterations ---- */

TEST(constants_and_curves_have_their_numbers_in_each_iteration) {
    static const struct {
        const char *set;
        double want[6];
    } rows[] = {
        {"tau=0.5", {0.5, 0.5, 0.5, 0.5, 0.5, 0.5}},
        {"tau=-2e0", {-2, -2, -2, -2, -2, -2}},
        {"tau=0", {0, 0, 0, 0, 0, 0}},
        {"tau=linear:0.25:1:3", {0.25, 0.5, 0.75, 1, 1, 1}},
        {"tau=linear:1:-1:4", {1, 0.5, 0, -0.5, -1, -1}},
        {"tau=linear:0:8:1", {0, 8, 8, 8, 8, 8}},
        {"tau=cosine:1:0:2", {1, 0.5, 0, 0, 0, 0}},
        {"tau=exponential:1:0.0625:4", {1, 0.5, 0.25, 0.125, 0.0625, 0.0625}},
        {"tau=exponential:-4:-1:2", {-4, -2, -1, -1, -1, -1}},
        {"tau=linear:0:1:1epochs", {0, 0, 0, 0, 0, 1}}, /* of five iterations */
        {"tau=cosine:0:4:2epochs", {0, 0, 0, 0, 0, 2}},
    };
    weft_model *m = build();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        weft_trainer *t = trainer_of(m, &(weft_trainer_options){.train = SOURCES, .set = rows[i].set});
        for (int k = 0; t && k < 6; k++) {
            double got = step_of(t, "tau");
            CHECK_SAYS(fabs(got - rows[i].want[k]) < 1e-7, "%s, iteration %d: %.9g", rows[i].set, k, got);
        }
        weft_trainer_free(t);
    }
    weft_model_free(m);
}

/* The ends are the numbers that were given, to the last bit of f32. */
TEST(a_curve_begins_and_ends_at_its_numbers) {
    static const char *const curves[] = {"linear", "cosine", "exponential"};
    weft_model *m = build();
    for (int i = 0; i < 3; i++) {
        char set[80];
        snprintf(set, sizeof set, "tau=%s:0.04:0.07:3", curves[i]);
        weft_trainer *t = trainer_of(m, &(weft_trainer_options){.train = SOURCES, .set = set});
        double first = step_of(t, "tau"), second = step_of(t, "tau"), third = step_of(t, "tau");
        CHECK(first == (double)0.04f && first < second && second < third && third < 0.07);
        CHECK(step_of(t, "tau") == (double)0.07f && step_of(t, "tau") == (double)0.07f);
        weft_trainer_free(t);
    }
    weft_model_free(m);
}

/* ---- rows of a file ---- */

/* "tau=rows:NAME", a .npy of these numbers. */
static const char *rows_text(const char *name, int n, const double *numbers, char text[320]) {
    char path[300], shape[20];
    path_of(name, path);
    snprintf(text, 320, "tau=rows:%s", path);
    snprintf(shape, sizeof shape, "(%d,)", n);
    put_npy(name, "<f8", shape, numbers, (size_t)n * sizeof *numbers);
    return text;
}

TEST(rows_of_a_file_are_numbers_of_iterations) {
    const double numbers[] = {0.5, -1, 4};
    char text[320];
    weft_model *m = build();
    weft_trainer *t =
        trainer_of(m, &(weft_trainer_options){.train = SOURCES, .set = rows_text("r.npy", 3, numbers, text)});
    for (int k = 0; k < 7; k++) CHECK(step_of(t, "tau") == numbers[k % 3]);
    weft_trainer_free(t);
    weft_model_free(m);
}

TEST(rows_that_are_no_numbers_of_the_type_are_refused) {
    static const double wrong[] = {1, (double)INFINITY, 3, 4}, broken[] = {1, 2.5};
    char set[320], error[200];
    weft_error e[4] = {{0}};
    weft_model *m = build(), *typed = weft_model_new("typed");
    weft_graph *g = weft_graph_new(typed, "g", WEFT_TRAIN);
    weft_value *tau = weft_cast(scalar(g, "tau", WEFT_I32), WEFT_F32);
    weft_minimize(weft_mul(weft_parameter(tau, "w", 0, NULL, (weft_init){WEFT_INIT_ONES}), tau), "",
                  &(weft_optimizer){.type = "sgd", .lr = 1});
    weft_trainer_options o = {.train = SOURCES, .set = rows_text("wrong.npy", 4, wrong, set)};
    CHECK(!weft_trainer_new(m, &o, &e[0]));
    CHECK_HOLDS(e[0].text, "wrong.npy: row 1 is not a finite number");
    put_npy("wrong.npy", "<f8", "(2,2)", wrong, sizeof wrong);
    CHECK(!weft_trainer_new(m, &o, &e[1]));
    CHECK_HOLDS(e[1].text, "wrong.npy: a row must be one number, and is f64[2]");
    o = (weft_trainer_options){.iterations = 1, .set = rows_text("broken.npy", 2, broken, set)};
    CHECK(!weft_trainer_new(typed, &o, &e[2]));
    snprintf(error, sizeof error, "input tau is i32, which does not hold row 1 of rows:");
    CHECK_HOLDS(e[2].text, error);
    o = (weft_trainer_options){.train = SOURCES, .set = "tau=rows:there-is-none.npy"};
    CHECK(!weft_trainer_new(m, &o, &e[3]));
    CHECK_HOLDS(e[3].text, "there-is-none.npy");
    weft_model_free(typed);
    weft_model_free(m);
}

/* ---- the bits of a loop by hand ---- */

typedef struct weights {
    float in[8 * WIDTH], out[8];
} weights;

static weights weights_of(const weft_store *store) {
    weights w;
    weft_error e = {0};
    bool is_read = !weft_store_get(store, "in/weight", w.in, sizeof w.in, &e) &&
                   !weft_store_get(store, "out/weight", w.out, sizeof w.out, &e);
    CHECK_SAYS(is_read, "%s", e.text);
    return w;
}

/* Micro-batch k of a step, in the order of the data. */
static void run_by_hand(weft_session *s, int64_t k, float tau) {
    float x[BATCH][WIDTH], t[BATCH];
    weft_error e = {0};
    for (int i = 0; i < BATCH; i++) read_sample(NULL, k * BATCH + i, (void *[]){x[i], &t[i]}, &e);
    weft_feed feeds[] = {{"x", x, sizeof x}, {"t", t, sizeof t}, {"tau", &tau, sizeof tau}};
    CHECK_SAYS(weft_run(s, "a", feeds, 3, NULL, 0, &e) == WEFT_OK, "%s", e.text);
}

/* Two micro-batches an iteration have one number. */
TEST(a_training_has_the_bits_of_a_loop_by_hand) {
    weft_error e = {0};
    weft_model *m = build();
    weft_compile_options how = {.accumulate = 2};
    weft_plan *plan = weft_compile(m, &how, &e);
    weft_store *store = plan ? weft_store_new(plan, 3, &e) : NULL;
    weft_session *s = store ? weft_session_open(plan, store, &e) : NULL;
    CHECK_SAYS(s != NULL, "%s", e.text);
    for (int k = 0; s && k < 4; k++) run_by_hand(s, k, k < 2 ? 0.5f : 0.75f);
    weft_trainer *t = trainer_of(
        m, &(weft_trainer_options){
               .train = SOURCES, .compile = how, .seed = 3, .in_order = true, .set = "tau=linear:0.5:1:2"});
    CHECK(step_of(t, "tau") == 0.5 && step_of(t, "tau") == 0.75);
    weights by_hand = weights_of(store), by_trainer = weights_of(weft_trainer_store(t));
    CHECK(memcmp(&by_hand, &by_trainer, sizeof by_hand) == 0);
    weft_trainer_free(t);
    weft_session_close(s);
    weft_store_free(store);
    weft_plan_free(plan);
    weft_model_free(m);
}

/* ---- evaluations and predictions ---- */

/* The number of an input, as an evaluator reads it. */
static weft_status open_number(void *self, int64_t rows, const weft_view *reads, weft_tally_size *keeps,
                               weft_error *error) {
    (void)self, (void)rows, (void)error;
    CHECK(reads[0].ndim == 0 && reads[0].dtype == WEFT_F32);
    keeps->counts = keeps->sums = 1;
    return WEFT_OK;
}

static weft_status add_number(void *self, int64_t rows, const weft_view *reads, weft_tally *tally,
                              weft_error *error) {
    (void)self, (void)rows, (void)error;
    weft_tally_add(tally, 0, (double)*(const float *)reads[0].data);
    weft_tally_count(tally, 0, 1);
    return WEFT_OK;
}

static weft_status report_number(void *self, weft_tally *tally, weft_error *error) {
    (void)self, (void)error;
    weft_tally_report(tally, NULL, weft_tally_sum(tally, 0) / (double)weft_tally_counted(tally, 0));
    return WEFT_OK;
}

/* Validation and test have whole batches and a smaller one; the prediction has no data at all. */
TEST(evaluations_and_predictions_have_the_number_of_the_next_iteration) {
    const weft_evaluator seen = {
        .name = "seen", .reads = {"tau"}, .open = open_number, .batch = add_number, .report = report_number};
    weft_error e = {0};
    weft_metrics val = {0}, test = {0}, first = {0};
    weft_model *m = build();
    weft_trainer *t = trainer_of(m, &(weft_trainer_options){.train = SOURCES,
                                                            .val = SOURCES,
                                                            .test = SOURCES,
                                                            .n_evaluators = 1,
                                                            .evaluators = &seen,
                                                            .set = "tau=linear:1:3:8 psi=-0.5"});
    for (int k = 0; k < 3; k++) {
        double want = 1 + k / 4.0;
        CHECK_SAYS(!weft_trainer_validate(t, &val, &e), "%s", e.text);
        CHECK(weft_metrics_get(&val, "tau") == want && weft_metrics_get(&val, "seen") == want);
        CHECK(val.samples == N_SAMPLES);
        CHECK(!weft_trainer_test(t, &test, &e) && weft_metrics_get(&test, "tau") == want);
        CHECK(!weft_trainer_val_step(t, &first, &e) && weft_metrics_get(&first, "seen") == want);
        weft_array *psi = weft_trainer_predict(t, "predict", "psi",
                                               &(weft_dataset){1, list, (const char *[]){"x", NULL}}, &e);
        CHECK_HOLDS(e.text, "output psi has no axis of samples");
        CHECK(!psi && step_of(t, "tau") == want);
    }
    weft_trainer_free(t);
    weft_model_free(m);
}

/* y of all samples is y of tau 1 times tau. */
TEST(a_prediction_by_a_number_is_that_of_its_graph) {
    weft_error e = {0};
    weft_model *m = build();
    const weft_dataset data = {1, list, (const char *[]){"x", NULL}};
    const char *const sets[] = {"psi=0,tau=1", "tau=2 psi=0"};
    float y[2][N_SAMPLES];
    for (int i = 0; i < 2; i++) {
        weft_trainer *t =
            trainer_of(m, &(weft_trainer_options){.compile.graph = "predict", .seed = 5, .set = sets[i]});
        weft_array *a = t ? weft_trainer_predict(t, "predict", "y", &data, &e) : NULL;
        CHECK_SAYS(a != NULL, "%s", e.text);
        if (a) memcpy(y[i], weft_array_data(a), sizeof y[i]);
        weft_array_free(a);
        weft_trainer_free(t);
    }
    for (int i = 0; i < N_SAMPLES; i++) CHECK(y[0][i] != 0 && y[1][i] == 2 * y[0][i]);
    weft_model_free(m);
}

/* ---- graphs without data ---- */

/* Each step moves w to tau: the gradient of the mean of two squares is w - tau. */
TEST(numbers_alone_feed_a_graph_without_data) {
    weft_error e = {0};
    weft_model *m = weft_model_new("pulls");
    weft_graph *g = weft_graph_new(m, "pull", WEFT_TRAIN);
    weft_value *tau = weft_input(g, "tau", WEFT_F32, WEFT_SHAPE(2));
    weft_value *w = weft_parameter(tau, "w", 1, (const int64_t[]){2}, (weft_init){WEFT_INIT_ZEROS});
    weft_value *loss = weft_mse(w, tau, NULL);
    weft_minimize(loss, "", &(weft_optimizer){.type = "sgd", .lr = 1});
    weft_output(loss, "loss");
    weft_trainer *t = trainer_of(m, &(weft_trainer_options){.iterations = 3, .set = "tau=linear:1:3:2"});
    float got[2] = {0};
    CHECK_SAYS(t && weft_trainer_fit(t, &e) == WEFT_OK, "%s", e.text);
    CHECK(!weft_store_get(weft_trainer_store(t), "w", got, sizeof got, &e));
    CHECK(got[0] == 3 && got[1] == 3);
    weft_trainer_free(t);
    weft_model_free(m);
}

/* ---- options.train_step ---- */

static weft_status step_twice(weft_trainer *t, void *user, weft_error *error) {
    (void)user;
    weft_status status = weft_trainer_run(t, "a", WEFT_FLOW_AUTO, error);
    return status ? status : weft_trainer_run(t, "a", WEFT_FLOW_SAME, error);
}

TEST(runs_of_a_train_step_have_one_number) {
    weft_model *m = build();
    weft_trainer *t = trainer_of(
        m, &(weft_trainer_options){.train = SOURCES, .train_step = step_twice, .set = "tau=linear:0:1:2"});
    CHECK(step_of(t, "tau") == 0 && step_of(t, "tau") == 0.5 && step_of(t, "tau") == 1);
    weft_trainer_free(t);
    weft_model_free(m);
}

/* ---- checkpoints ---- */

static char told[4000];

static void hear(void *context, const char *line) {
    (void)context;
    snprintf(told + strlen(told), sizeof told - strlen(told), "%s\n", line);
}

/* Trains up to an iteration, from a checkpoint where the folder has one. */
static weights train_to(const weft_model *m, const char *folder, int64_t iterations, const char *set,
                        double *tau) {
    const weft_env env = {.log = hear};
    weft_error e = {0};
    *told = 0;
    weft_trainer *t = trainer_of(
        m, &(weft_trainer_options){.env = &env,
                                   .train = SOURCES,
                                   .epochs = 9,
                                   .iterations = iterations,
                                   .set = set,
                                   .checkpoints = {.folder = folder, .resume = folder ? "auto" : NULL}});
    CHECK_SAYS(t && weft_trainer_fit(t, &e) == WEFT_OK, "%s", e.text);
    *tau = weft_metrics_get(&weft_trainer_progress(t)->train, "tau");
    weights w = weights_of(weft_trainer_store(t));
    weft_trainer_free(t);
    return w;
}

/* In the middle of a curve of iterations, and of one of epochs, of which each has five iterations. */
TEST(a_training_that_resumes_has_the_numbers_of_one_that_did_not_stop) {
    char rows[320];
    const char *const sets[] = {"tau=linear:0:1:16", "tau=cosine:2:1:4epochs", "tau=0.5",
                                rows_text("resumed.npy", 4, (const double[]){4, 3, 2, 1}, rows)};
    weft_model *m = build();
    for (int i = 0; i < 4; i++) {
        char folder[300], name[20];
        double whole, first, rest;
        snprintf(name, sizeof name, "resumed-%d", i);
        path_of(name, folder);
        weights want = train_to(m, NULL, 12, sets[i], &whole);
        train_to(m, folder, 7, sets[i], &first);
        weights got = train_to(m, folder, 12, sets[i], &rest);
        CHECK(strstr(told, "set:") == NULL);
        CHECK_SAYS(memcmp(&want, &got, sizeof want) == 0 && whole == rest && (i == 2) == (first == rest),
                   "%s: %.9g, %.9g, %.9g", sets[i], whole, first, rest);
    }
    weft_model_free(m);
}

TEST(a_training_that_resumes_with_another_number_says_so) {
    char folder[300];
    double tau;
    weft_model *m = build();
    path_of("other", folder);
    train_to(m, folder, 2, "tau=linear:0:1:8", &tau);
    train_to(m, folder, 3, "tau=0.5", &tau);
    CHECK_HOLDS(told, "set: tau was 0.25, and is 0.5 in iteration 2");
    CHECK(tau == 0.5);
    train_to(m, folder, 4, "tau=linear:0.5:0.75:9", &tau);
    CHECK_HOLDS(told, "set: tau was 0.5, and is 0.583333333 in iteration 3");
    weft_model_free(m);
}

/* ---- ranks ---- */

typedef struct team {
    int accumulate;
    bool has_other; /* rank 1 has another file */
    const char *set[2];
    double tau[2];
    weights w[2];
    weft_status status[2];
    char text[2][200];
} team;

static int open_other(void *context, const char *path, void **file, uint64_t *bytes) {
    char other[320];
    snprintf(other, sizeof other, "%s.other", path);
    return weft_files(NULL)->open_read(context, other, file, bytes);
}

static void train_member(weft_comm *comm, int rank, void *context) {
    team *all = context;
    weft_io other = *weft_files(NULL);
    const weft_env env = {.io = &other};
    other.open_read = open_other;
    weft_error e = {0};
    weft_metrics val = {0};
    weft_model *m = build();
    weft_trainer *t = weft_trainer_new(m,
                                       &(weft_trainer_options){.compile.accumulate = all->accumulate,
                                                               .comm = comm,
                                                               .env = all->has_other && rank ? &env : NULL,
                                                               .seed = 9,
                                                               .train = SOURCES,
                                                               .val = SOURCES,
                                                               .iterations = 3,
                                                               .set = all->set[rank]},
                                       &e);
    all->status[rank] = t ? weft_trainer_fit(t, &e) : e.status;
    snprintf(all->text[rank], sizeof all->text[rank], "%.199s", e.text);
    if (t && !all->status[rank]) {
        all->tau[rank] = weft_metrics_get(&weft_trainer_progress(t)->train, "tau");
        all->w[rank] = weights_of(weft_trainer_store(t));
        CHECK(!weft_trainer_validate(t, &val, &e) && weft_metrics_get(&val, "tau") == 1);
    }
    weft_trainer_free(t);
    weft_model_free(m);
}

/* Two ranks, or two micro-batches. */
TEST(ranks_have_one_number_and_the_bits_of_one_rank) {
    team one = {.accumulate = 2, .set = {"tau=linear:0.25:1:3"}}, two = {.accumulate = 1};
    two.set[0] = two.set[1] = one.set[0];
    ranks_run(1, 60, train_member, &one);
    ranks_run(2, 60, train_member, &two);
    for (int r = 0; r < 2; r++) {
        CHECK_SAYS(!two.status[r] && !one.status[0], "%s%s", one.text[0], two.text[r]);
        CHECK(two.tau[r] == 0.75 && one.tau[0] == 0.75);
        CHECK(memcmp(&one.w[0], &two.w[r], sizeof one.w[0]) == 0);
    }
}

TEST(ranks_that_differ_in_rows_are_refused) {
    char whole[320], other[320];
    team two = {.accumulate = 1};
    two.set[0] = two.set[1] = rows_text("ranks.npy", 2, (const double[]){2, 1}, whole);
    ranks_run(2, 60, train_member, &two);
    CHECK_SAYS(two.tau[0] == 2 && two.tau[1] == 2, "%s%s", two.text[0], two.text[1]);
    rows_text("ranks.npy.other", 2, (const double[]){2, 3}, other);
    two.has_other = true;
    ranks_run(2, 60, train_member, &two);
    for (int r = 0; r < 2; r++) CHECK_HOLDS(two.text[r], "the ranks do not agree: hash of the rows of set");
}

TEST(ranks_that_differ_in_a_number_are_refused) {
    static const char *const others[] = {"tau=0.07", NULL};
    for (int i = 0; i < 2; i++) {
        team two = {.accumulate = 1, .set = {"tau=0.05", others[i]}};
        ranks_run(2, 60, train_member, &two);
        for (int r = 0; r < 2; r++) {
            CHECK(two.status[r] == WEFT_PEER);
            CHECK_HOLDS(two.text[r],
                        i ? "the ranks do not agree: set tau=0.05 on rank 0, not given on rank 1"
                          : "the ranks do not agree: set tau=0.05 on rank 0, tau=0.07 on rank 1");
        }
    }
}

/* ---- types ---- */

/* A graph whose output is the mean of an input of this type, as f64. */
static weft_model *build_typed(weft_dtype dtype, int ndim) {
    weft_model *m = weft_model_new("typed");
    weft_graph *g = weft_graph_new(m, "g", WEFT_EVAL);
    weft_value *v = weft_input(g, "v", dtype, ndim, (const int64_t[]){3, 5});
    weft_output(weft_mean(weft_cast(v, WEFT_F64), 0, NULL, false), "v");
    return m;
}

TEST(numbers_become_the_type_of_their_input_or_are_refused) {
    static const char fractions[] = "and linear:0:1:9 has fractions: give a whole number";
    static const struct {
        weft_dtype dtype;
        const char *set;
        double want;
        const char *error; /* NULL: none */
    } rows[] = {
        {WEFT_F32, "v=0.1", (double)0.1f, NULL},
        {WEFT_F64, "v=0.1", 0.1, NULL},
        {WEFT_F64, "v=-1e30", -1e30, NULL},
        {WEFT_I64, "v=-9007199254740992", -0x1p53, NULL},
        {WEFT_I32, "v=-2147483648", -0x1p31, NULL},
        {WEFT_I32, "v=2147483648", 0, "input v is i32, which does not hold 2147483648"},
        {WEFT_I32, "v=0.5", 0, "input v is i32, which does not hold 0.5"},
        {WEFT_U8, "v=255", 255, NULL},
        {WEFT_U8, "v=256", 0, "input v is u8, which does not hold 256"},
        {WEFT_U8, "v=-1", 0, "input v is u8, which does not hold -1"},
        {WEFT_BOOL, "v=1", 1, NULL},
        {WEFT_BOOL, "v=0", 0, NULL},
        {WEFT_BOOL, "v=2", 0, "input v is bool, which does not hold 2"},
        {WEFT_F16, "v=1", 0, "input v is f16, which no number feeds: declare it f32, and cast it"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int ndim = 0; ndim < 3; ndim++) {
            weft_error e = {0};
            weft_metrics got = {0};
            weft_model *m = build_typed(rows[i].dtype, ndim);
            weft_trainer_options o = {.compile.graph = "g", .val_graph = "g", .set = rows[i].set};
            weft_trainer *t = weft_trainer_new(m, &o, &e);
            CHECK_SAYS(!t == (rows[i].error != NULL), "%s, %d axes: %s", rows[i].set, ndim, e.text);
            if (rows[i].error) CHECK_HOLDS(e.text, rows[i].error);
            if (t) CHECK_SAYS(!weft_trainer_validate(t, &got, &e), "%s", e.text);
            double value = t ? weft_metrics_get(&got, "v") : 0;
            CHECK_SAYS(fabs(value - rows[i].want) <= 1e-15 * fabs(value), "%s: %.17g", rows[i].set, value);
            weft_trainer_free(t);
            weft_model_free(m);
        }
    weft_error e = {0};
    weft_model *m = build_typed(WEFT_I32, 0);
    weft_trainer_options o = {.iterations = 1, .val_graph = "g", .set = "v=linear:0:1:9"};
    weft_graph *g = weft_graph_new(m, "train", WEFT_TRAIN);
    weft_value *v = weft_cast(scalar(g, "v", WEFT_I32), WEFT_F32);
    weft_value *w = weft_parameter(v, "w", 0, NULL, (weft_init){WEFT_INIT_ONES});
    weft_minimize(weft_mul(w, v), "", &(weft_optimizer){.type = "sgd", .lr = 1});
    CHECK(!weft_trainer_new(m, &o, &e));
    CHECK_HOLDS(e.text, fractions);
    weft_model_free(m);
}

/* ---- what is refused ---- */

static weft_status read_taus(void *context, int64_t i, void *const *into, weft_error *error) {
    read_sample(context, i, into, error);
    *(float *)into[2] = 1;
    return WEFT_OK;
}

TEST(what_cannot_be_fed_is_refused_in_one_line) {
    static const char rule[] = ": it must be a number, a curve over N iterations or epochs (linear:FROM:TO:N";
    static const weft_source with_tau = {
        .count = N_SAMPLES,
        .n = 3,
        .arrays = {{"x", WEFT_F32, 1, {WIDTH}}, {"t", WEFT_F32, 1, {1}}, {"tau", WEFT_F32, 0, {0}}},
        .read = read_taus};
    static const weft_source *const columns[] = {&with_tau};
    const struct {
        const char *error, *set;
        weft_trainer_options options;
    } rows[] = {
        {NULL, "tau=1", {.train = SOURCES}},
        {NULL, " tau=1 , psi=2 ", {.train = SOURCES, .val = SOURCES}},
        {"graph a: input tau f32[] is not fed: it has no batch axis, so give it a number, "
         "options.set=\"tau=NUMBER\" (graphtool: --set tau=NUMBER)",
         NULL,
         {.train = SOURCES}},
        {"graph val: input tau f32[] is not fed: it has no batch axis",
         NULL,
         {.compile.graph = "val", .val = SOURCES}},
        {"data tau: the samples are f32[22], graph a takes f32[], which has no batch axis, so no sample "
         "feeds "
         "it: give it a number, options.set=\"tau=NUMBER\" (graphtool: --set tau=NUMBER)",
         NULL,
         {.train = {1, columns, NULL}}},
        {"graph a: input tau has data and a number, tau=1: leave out one of them",
         "tau=1",
         {.train = {1, columns, NULL}}},
        {"trainer: set: no graph of model m has an input 'tua': did you mean 'tau'?",
         "tua=1",
         {.train = SOURCES}},
        {"trainer: set: graph val has no input 'psi'",
         "tau=1 psi=1",
         {.compile.graph = "val", .val = SOURCES}},
        {"graph a: input x f32[4,3] has a batch axis: data feed it, and no number",
         "tau=1 x=1",
         {.train = SOURCES}},
        {"trainer: set: tau is given twice", "tau=1 tau=2", {.train = SOURCES}},
        {"trainer: set: 'tau': it must be NAME=NUMBER", "tau", {.train = SOURCES}},
        {"trainer: set: '=1': it must be NAME=NUMBER", "=1", {.train = SOURCES}},
        {rule, "tau=", {.train = SOURCES}},
        {rule, "tau=warm", {.train = SOURCES}},
        {rule, "tau=nan", {.train = SOURCES}},
        {rule, "tau=inf", {.train = SOURCES}},
        {rule, "tau=1e39", {.train = SOURCES}},
        {rule, "tau=1:2", {.train = SOURCES}},
        {rule, "tau=linear", {.train = SOURCES}},
        {rule, "tau=linear:0", {.train = SOURCES}},
        {rule, "tau=linear:0:1", {.train = SOURCES}},
        {rule, "tau=linear:0:1:0", {.train = SOURCES}},
        {rule, "tau=linear:0:1:-3", {.train = SOURCES}},
        {rule, "tau=linear:0:1:3.5", {.train = SOURCES}},
        {rule, "tau=linear:0:1:3:4", {.train = SOURCES}},
        {rule, "tau=linear:0:1:epochs", {.train = SOURCES}},
        {rule, "tau=linear:0:1:3steps", {.train = SOURCES}},
        {rule, "tau=exponential:0:1:3", {.train = SOURCES}},
        {rule, "tau=exponential:-1:1:3", {.train = SOURCES}},
        {"or rows:FILE: did you mean 'linear'?", "tau=liner:0:1:3", {.train = SOURCES}},
        {"trainer: set: tau=linear:0:1:3: graph val alone has no iterations to count: give a number",
         "tau=linear:0:1:3",
         {.compile.graph = "val", .val = SOURCES}},
    };
    weft_model *m = build();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        weft_error e = {0};
        weft_trainer_options o = rows[i].options;
        o.set = rows[i].set;
        weft_trainer *t = weft_trainer_new(m, &o, &e);
        CHECK_SAYS(!t == (rows[i].error != NULL) && (t || strstr(e.text, rows[i].error)), "row %zu: '%s'", i,
                   e.text);
        weft_trainer_free(t);
    }
    weft_model_free(m);
}

/* The count of a training needs its batch, which is not the first axis of its first input. */
TEST(a_training_is_counted_with_its_numbers) {
    int64_t n = 0;
    weft_error e = {0};
    weft_model *m = build();
    weft_trainer_options o = {.train = SOURCES, .epochs = 2, .set = "tau=1"};
    CHECK_SAYS(!weft_trainer_count(m, &o, "a", &n, &e) && n == 2 * PER_EPOCH, "%s %d", e.text, (int)n);
    weft_model_free(m);
}

/* A teacher that follows by a number moves once in a step, whatever its micro-batches. */
TEST(a_graph_whose_inputs_are_all_numbers_runs_once_in_an_iteration) {
    weft_model *m = build();
    weft_graph *g = weft_graph_new(m, "count", WEFT_EVAL);
    weft_value *by = scalar(g, "by", WEFT_F32), *sum = weft_state(by, "sum", 0, NULL, (weft_init){0});
    weft_assign(sum, weft_add(sum, by));
    weft_model_set_flow(m, "count a");
    for (int micros = 1; micros <= 3; micros++) {
        weft_trainer_options o = {.train = SOURCES, .set = "tau=1 by=0.5", .compile = {.accumulate = micros}};
        weft_trainer *t = trainer_of(m, &o);
        weft_error e = {0};
        float got = 0;
        for (int i = 0; t && i < 4; i++) step_of(t, "loss");
        weft_session *s = t ? weft_trainer_session(t, &e) : NULL;
        CHECK_SAYS(s && weft_store_get(weft_trainer_store(t), "sum", &got, sizeof got, &e) == WEFT_OK, "%s",
                   e.text);
        CHECK_SAYS(got == 2, "%d micro-batches: %g after 4 iterations", micros, (double)got);
        weft_trainer_free(t);
    }
    weft_model_free(m);
}

/* Beside graphs with WEFT_BATCH: one whose batch is written as a number takes batches like them. */
TEST(a_batch_of_a_fixed_length_is_a_batch) {
    weft_model *m = build();
    weft_graph *g = weft_graph_new(m, "fixed", WEFT_EVAL);
    weft_value *x = weft_input(g, "x", WEFT_F32, WEFT_SHAPE(BATCH, WIDTH));
    weft_output(weft_mean(x, WEFT_ALL, false), "mean");
    weft_model_set_flow(m, "fixed{batch=next} a{batch=next}");
    weft_error e = {0};
    weft_plan *plan = weft_compile(m, &(weft_compile_options){.accumulate = 2}, &e);
    weft_flow_step s = {0};
    CHECK_SAYS(plan && weft_plan_flow(plan, 0, &s), "%s", e.text);
    CHECK(s.batch == WEFT_FLOW_NEXT && s.accumulate == 2);
    weft_plan_free(plan);
    weft_model_free(m);
}

SUITE("fed",
      {T(constants_and_curves_have_their_numbers_in_each_iteration),
       T(a_curve_begins_and_ends_at_its_numbers), T(rows_of_a_file_are_numbers_of_iterations),
       T(rows_that_are_no_numbers_of_the_type_are_refused), T(a_training_has_the_bits_of_a_loop_by_hand),
       T(evaluations_and_predictions_have_the_number_of_the_next_iteration),
       T(a_prediction_by_a_number_is_that_of_its_graph), T(numbers_alone_feed_a_graph_without_data),
       T(runs_of_a_train_step_have_one_number),
       T(a_graph_whose_inputs_are_all_numbers_runs_once_in_an_iteration),
       T(a_batch_of_a_fixed_length_is_a_batch),
       T(a_training_that_resumes_has_the_numbers_of_one_that_did_not_stop),
       T(a_training_that_resumes_with_another_number_says_so),
       T(ranks_have_one_number_and_the_bits_of_one_rank), T(ranks_that_differ_in_a_number_are_refused),
       T(ranks_that_differ_in_rows_are_refused), T(numbers_become_the_type_of_their_input_or_are_refused),
       T(what_cannot_be_fed_is_refused_in_one_line), T(a_training_is_counted_with_its_numbers)})
