/* test_hooks.c - hooks that decide by a metric of the validation; wrong hooks; errors of one rank, which end
 * all; what hooks may call. test_logs.c and test_hook_pictures.c have the others. */
#include "support/models/hooked.h"
#include "support/ranks.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <stdlib.h>

/* ---- early stop, best weights ---- */

static const struct {
    weft_early_stop how;
    double score[12];
    int vals; /* that ran, of 12 */
} stops[] = {
    {{"score"}, {5, 4, 3, 3, 3, 3, 0}, 6},                                    /* patience 3 */
    {{"score", .patience = 2}, {5, 6, 4, 5, 4, 0}, 5},                        /* an equal one is no better */
    {{"score", .max = true, .patience = 1}, {1, 2, 3, 2, 9}, 4},              /* a greater one is better */
    {{"score", .patience = 2, .min_delta = 0.5}, {5, 4.6, 4.4, 4.2, 4.1}, 5}, /* from 5 to 4.4 is enough */
    {{"score", .patience = 4}, {5, 4, NAN, 3, 2}, 3},                         /* NaN stops at once */
    {{"score", .patience = 20}, {0}, 12},
};

typedef struct stop_run {
    int row;
    int64_t iterations[WORLDS];
    int vals[WORLDS];
} stop_run;

static void run_stop(weft_comm *comm, int rank, void *context) {
    stop_run *r = context;
    weft_error e = {0};
    script s = {.values = stops[r->row].score};
    weft_evaluator evaluator = script_evaluator(&s);
    weft_hook hook = weft_hook_early_stop(&stops[r->row].how);
    weft_model *m = hooked_model();
    weft_trainer *t = hooked_trainer(m, &(weft_trainer_options){.comm = comm,
                                                                .train = HOOKED_DATA,
                                                                .val = HOOKED_DATA,
                                                                .epochs = 12,
                                                                .n_evaluators = 1,
                                                                .evaluators = &evaluator,
                                                                .n_hooks = 1,
                                                                .hooks = &hook});
    CHECK_SAYS(t && weft_trainer_fit(t, &e) == WEFT_OK, "%s", e.text);
    r->vals[rank] = s.next;
    r->iterations[rank] = t ? weft_trainer_progress(t)->iteration : -1;
    weft_trainer_free(t);
    weft_model_free(m);
}

TEST(a_metric_that_no_longer_improves_stops_all_ranks_at_once) {
    for (int row = 0; row < (int)(sizeof stops / sizeof *stops); row++)
        for (int world = 1; world <= WORLDS; world++) {
            stop_run r = {.row = row};
            ranks_run(world, 60, run_stop, &r);
            for (int k = 0; k < world; k++) {
                CHECK_SAYS(r.vals[k] == stops[row].vals, "row %d, rank %d of %d: %d", row, k, world,
                           r.vals[k]);
                CHECK(r.iterations[k] == r.vals[k] * (SAMPLES / BATCH / world));
            }
        }
}

