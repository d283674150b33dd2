/* test_evaluators.c - evaluators against PyTorch's numbers (golden/evaluators.h): the same bits whatever the
 * batch, the smaller last one and the world; one of your own; what is refused. */
#include "golden/evaluators.h"
#include "support/faults.h"
#include "support/ranks.h"
#include "support/test.h"
#include "weft/weft.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { N = 23, C = 5, CLASSES = 4, SIDE = 3, PIXEL = 6, WORLDS = 3 };

/* ---- data and graph: sample i is row i of each array of the golden file ---- */

static weft_status read_sample(void *context, int64_t i, void *const *into, weft_error *error) {
    (void)context, (void)error;
    memcpy(into[0], SCORES + i * C, C * sizeof(float));
    memcpy(into[1], LABELS + i, sizeof(int32_t));
    memcpy(into[2], PIXELS + i * CLASSES * SIDE, CLASSES * SIDE * sizeof(float));
    memcpy(into[3], MASKS + i * SIDE, SIDE * sizeof(int32_t));
    memcpy(into[4], IMAGE + i * PIXEL, PIXEL * sizeof(float));
    memcpy(into[5], TARGET + i * PIXEL, PIXEL * sizeof(float));
    return WEFT_OK;
}

static const weft_source samples = {.count = N,
                                    .n = 6,
                                    .arrays = {{"scores", WEFT_F32, 1, {C}},
                                               {"label", WEFT_I32, 0, {0}},
                                               {"pixels", WEFT_F32, 2, {CLASSES, SIDE}},
                                               {"mask", WEFT_I32, 1, {SIDE}},
                                               {"image", WEFT_F32, 2, {2, 3}},
                                               {"target", WEFT_F32, 2, {2, 3}}},
                                    .read = read_sample};
static const weft_source *const list[] = {&samples};

/* Scores and pixels are outputs, what is compared with them are inputs; `image` is both. */
static weft_model *build(void) {
    weft_model *m = weft_model_new("m");
    weft_model_set_batch(m, 4);
    weft_graph *g = weft_graph_new(m, "val", WEFT_EVAL);
    weft_value *scores = weft_input(g, "scores", WEFT_F32, WEFT_SHAPE(WEFT_BATCH, C));
    weft_value *label = weft_input(g, "label", WEFT_I32, WEFT_SHAPE(WEFT_BATCH));
    weft_value *pixels = weft_input(g, "pixels", WEFT_F32, WEFT_SHAPE(WEFT_BATCH, CLASSES, SIDE));
    weft_value *mask = weft_input(g, "mask", WEFT_I32, WEFT_SHAPE(WEFT_BATCH, SIDE));
    weft_value *image = weft_input(g, "image", WEFT_F32, WEFT_SHAPE(WEFT_BATCH, 2, 3));
    weft_value *target = weft_input(g, "target", WEFT_F32, WEFT_SHAPE(WEFT_BATCH, 2, 3));
    weft_output(weft_neg(weft_neg(scores)), "logits");
    weft_output(weft_neg(weft_neg(pixels)), "parts");
    weft_output(weft_neg(weft_neg(image)), "drawn");
    weft_output(weft_sum(weft_cast(label, WEFT_F32), WEFT_ALL, false), "sum");
    weft_output(weft_mse(image, target, NULL), "loss");
    weft_output(weft_slice(pixels, 1, 0, 3), "few");
    weft_output(weft_cast(mask, WEFT_F32), "floats");
    return m;
}

static double of(const weft_metrics *m, const char *name) {
    return weft_metrics_get(m, name);
}

static bool is_near(double a, double b) {
    return fabs(a - b) <= 1e-13 * fabs(b);
}

/* ---- every one that Weft brings ---- */

enum { EVALUATORS = 10 };