TEST(the_file_has_the_best_weights) {
    static const double score[] = {5, 3, 4, 2, 2, 6};
    static const int greatest[] = {0, 0, 0, 0, 0, 5}, least[] = {0, 1, 1, 3, 3, 3};
    char folder[] = "/tmp/weft_bestXXXXXX", path[100];
    NEED(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/best.safetensors", folder);
    for (int vals = 1; vals <= 6; vals++)
        for (int max = 0; max < 2; max++) {
            weft_error e = {0};
            float kept = 0;
            seen s = {0};
            script of = {.values = score};
            weft_evaluator evaluator = script_evaluator(&of);
            weft_hook hooks[] = {SEES(&s), weft_hook_best(&(weft_best){"score", max, path, false})};
            weft_model *m = hooked_model();
            weft_trainer *t = hooked_trainer(m, &(weft_trainer_options){.train = HOOKED_DATA,
                                                                        .val = HOOKED_DATA,
                                                                        .epochs = vals,
                                                                        .n_evaluators = 1,
                                                                        .evaluators = &evaluator,
                                                                        .n_hooks = 2,
                                                                        .hooks = hooks});
            CHECK_SAYS(t && weft_trainer_fit(t, &e) == WEFT_OK, "%s", e.text);
            CHECK_SAYS(!weft_weights_load(weft_trainer_store(t), path, NULL, NULL, &e), "%s", e.text);
            weft_store_get(weft_trainer_store(t), "fc/weight", &kept, 4, NULL);
            CHECK(s.vals == vals && kept == s.weight[max ? greatest[vals - 1] : least[vals - 1]]);
            weft_trainer_free(t);
            weft_model_free(m);
            unlink(path);
        }
    rmdir(folder);
}

/* ---- a plateau ---- */

enum { EVALUATIONS = 60 };

typedef struct plateau_run {
    weft_plateau rules;
    const double *rates; /* [EVALUATIONS]: PyTorch's */
} plateau_run;

/* Checks the base rate after each validation. */
static weft_status check_rate(void *self, weft_trainer *t, weft_hook_point point, weft_error *error) {
    const double **next = self;
    double lr = -1;
    if (point != WEFT_AFTER_VAL) return WEFT_OK;
    weft_status status = weft_store_get(weft_trainer_store(t), "optimizer.slow/lr", &lr, sizeof lr, error);
    CHECK_SAYS(fabs(lr - **next) <= 1e-12 * **next, "iteration %d: %g, not %g",
               (int)weft_trainer_progress(t)->iteration, lr, **next);
    ++*next;
    return status;
}

static void run_plateau(weft_comm *comm, int rank, void *context) {
    const plateau_run *r = context;
    const double *next = r->rates;
    double scores[EVALUATIONS];
    weft_error e = {0};
    for (int i = 0; i < EVALUATIONS; i++) /* as golden/make_schedules.py */
        scores[i] = 1 + ((i * 7) % 5) / 4.0 - (i < 12 ? i : 12) / 16.0;
    script s = {.values = scores};
    weft_evaluator evaluator = script_evaluator(&s);
    weft_hook hooks[] = {weft_hook_plateau("score", "slow", &r->rules),
                         {"rate", check_rate, NULL, NULL, &next}};
    weft_model *m = hooked_model();
    weft_trainer *t = hooked_trainer(m, &(weft_trainer_options){.comm = comm,
                                                                .train = HOOKED_DATA,
                                                                .val = HOOKED_DATA,
                                                                .iterations = EVALUATIONS,
                                                                .val_epochs = -1,
                                                                .val_iterations = 1,
                                                                .n_evaluators = 1,
                                                                .evaluators = &evaluator,
                                                                .n_hooks = 2,
                                                                .hooks = hooks});
    (void)rank;
    NEED(t && !weft_store_set_lr(weft_trainer_store(t), NULL, 0.5, &e));
    CHECK_SAYS(weft_trainer_fit(t, &e) == WEFT_OK, "%s", e.text);
    CHECK(next == r->rates + EVALUATIONS);
    weft_trainer_free(t);
    weft_model_free(m);
}

static void check_plateau(weft_plateau rules, const double *rates) {
    for (int world = 1; world <= 2; world++) ranks_run(world, 60, run_plateau, &(plateau_run){rules, rates});
}

TEST(rates_fall_on_a_plateau_as_in_pytorch) {
#define UNPACKED(...)   __VA_ARGS__
#define PLATEAU(p, ...) check_plateau(UNPACKED p, (const double[EVALUATIONS]){__VA_ARGS__});
#include "golden/schedules.h"
}

/* A trainer that a hook refuses: its error. */
static weft_error refused(weft_model *m, weft_trainer_options o, weft_hook hook) {
    weft_error e = {0};
    o.n_hooks = 1, o.hooks = &hook;
    weft_trainer *t = weft_trainer_new(m, &o, &e);
    CHECK(!t);
    weft_trainer_free(t);
    return e;
}

static weft_status read_label(void *context, int64_t i, void *const *into, weft_error *error) {
    (void)context, (void)error;
    *(int32_t *)into[0] = (int32_t)(i % 2);
    return WEFT_OK;
}

TEST(wrong_hooks_are_refused) {
    const struct {
        weft_hook hook;
        const char *says;
    } wrong[] = {
        {weft_hook_text(NULL, 0), "text: a file is needed"},
        {weft_hook_json(NULL, 0), "json: a path is needed"},
        {weft_hook_csv(NULL, 0), "csv: a path is needed"},
        {weft_hook_tensorboard(NULL, 0), "tensorboard: a folder is needed"},
        {weft_hook_curves(NULL, 0), "curves: a path is needed that ends with .svg or .png"},
        {weft_hook_curves("curves.pdf", 0), "curves: a path is needed that ends with .svg or .png"},
        {weft_hook_samples(NULL), "samples: a path or a folder for TensorBoard is needed"},
        {weft_hook_samples(&(weft_samples){.rows = 2}), "samples: a path or a folder"},
        {weft_hook_samples(&(weft_samples){.path = "x.png", .every = -1}), "every is at least 1"},
        {weft_hook_samples(&(weft_samples){.path = "x.png", .scale = -1}), "scale is 1 to 64"},
        {weft_hook_samples(&(weft_samples){.path = "x.png", .scale = 65}), "scale is 1 to 64"},
        {weft_hook_samples(&(weft_samples){.path = "x.png", .strip = 1}), "a strip has 2 to 20000 rows"},
        {weft_hook_samples(&(weft_samples){.path = "x.png", .strip = 3, .every = 5}),
         "leave every and rows out"},
        {weft_hook_early_stop(NULL), "early stop: a metric is needed"},
        {weft_hook_early_stop(&(weft_early_stop){"loss", .patience = -1}), "patience must not be negative"},
        {weft_hook_early_stop(&(weft_early_stop){"loss", .min_delta = NAN}), "min_delta must be 0 or more"},
        {weft_hook_best(&(weft_best){"loss"}), "best: a metric and a path are needed"},
        {weft_hook_best(&(weft_best){.path = "x"}), "best: a metric and a path are needed"},
        {weft_hook_plateau(NULL, NULL, NULL), "plateau: a metric is needed"},
        {{.name = "mine"}, "hook 0 could not be made: mine"},
    };
    weft_model *m = hooked_model();
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        weft_error e = refused(m, (weft_trainer_options){.train = HOOKED_DATA}, wrong[i].hook);
        CHECK(e.status == WEFT_ARGUMENT);
        CHECK_HOLDS(e.text, "hook 0 could not be made: ");
        CHECK_HOLDS(e.text, wrong[i].says);
    }
    CHECK(refused(m, (weft_trainer_options){.train = HOOKED_DATA}, (weft_hook){0}).status == WEFT_MEMORY);
    weft_model_free(m);
}