static void all_of(weft_evaluator e[EVALUATORS], int64_t *matrix) {
    e[0] = weft_evaluator_accuracy("logits", "label", 1);
    e[1] = weft_evaluator_accuracy("logits", "label", 3);
    e[2] = weft_evaluator_confusion("logits", "label", matrix);
    e[3] = weft_evaluator_perplexity("logits", "label");
    e[4] = weft_evaluator_mean("brightness", "drawn");
    e[5] = weft_evaluator_mse("drawn", "target");
    e[6] = weft_evaluator_psnr("image", "target", 2);
    for (int i = 7; i < EVALUATORS; i++)
        e[i] = weft_evaluator_mean(i == 7 ? "a" : i == 8 ? "b" : "c", "image");
}

typedef struct evaluation {
    int64_t batch;
    double values[32]; /* of rank 0 */
    char names[32][40];
    int n;
    int64_t samples, matrix[C * C];
    bool is_alike; /* all ranks have rank 0's numbers */
} evaluation;

static void keep(evaluation *into, const weft_metrics *m) {
    into->n = m->n;
    into->samples = m->samples;
    for (int i = 0; i < m->n; i++) {
        into->values[i] = m->list[i].value;
        snprintf(into->names[i], sizeof into->names[i], "%s", m->list[i].name);
    }
}

static void evaluate(weft_comm *comm, int rank, void *context) {
    evaluation *into = (evaluation *)context + rank;
    weft_error e = {0};
    weft_metrics metrics = {0};
    weft_evaluator evaluators[EVALUATORS];
    weft_model *m = build();
    all_of(evaluators, into->matrix);
    weft_trainer_options how = {.compile = {.graph = "val", .batch = into->batch},
                                .comm = comm,
                                .val = {1, list, NULL},
                                .n_evaluators = EVALUATORS,
                                .evaluators = evaluators};
    weft_trainer *t = weft_trainer_new(m, &how, &e);
    CHECK_SAYS(t && weft_trainer_validate(t, &metrics, &e) == WEFT_OK, "%s", e.text);
    keep(into, &metrics);
    weft_trainer_free(t);
    weft_model_free(m);
}

TEST(numbers_are_those_of_pytorch) {
    static const char *const parts[] = {"accuracy", "precision", "recall", "f1", "iou"};
    weft_error e = {0};
    weft_metrics m = {0};
    int64_t matrix[C * C];
    weft_evaluator evaluators[EVALUATORS];
    all_of(evaluators, matrix);
    weft_model *model = build();
    weft_trainer_options how = {
        .compile.graph = "val", .val = {1, list, NULL}, .n_evaluators = EVALUATORS, .evaluators = evaluators};
    weft_trainer *t = weft_trainer_new(model, &how, &e);
    CHECK_SAYS(t && weft_trainer_validate(t, &m, &e) == WEFT_OK, "%s", e.text);
    CHECK(m.samples == N && of(&m, "accuracy") == ACCURACY && of(&m, "accuracy_top3") == ACCURACY_TOP3);
    CHECK(is_near(of(&m, "perplexity"), PERPLEXITY) && is_near(of(&m, "brightness"), MEAN));
    CHECK(is_near(of(&m, "mse"), MSE) && is_near(of(&m, "psnr"), PSNR));
    CHECK(fabs(of(&m, "loss") - MSE) < 1e-7); /* the graph's own numbers are still there */
    CHECK(memcmp(matrix, MATRIX, sizeof matrix) == 0);
    for (int i = 0; i < 5; i++) {
        char name[40];
        snprintf(name, sizeof name, "confusion/%s", parts[i]);
        CHECK_SAYS(is_near(of(&m, name), OF_SCORES[i]), "%s %.17g", name, of(&m, name));
    }
    weft_trainer_free(t);
    weft_model_free(model);
}