/* Where a hook of the user looks at a trainer that is complete: its plan is there. */
static weft_status open_needs_two(void *self, weft_trainer *t, weft_error *error) {
    weft_flow_step step;
    (void)self;
    bool is_there = weft_plan_flow(weft_trainer_plan(t), 1, &step);
    return is_there ? WEFT_OK : weft_error_set(error, WEFT_ORDER, "this hook needs a flow of two steps");
}

static weft_status does_nothing(void *self, weft_trainer *t, weft_hook_point point, weft_error *error) {
    (void)self, (void)t, (void)point, (void)error;
    return WEFT_OK;
}

TEST(hooks_of_the_user_are_opened_before_the_first_step) {
    weft_model *m = hooked_model();
    weft_error e = refused(m, (weft_trainer_options){.train = HOOKED_DATA},
                           (weft_hook){.name = "two", .at = does_nothing, .open = open_needs_two});
    CHECK(e.status == WEFT_ORDER);
    CHECK_HOLDS(e.text, "this hook needs a flow of two steps");
    weft_model_free(m);
}

/* Before the first step, and before a log is opened. */
TEST(names_and_folders_that_are_wrong_are_found_at_once) {
    script of = {0};
    weft_evaluator evaluators[] = {script_evaluator(&of)};
    weft_trainer_options o = {
        .train = HOOKED_DATA, .val = HOOKED_DATA, .n_evaluators = 1, .evaluators = evaluators};
    weft_dataset data = {1, hooked_list, (const char *[]){"x", NULL}};
    const struct {
        weft_hook hook;
        weft_status status;
        const char *says;
    } wrong[] = {
        {weft_hook_early_stop(&(weft_early_stop){"los"}), WEFT_NAME,
         "hook early stop: the validation gives no metric 'los': did you mean 'loss'? It gives: loss, "
         "score"},
        {weft_hook_best(&(weft_best){"scores", .path = "b"}), WEFT_NAME, "no metric 'scores'"},
        {weft_hook_best(&(weft_best){"score/part", .path = "/tmp/weft_no_folder/b"}), WEFT_IO,
         "/tmp/weft_no_folder/b: the hook best cannot write there: No such file or directory"},
        {weft_hook_plateau("sore", NULL, NULL), WEFT_NAME,
         "hook plateau: the validation gives no metric 'sore'"},
        {weft_hook_plateau("loss", "slwo", NULL), WEFT_NAME, "'slwo'"},
        {weft_hook_plateau("loss", NULL, &(weft_plateau){.factor = 2, .has_best = true}), WEFT_ARGUMENT,
         "factor must be"},
        {weft_hook_curves("/tmp/weft_no_folder/c.svg", 0), WEFT_IO, "/tmp/weft_no_folder"},
        {weft_hook_samples(&(weft_samples){.graph = "predcit", .data = data, .path = "x.png"}), WEFT_NAME,
         "predcit"},
        {weft_hook_samples(&(weft_samples){.output = "foto", .data = data, .path = "x.png"}), WEFT_NAME,
         "foto"},
        {weft_hook_samples(&(weft_samples){.data = {1, hooked_list, NULL}, .path = "x.png"}), WEFT_NAME,
         "hook samples: "},
        {weft_hook_samples(&(weft_samples){.graph = "val", .data = HOOKED_DATA, .path = "x.png"}), WEFT_SHAPE,
         "hook samples: "},
        {weft_hook_samples(&(weft_samples){.data = data, .path = "x.png", .real = "imgae"}), WEFT_NAME,
         "real=imgae: no data of the training feed an input of this name"},
        {weft_hook_samples(&(weft_samples){.data = data, .path = "x.png", .real = "x"}), WEFT_SHAPE,
         "real=x: its samples are f32[1,1], which are not images like u8[1,2,3]"},
        {weft_hook_samples(&(weft_samples){.data = data, .path = "/tmp/weft_no_folder/x.png"}), WEFT_IO,
         "/tmp/weft_no_folder"},
        {weft_hook_samples(&(weft_samples){.data = data, .tensorboard = "/tmp/weft_no_folder/logs/"}),
         WEFT_IO, "/tmp/weft_no_folder"},
    };
    weft_model *m = hooked_painter();
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        weft_error e = refused(m, o, wrong[i].hook);
        CHECK_SAYS(e.status == wrong[i].status, "%d: %d %s", (int)i, (int)e.status, e.text);
        CHECK_HOLDS(e.text, wrong[i].says);
    }
    o.val = (weft_dataset){0}, o.n_evaluators = 0;
    weft_error e = refused(m, o, weft_hook_early_stop(&(weft_early_stop){"loss"}));
    CHECK(e.status == WEFT_ORDER);
    weft_model_free(m);
}