TEST(pixels_have_labels_too) {
    static const char *const parts[] = {"accuracy", "precision", "recall", "f1", "iou"};
    weft_error e = {0};
    weft_metrics m = {0};
    weft_evaluator evaluators[] = {weft_evaluator_accuracy("parts", "mask", 1),
                                   weft_evaluator_confusion("parts", "mask", NULL),
                                   weft_evaluator_perplexity("parts", "mask")};
    weft_evaluator losses = weft_evaluator_perplexity("drawn", NULL);
    weft_model *model = build();
    weft_trainer_options how = {
        .compile.graph = "val", .val = {1, list, NULL}, .n_evaluators = 3, .evaluators = evaluators};
    weft_trainer *t = weft_trainer_new(model, &how, &e);
    CHECK_SAYS(t && weft_trainer_validate(t, &m, &e) == WEFT_OK, "%s", e.text);
    CHECK(of(&m, "accuracy") == ACCURACY_PIXELS && is_near(of(&m, "perplexity"), PERPLEXITY_PIXELS));
    for (int i = 0; i < 5; i++) {
        char name[40];
        snprintf(name, sizeof name, "confusion/%s", parts[i]);
        CHECK_SAYS(is_near(of(&m, name), OF_PIXELS[i]), "%s %.17g", name, of(&m, name));
    }
    weft_trainer_free(t);
    how.n_evaluators = 1, how.evaluators = &losses;
    t = weft_trainer_new(model, &how, &e);
    CHECK_SAYS(t && weft_trainer_validate(t, &m, &e) == WEFT_OK, "%s", e.text);
    CHECK(is_near(of(&m, "perplexity"), PERPLEXITY_OF_LOSSES));
    weft_trainer_free(t);
    weft_model_free(model);
}

/* ---- scores that are NaN ---- */

/* Rows of two scores, and their labels: two rows are right, one is wrong, three have NaN. */
static const float broken_scores[6][2] = {{1, 0}, {0, 1}, {1, 0}, {NAN, NAN}, {1, NAN}, {NAN, 1}};
static const int32_t broken_labels[6] = {0, 1, 1, 0, 0, 1};

static weft_status read_broken(void *context, int64_t i, void *const *into, weft_error *error) {
    (void)context, (void)error;
    memcpy(into[0], broken_scores[i], sizeof broken_scores[i]);
    memcpy(into[1], &broken_labels[i], sizeof(int32_t));
    return WEFT_OK;
}

/* By hand: one of three is right of either label; class 0 is given twice, class 1 once. */
TEST(a_row_with_nan_is_wrong) {
    static const weft_source broken = {.count = 6,
                                       .n = 2,
                                       .arrays = {{"x", WEFT_F32, 1, {2}}, {"label", WEFT_I32, 0, {0}}},
                                       .read = read_broken};
    weft_error e = {0};
    weft_metrics metrics;
    int64_t matrix[4];
    weft_evaluator evaluators[] = {weft_evaluator_accuracy("scores", "label", 1),
                                   weft_evaluator_accuracy("scores", "label", 2),
                                   weft_evaluator_confusion("scores", "label", matrix)};
    weft_model *m = weft_model_new("m");
    weft_model_set_batch(m, 4);
    weft_graph *g = weft_graph_new(m, "val", WEFT_EVAL);
    weft_value *x = weft_input(g, "x", WEFT_F32, WEFT_SHAPE(WEFT_BATCH, 2));
    weft_value *label = weft_input(g, "label", WEFT_I32, WEFT_SHAPE(WEFT_BATCH));
    weft_output(weft_neg(weft_neg(x)), "scores");
    weft_output(weft_sum(weft_cast(label, WEFT_F32), WEFT_ALL, false), "sum");
    weft_trainer *t =
        weft_trainer_new(m,
                         &(weft_trainer_options){.compile.graph = "val",
                                                 .val = {1, (const weft_source *[]){&broken}, NULL},
                                                 .n_evaluators = 3,
                                                 .evaluators = evaluators},
                         &e);
    CHECK_SAYS(t && weft_trainer_validate(t, &metrics, &e) == WEFT_OK, "%s", e.text);
    CHECK(is_near(of(&metrics, "accuracy"), 2. / 6) && is_near(of(&metrics, "accuracy_top2"), 3. / 6));
    CHECK(matrix[0] == 1 && matrix[1] == 0 && matrix[2] == 1 && matrix[3] == 1);
    CHECK(is_near(of(&metrics, "confusion/accuracy"), 2. / 6));
    CHECK(is_near(of(&metrics, "confusion/precision"), (1. / 2 + 1) / 2));
    CHECK(is_near(of(&metrics, "confusion/recall"), 1. / 3));
    CHECK(is_near(of(&metrics, "confusion/f1"), (2. / 5 + 2. / 4) / 2));
    CHECK(is_near(of(&metrics, "confusion/iou"), (1. / 4 + 1. / 3) / 2));
    weft_trainer_free(t);
    weft_model_free(m);
}

/* Uneven ranks, a smaller last batch, fewer samples than a batch: except for the graph's own numbers, which
 * are f32 means of batches, every bit is the same. */
TEST(the_bits_do_not_depend_on_batch_and_world) {
    static const int64_t batches[] = {1, 2, 4, 5, 8, 23, 64};
    evaluation first = {.batch = 4};
    evaluate(NULL, 0, &first);
    for (size_t b = 0; b < sizeof batches / sizeof *batches; b++)
        for (int world = 1; world <= WORLDS; world++) {
            evaluation got[WORLDS];
            for (int r = 0; r < world; r++) got[r] = (evaluation){.batch = batches[b]};
            ranks_run(world, 60, evaluate, got);
            for (int r = 0; r < world; r++) {
                CHECK(got[r].n == first.n && first.n == 16 && got[r].samples == N);
                CHECK(memcmp(got[r].matrix, MATRIX, sizeof MATRIX) == 0);
                for (int i = 2; i < first.n; i++)
                    CHECK_SAYS(memcmp(&got[r].values[i], &first.values[i], sizeof(double)) == 0,
                               "batch %d, rank %d of %d: %s %.17g, not %.17g", (int)batches[b], r, world,
                               first.names[i], got[r].values[i], first.values[i]);
            }
        }
}

/* A step gives the numbers of its batch alone; the last has three samples. */
TEST(a_single_step_gives_the_numbers_of_its_batch) {
    weft_error e = {0};
    weft_metrics m;
    double right = 0, counted = 0;
    char texts[2][12] = {"brightness", "drawn"};
    weft_evaluator one[] = {weft_evaluator_accuracy("logits", "label", 1),
                            weft_evaluator_mean("another", texts[1])};
    one[1].name = texts[0];
    weft_model *model = build();
    weft_trainer_options how = {
        .compile.graph = "val", .val = {1, list, NULL}, .n_evaluators = 2, .evaluators = one};
    weft_trainer *t = weft_trainer_new(model, &how, &e);
    NEED(t != NULL);
    memset(texts, 0, sizeof texts); /* they were copied */
    double mean = 0;
    for (int64_t at = 0; at < N; at += 4) {
        CHECK_SAYS(weft_trainer_val_step(t, &m, &e) == WEFT_OK, "%s", e.text);
        double n = 0;
        for (int64_t i = at; i < N && i < at + 4; i++) n += LABELS[i] >= 0;
        right += of(&m, "accuracy") * n;
        counted += n;
        mean += of(&m, "brightness") * (double)m.samples;
    }
    CHECK(is_near(right / counted, ACCURACY) && is_near(mean / N, MEAN));
    weft_trainer_free(t);
    weft_model_free(model);
}

/* ---- one of your own ---- */

typedef struct own {
    int opened, freed, batches;
    int64_t rows;
    weft_status fails;
    int64_t wrong_count, grows;
} own;

static weft_status own_open(void *self, int64_t rows, const weft_view *reads, weft_tally_size *keeps,
                            weft_error *error) {
    own *o = self;
    (void)error;
    o->opened++;
    CHECK(!reads[0].data && reads[0].shape[0] == rows && reads[0].dtype == WEFT_I32);
    keeps->counts = 2 + (o->grows ? rows : 0), keeps->sums = 1;
    return WEFT_OK;
}