/* The confusion matrix has metrics of its own names. */
TEST(metrics_of_evaluators_are_known_before_the_first_step) {
    weft_model *m = weft_model_new("m");
    weft_model_set_batch(m, 2);
    weft_source labels = {.count = 4, .n = 1, .arrays = {{"label", WEFT_I32, 0, {0}}}, .read = read_label};
    weft_dataset data = {1, (const weft_source *[]){&labels}, NULL};
    for (int i = 0; i < 2; i++) {
        weft_graph *g = weft_graph_new(m, i ? "val" : "train", i ? WEFT_EVAL : WEFT_TRAIN);
        weft_value *label = weft_input(g, "label", WEFT_I32, WEFT_SHAPE(WEFT_BATCH));
        weft_value *scores =
            weft_linear(weft_reshape(weft_cast(label, WEFT_F32), WEFT_SHAPE(-1, 1)), 2, "fc", NULL);
        weft_output(scores, "scores");
        if (!i)
            weft_minimize(weft_cross_entropy(scores, label, NULL), "",
                          &(weft_optimizer){.type = "sgd", .lr = 0.1});
    }
    static const char *const names[] = {"confusion/f1", "accuracy", "confusion", "confusion/f2",
                                        "accuracy/x"};
    for (int i = 0; i < 5; i++) {
        weft_error e = {0};
        weft_evaluator of[] = {weft_evaluator_confusion("scores", "label", NULL),
                               weft_evaluator_accuracy("scores", "label", 1)};
        char name[20];
        snprintf(name, sizeof name, "%s", names[i]);
        weft_hook hook = weft_hook_early_stop(&(weft_early_stop){name});
        memset(name, 0, sizeof name); /* it was copied */
        weft_trainer *t = weft_trainer_new(m,
                                           &(weft_trainer_options){.train = data,
                                                                   .val = data,
                                                                   .n_evaluators = 2,
                                                                   .evaluators = of,
                                                                   .n_hooks = 1,
                                                                   .hooks = &hook},
                                           &e);
        CHECK_SAYS(i < 2 ? t && weft_trainer_fit(t, &e) == WEFT_OK : !t && e.status == WEFT_NAME, "%s: %s",
                   names[i], e.text);
        if (i > 1) CHECK_HOLDS(e.text, "confusion/recall, confusion/f1, confusion/iou, accuracy");
        weft_trainer_free(t);
    }
    weft_model_free(m);
}