/* Each rank adds a share of WIDE: sample i the numbers i, i + N, ... */
static weft_status own_batch(void *self, int64_t rows, const weft_view *reads, weft_tally *tally,
                             weft_error *error) {
    own *o = self;
    const int32_t *label = reads[0].data;
    const float *scores = reads[1].data;
    (void)error;
    o->batches++;
    o->rows += rows;
    weft_tally_count(tally, 0, rows);
    for (int64_t i = 0; i < rows; i++) {
        int64_t at = 0;
        while (LABELS[at] != label[i] || memcmp(SCORES + at * C, scores + i * C, C * sizeof(float)) != 0)
            at++;
        weft_tally_count(tally, 1, at);
        for (size_t k = (size_t)at; k < sizeof WIDE / sizeof *WIDE; k += N) weft_tally_add(tally, 0, WIDE[k]);
    }
    weft_tally_count(tally, o->wrong_count, 0);
    return o->fails;
}

static weft_status own_report(void *self, weft_tally *tally, weft_error *error) {
    (void)self, (void)error;
    weft_tally_report(tally, NULL, weft_tally_sum(tally, 0));
    weft_tally_report(tally, "samples", (double)weft_tally_counted(tally, 0));
    weft_tally_report(tally, "places", (double)weft_tally_counted(tally, 1));
    for (int i = 0; i < 20; i++) weft_tally_report(tally, "more", i);
    return WEFT_OK;
}

static void own_free(void *self) {
    ((own *)self)->freed++;
}

static weft_evaluator own_of(own *o) {
    return (weft_evaluator){"own", {"label", "scores"}, own_open, own_batch, own_report, own_free, o};
}

static void run_own(weft_comm *comm, int rank, void *context) {
    own *o = (own *)context + rank;
    weft_error e = {0};
    weft_metrics m = {0};
    weft_evaluator one = own_of(o);
    weft_model *model = build();
    weft_trainer_options how = {
        .compile.graph = "val", .comm = comm, .val = {1, list, NULL}, .n_evaluators = 1, .evaluators = &one};
    weft_trainer *t = weft_trainer_new(model, &how, &e);
    for (int i = 0; i < 2; i++) { /* the second begins again */
        CHECK_SAYS(t && weft_trainer_validate(t, &m, &e) == WEFT_OK, "%s", e.text);
        CHECK_SAYS(of(&m, "own") == WIDE_SUM, "%.17g, not %.17g", of(&m, "own"), WIDE_SUM);
        CHECK(of(&m, "own/samples") == N && of(&m, "own/places") == N * (N - 1) / 2);
        CHECK(m.n == 2 + 23 && m.list[24].value == 19);
    }
    weft_trainer_free(t);
    weft_model_free(model);
}

TEST(ones_own_counts_and_sums_over_ranks) {
    for (int world = 1; world <= WORLDS; world++) {
        own o[WORLDS] = {{0}};
        int64_t rows = 0;
        ranks_run(world, 60, run_own, o);
        for (int r = 0; r < world; r++) {
            CHECK(o[r].opened == 2 && o[r].freed == 1);
            rows += o[r].rows;
        }
        CHECK(rows == 2 * N);
    }
}

/* ---- what is refused ---- */

static void refused(const weft_evaluator *e, int n, weft_status status, const char *says) {
    weft_error error = {0};
    weft_metrics m = {0};
    weft_model *model = build();
    weft_trainer_options how = {
        .compile.graph = "val", .val = {1, list, NULL}, .n_evaluators = n, .evaluators = e};
    weft_trainer *t = weft_trainer_new(model, &how, &error);
    if (t) weft_trainer_validate(t, &m, &error);
    CHECK_SAYS(error.status == status && strstr(error.text, says), "'%s' instead of '%s'", error.text, says);
    weft_trainer_free(t);
    weft_model_free(model);
}

TEST(what_does_not_fit_is_refused) {
    const struct {
        weft_status status;
        const char *says;
        weft_evaluator e;
    } rows[] = {
        {WEFT_NAME, "neither an output nor an input 'logit': did you mean 'logits'?",
         weft_evaluator_accuracy("logit", "label", 1)},
        {WEFT_SHAPE, "logits is f32[4,5], and mask is i32[4,3]: scores are",
         weft_evaluator_accuracy("logits", "mask", 1)},
        {WEFT_SHAPE, "label is i32[4], and label is i32[4]",
         weft_evaluator_confusion("label", "label", NULL)},
        {WEFT_SHAPE, "sum is f32[], and must be f32 or f64 with a row", weft_evaluator_mean("m", "sum")},
        {WEFT_SHAPE, "floats is f32[4,3]: scores are", weft_evaluator_accuracy("parts", "floats", 1)},
        {WEFT_SHAPE, "they must have one shape", weft_evaluator_mse("drawn", "logits")},
        {WEFT_ARGUMENT, "the top 6 of 5 classes", weft_evaluator_accuracy("logits", "label", 6)},
        {WEFT_DATA, "mask has a label 3, and there are 3 classes", weft_evaluator_perplexity("few", "mask")},
        {WEFT_NAME, "graph val has an output of this name", weft_evaluator_mean("loss", "drawn")},
        {WEFT_ARGUMENT, "evaluator 0 could not be made: accuracy: k must be 1 or more",
         weft_evaluator_accuracy("logits", "label", 0)},
        {WEFT_ARGUMENT, "could not be made: psnr: the range must be more than 0",
         weft_evaluator_psnr("drawn", "target", 0)},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        refused(&rows[i].e, 1, rows[i].status, rows[i].says);
    weft_evaluator twice[] = {weft_evaluator_mse("drawn", "target"), weft_evaluator_mse("drawn", "target")};
    refused(twice, 2, WEFT_NAME, "two evaluators are called mse");
    refused(NULL, 2, WEFT_ARGUMENT, "n_evaluators is 2 without as many evaluators");
    own bad[] = {{.fails = WEFT_IO}, {.wrong_count = 2}, {.grows = 1}};
    const char *const says[] = {"evaluator own: it failed", "evaluator own: count 2 of 2", "other counts"};
    const weft_status status[] = {WEFT_IO, WEFT_ARGUMENT, WEFT_SHAPE};
    for (int i = 0; i < 3; i++) {
        weft_evaluator e = own_of(&bad[i]);
        refused(&e, 1, status[i], says[i]);
        CHECK(bad[i].freed == 1);
    }
}

/* ---- memory ---- */

/* A validation with every evaluator, whose trainer's own memory ends at some allocation. */
static weft_status validate_by(faults *f, weft_error *error) {
    weft_metrics m;
    weft_evaluator evaluators[EVALUATORS];
    weft_model *model = build();
    all_of(evaluators, NULL);
    weft_trainer_options how = {.compile.graph = "val",
                                .env = &f->env,
                                .val = {1, list, NULL},
                                .n_evaluators = EVALUATORS,
                                .evaluators = evaluators};
    weft_trainer *t = weft_trainer_new(model, &how, error);
    weft_status status = t ? weft_trainer_validate(t, &m, error) : error->status;
    weft_trainer_free(t);
    weft_model_free(model);
    return status;
}

TEST(memory_that_runs_out_is_an_error) {
    faults f;
    faults_init(&f);
    faults_inject(&f, true, validate_by, NULL);
    CHECK(f.live == 0);
    faults_end(&f);
}

SUITE("evaluators", {T(numbers_are_those_of_pytorch), T(pixels_have_labels_too), T(a_row_with_nan_is_wrong),
                     T(the_bits_do_not_depend_on_batch_and_world),
                     T(a_single_step_gives_the_numbers_of_its_batch), T(ones_own_counts_and_sums_over_ranks),
                     T(what_does_not_fit_is_refused), T(memory_that_runs_out_is_an_error)})