/* ---- errors of one rank ---- */

typedef enum fault { BY_HOOK, BY_DATA, BY_VAL_HOOK, BY_METRIC } fault;

typedef struct fault_run {
    fault fault;
    weft_status status[WORLDS];
    char text[WORLDS][200];
} fault_run;

static weft_status fail_at(void *self, weft_trainer *t, weft_hook_point point, weft_error *error) {
    const fault_run *r = self;
    const weft_progress *p = weft_trainer_progress(t);
    weft_hook_point when = r->fault == BY_HOOK ? WEFT_BEFORE_ITERATION : WEFT_AFTER_VAL;
    if (p->rank != 1 || point != when || p->iteration < 2) return WEFT_OK;
    return weft_error_set(error, WEFT_DATA, "the hook of rank 1 is out of luck");
}

static void run_fault(weft_comm *comm, int rank, void *context) {
    fault_run *r = context;
    weft_error e = {0};
    int64_t broken = -1; /* later than ranks compare their data */
    weft_source mine = hooked_samples;
    mine.context = &broken;
    weft_hook hook = {"fails", fail_at, NULL, NULL, r};
    weft_model *m = hooked_model();
    weft_trainer *t =
        hooked_trainer(m, &(weft_trainer_options){.comm = comm,
                                                  .train = {1, (const weft_source *[]){&mine}, NULL},
                                                  .val = HOOKED_DATA,
                                                  .epochs = 3,
                                                  .n_hooks = r->fault == BY_HOOK || r->fault == BY_VAL_HOOK,
                                                  .hooks = &hook});
    if (r->fault == BY_DATA && rank == 1) broken = 40;
    if (r->fault == BY_METRIC && t) {
        float nan = NAN;
        weft_store_set(weft_trainer_store(t), "fc/weight", &nan, 4, NULL);
    }
    r->status[rank] = t ? weft_trainer_fit(t, &e) : WEFT_OK;
    snprintf(r->text[rank], sizeof r->text[rank], "%.199s", e.text);
    if (r->fault == BY_METRIC) { /* all met it: the communicator continues */
        weft_metrics metrics;
        CHECK_SAYS(weft_trainer_validate(t, &metrics, &e) == WEFT_OK, "%s", e.text);
    }
    weft_trainer_free(t);
    weft_model_free(m);
}

TEST(an_error_of_one_rank_ends_all_with_its_text) {
    static const char *const texts[] = {"the hook of rank 1 is out of luck", "photos/7.png: it is damaged",
                                        "the hook of rank 1 is out of luck",
                                        "graph train: loss is NaN on rank 0"};
    for (int i = 0; i < 4; i++)
        for (int world = 2; world <= WORLDS; world++) {
            fault_run r = {.fault = (fault)i};
            ranks_run(world, 60, run_fault, &r);
            for (int k = 0; k < world; k++) {
                CHECK(r.status[k] == (k == 1 && i == BY_DATA            ? WEFT_FILE
                                      : k == 1 || (fault)i == BY_METRIC ? WEFT_DATA
                                                                        : WEFT_PEER));
                CHECK_HOLDS(r.text[k], texts[i]);
                if (k != 1 && (fault)i != BY_METRIC) CHECK_HOLDS(r.text[k], "rank 1 has given up: ");
            }
        }
}

/* Rank 0 writes, and alone finds that a folder is not there. */
static void run_without_folder(weft_comm *comm, int rank, void *context) {
    weft_error e = {0};
    weft_hook hook = weft_hook_best(&(weft_best){"loss", .path = "/tmp/weft_no_folder/best"});
    weft_model *m = hooked_model();
    weft_trainer_options o = {
        .comm = comm, .train = HOOKED_DATA, .val = HOOKED_DATA, .n_hooks = 1, .hooks = &hook};
    weft_trainer *t = weft_trainer_new(m, &o, &e);
    CHECK(rank || !t);
    if (t) weft_trainer_fit(t, &e);
    CHECK(e.status == (rank ? WEFT_PEER : WEFT_IO));
    CHECK_HOLDS(e.text, rank ? "rank 0 has given up: /tmp/weft_no_folder/best: "
                             : "the hook best cannot write there");
    CHECK_HOLDS(e.text, "/tmp/weft_no_folder");
    weft_trainer_free(t);
    weft_model_free(m);
    (void)context;
}

TEST(a_folder_that_rank_0_lacks_ends_all) {
    for (int world = 2; world <= WORLDS; world++) ranks_run(world, 60, run_without_folder, NULL);
}

/* ---- what hooks may call ---- */

static weft_status calls_back(void *self, weft_trainer *t, weft_hook_point point, weft_error *error) {
    int *which = self;
    weft_metrics metrics;
    if (point != WEFT_AFTER_ITERATION && point != WEFT_BEFORE_VAL) return WEFT_OK;
    if (*which == 2 && point == WEFT_BEFORE_VAL) return weft_trainer_validate(t, NULL, error);
    if (point == WEFT_BEFORE_VAL || *which == 2) return WEFT_OK;
    return *which == 0   ? weft_trainer_fit(t, error)
           : *which == 1 ? weft_trainer_train_step(t, &metrics, error)
                         : weft_trainer_validate(t, NULL, error);
}

static weft_status own_step(weft_trainer *t, void *user, weft_error *error) {
    (void)user;
    return weft_trainer_fit(t, error);
}

TEST(training_within_a_hook_is_refused) {
    static const char *const says[] = {"weft_trainer_fit: it must not be called from a hook",
                                       "weft_trainer_train_step: it must not be called from a hook",
                                       "hooks call hooks without end, at before_val", ""};
    for (int which = 0; which < 4; which++) {
        weft_error e = {0};
        weft_hook hook = {"calls back", calls_back, NULL, NULL, &which};
        weft_model *m = hooked_model();
        weft_trainer *t = hooked_trainer(
            m,
            &(weft_trainer_options){.train = HOOKED_DATA, .val = HOOKED_DATA, .n_hooks = 1, .hooks = &hook});
        CHECK(weft_trainer_fit(t, &e) == (which < 3 ? WEFT_ORDER : WEFT_OK));
        CHECK_HOLDS(e.text, says[which]);
        weft_trainer_free(t);
        weft_model_free(m);
    }
    weft_error e = {0};
    weft_model *m = hooked_model();
    weft_trainer *t =
        hooked_trainer(m, &(weft_trainer_options){.train = HOOKED_DATA, .train_step = own_step});
    CHECK(weft_trainer_fit(t, &e) == WEFT_ORDER);
    weft_trainer_free(t);
    weft_model_free(m);
}

SUITE("hooks", {T(a_metric_that_no_longer_improves_stops_all_ranks_at_once), T(the_file_has_the_best_weights),
                T(rates_fall_on_a_plateau_as_in_pytorch), T(wrong_hooks_are_refused),
                T(hooks_of_the_user_are_opened_before_the_first_step),
                T(names_and_folders_that_are_wrong_are_found_at_once),
                T(metrics_of_evaluators_are_known_before_the_first_step),
                T(an_error_of_one_rank_ends_all_with_its_text), T(a_folder_that_rank_0_lacks_ends_all),
                T(training_within_a_hook_is_refused)})
