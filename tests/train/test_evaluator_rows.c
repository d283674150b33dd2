/* test_evaluator_rows.c - evaluators that need all samples at once, against scikit-learn's numbers
 * (golden/evaluator_rows.h) and against loops over all pairs; the rows of one, to the bit in any world; their
 * memory; what is refused. */
#include "golden/evaluator_rows.h"
#include "support/faults.h"
#include "support/ranks.h"
#include "support/test.h"
#include "weft/weft.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 41, D = 6, WORLDS = 3 };

/* ---- data and graph ---- */

typedef struct sample {
    float score, classes[2], truth; /* `truth` is the label as an f32 */
    int32_t label;
    float a[D], b[D];
} sample;

typedef struct samples {
    int n;
    sample list[MOST];
} samples;

static weft_status read_sample(void *context, int64_t i, void *const *into, weft_error *error) {
    const sample *s = &((const samples *)context)->list[i];
    (void)error;
    memcpy(into[0], &s->score, sizeof s->score);
    memcpy(into[1], s->classes, sizeof s->classes);
    memcpy(into[2], &s->label, sizeof s->label);
    memcpy(into[3], &s->truth, sizeof s->truth);
    memcpy(into[4], s->a, sizeof s->a);
    memcpy(into[5], s->b, sizeof s->b);
    return WEFT_OK;
}

static weft_source source_of(samples *s) {
    return (weft_source){.context = s,
                         .count = s->n,
                         .n = 6,
                         .arrays = {{"score", WEFT_F32, 0, {0}},
                                    {"classes", WEFT_F32, 1, {2}},
                                    {"label", WEFT_I32, 0, {0}},
                                    {"truth", WEFT_F32, 1, {1}},
                                    {"a", WEFT_F32, 2, {2, 3}},
                                    {"b", WEFT_F32, 2, {2, 3}}},
                         .read = read_sample};
}

static weft_model *build(void) {
    weft_model *m = weft_model_new("m");
    weft_model_set_batch(m, 4);
    weft_graph *g = weft_graph_new(m, "val", WEFT_EVAL);
    weft_value *score = weft_input(g, "score", WEFT_F32, WEFT_SHAPE(WEFT_BATCH));
    weft_value *classes = weft_input(g, "classes", WEFT_F32, WEFT_SHAPE(WEFT_BATCH, 2));
    weft_value *label = weft_input(g, "label", WEFT_I32, WEFT_SHAPE(WEFT_BATCH));
    weft_value *truth = weft_input(g, "truth", WEFT_F32, WEFT_SHAPE(WEFT_BATCH, 1));
    weft_value *a = weft_input(g, "a", WEFT_F32, WEFT_SHAPE(WEFT_BATCH, 2, 3));
    weft_value *b = weft_input(g, "b", WEFT_F32, WEFT_SHAPE(WEFT_BATCH, 2, 3));
    weft_output(weft_neg(weft_neg(score)), "scores");
    weft_output(weft_cast(weft_reshape(score, WEFT_SHAPE(-1, 1)), WEFT_F64), "column");
    weft_output(weft_neg(weft_neg(classes)), "two");
    weft_output(weft_neg(weft_neg(a)), "first");
    weft_output(weft_neg(weft_neg(b)), "second");
    weft_output(weft_slice(weft_flatten(a, 1), 1, 0, 3), "three");
    weft_output(weft_neg(truth), "less"); /* 0 and -1 */
    weft_output(weft_mul(truth, weft_constant(g, WEFT_F32, 0, NULL, 0.5)), "half");
    weft_output(weft_sum(weft_cast(label, WEFT_F32), WEFT_ALL, false), "sum");
    return m;
}

static samples golden(void) {
    samples s = {.n = MOST};
    for (int i = 0; i < MOST; i++) {
        s.list[i] = (sample){.score = ROC_SCORES[i], .label = ROC_LABELS[i], .truth = (float)ROC_LABELS[i]};
        memcpy(s.list[i].classes, ROC_CLASSES + 2 * i, sizeof s.list[i].classes);
        memcpy(s.list[i].a, FIRSTS + D * i, sizeof s.list[i].a);
        memcpy(s.list[i].b, SECONDS + D * i, sizeof s.list[i].b);
    }
    return s;
}

/* A few whole numbers, so that many are equal and products exact; now and then a NaN. */
static float few(test_random *r, bool nan) {
    return nan && random_bits(r) % 23 == 0 ? NAN : (float)(int)(random_bits(r) % 5) - 2;
}

static samples drawn(test_random *r) {
    samples s = {.n = 1 + (int)(random_bits(r) % MOST)};
    bool nan = random_bits(r) % 2, is_one_class = random_bits(r) % 8 == 0;
    for (int i = 0; i < s.n; i++) {
        sample *at = &s.list[i];
        at->label = random_bits(r) % 7 == 0 ? -100 : is_one_class ? 1 : (int32_t)(random_bits(r) % 2);
        at->truth = (float)at->label;
        at->score = few(r, nan) + (float)(at->label == 1);
        for (int k = 0; k < 2; k++) at->classes[k] = few(r, nan);
        for (int k = 0; k < D; k++) at->b[k] = few(r, nan), at->a[k] = at->b[k] + few(r, false);
    }
    return s;
}

/* ---- a validation ---- */

enum { EVALUATORS = 7 };
static const char *const names[EVALUATORS] = {"auc",         "auc_two",     "auc_column",   "recall_at_1",
                                              "recall_at_5", "recall_back", "recall_at_100"};

static void all_of(weft_evaluator e[EVALUATORS]) {
    e[0] = weft_evaluator_auc("scores", "label");
    e[1] = weft_evaluator_auc("two", "label");
    e[2] = weft_evaluator_auc("column", "truth");
    e[3] = weft_evaluator_recall_at("first", "second", 1);
    e[4] = weft_evaluator_recall_at("a", "second", 5);
    e[5] = weft_evaluator_recall_at("second", "first", 5);
    e[6] = weft_evaluator_recall_at("first", "second", 100);
    e[1].name = names[1], e[2].name = names[2], e[5].name = names[5];
}

typedef struct evaluation {
    samples *of;
    int64_t batch;
    double values[EVALUATORS];
} evaluation;

static void evaluate(weft_comm *comm, int rank, void *context) {
    evaluation *into = (evaluation *)context + rank;
    weft_error e = {0};
    weft_metrics m = {0};
    weft_evaluator evaluators[EVALUATORS];
    weft_source source = source_of(into->of);
    weft_model *model = build();
    all_of(evaluators);
    weft_trainer_options how = {.compile = {.graph = "val", .batch = into->batch},
                                .comm = comm,
                                .val = {1, (const weft_source *[]){&source}, NULL},
                                .n_evaluators = EVALUATORS,
                                .evaluators = evaluators};
    weft_trainer *t = weft_trainer_new(model, &how, &e);
    CHECK_SAYS(t && weft_trainer_validate(t, &m, &e) == WEFT_OK, "%s", e.text);
    for (int i = 0; i < EVALUATORS; i++) into->values[i] = weft_metrics_get(&m, names[i]);
    weft_trainer_free(t);
    weft_model_free(model);
}

TEST(numbers_are_those_of_scikit_learn) {
    samples s = golden();
    evaluation got = {.of = &s, .batch = 4};
    evaluate(NULL, 0, &got);
    const double want[EVALUATORS] = {AUC, AUC_CLASSES, AUC, RECALL_1, RECALL_5, RECALL_5_BACK, 1};
    for (int i = 0; i < EVALUATORS; i++)
        CHECK_SAYS(fabs(got.values[i] - want[i]) < 1e-14, "%s %.17g, not %.17g", names[i], got.values[i],
                   want[i]);
}

/* ---- loops over all pairs ---- */

static double class_score(const sample *s, bool two) {
    return two ? (double)s->classes[1] - (double)s->classes[0] : (double)s->score;
}

static double plain_auc(const samples *s, bool two) {
    int64_t twice = 0, pairs = 0;
    for (int i = 0; i < s->n; i++)
        for (int j = 0; j < s->n; j++) {
            if (s->list[i].label != 1 || s->list[j].label != 0) continue;
            double one = class_score(&s->list[i], two), zero = class_score(&s->list[j], two);
            pairs++;
            twice += one > zero ? 2 : one == zero;
        }
    return (double)twice / (2 * (double)pairs);
}

static double product(const float *a, const float *b) {
    double sum = 0;
    for (int k = 0; k < D; k++) sum += (double)a[k] * (double)b[k];
    return sum;
}

static double plain_recall(const samples *s, int top, bool back) {
    int found = 0;
    for (int i = 0; i < s->n; i++) {
        int above = 0;
        double own = product(s->list[i].a, s->list[i].b);
        for (int j = 0; j < s->n; j++) {
            double other = product(s->list[back ? j : i].a, s->list[back ? i : j].b);
            above += j != i && (isnan(other) || isnan(own) || other >= own);
        }
        found += above < top && !isnan(own);
    }
    return (double)found / (double)s->n;
}

/* Uneven ranks, ranks without a row, smaller last batches, ties, NaN, one class alone. */
TEST(any_batch_and_world_has_the_numbers_of_plain_loops) {
    static const int64_t batches[] = {1, 3, 4, 16, 64};
    test_random random = {test_seed(7)};
    for (int c = test_count(24, 6); c > 0; c--) {
        samples s = drawn(&random);
        const double want[EVALUATORS] = {plain_auc(&s, false),        plain_auc(&s, true),
                                         plain_auc(&s, false),        plain_recall(&s, 1, 0),
                                         plain_recall(&s, 5, false),  plain_recall(&s, 5, true),
                                         plain_recall(&s, 100, false)};
        for (int k = 0; k < 5 * WORLDS; k++) {
            evaluation got[WORLDS];
            int64_t batch = batches[k / WORLDS];
            int world = 1 + k % WORLDS;
            for (int r = 0; r < world; r++) got[r] = (evaluation){.of = &s, .batch = batch};
            ranks_run(world, 60, evaluate, got);
            for (int r = 0; r < world; r++)
                for (int i = 0; i < EVALUATORS; i++) {
                    double is = got[r].values[i];
                    CHECK_SAYS(is == want[i] || (isnan(is) && isnan(want[i])),
                               "%d samples, batch %d, rank %d of %d: %s %.17g, not %.17g", s.n, (int)batch, r,
                               world, names[i], is, want[i]);
                }
        }
    }
}

/* The example of roc_auc_score, and what is at the ends: order, its reverse, equal scores, one class. */
TEST(areas_known_by_hand) {
    static const struct {
        float scores[4];
        int32_t labels[4];
        double auc;
    } rows[] = {{{0.1f, 0.4f, 0.35f, 0.8f}, {0, 0, 1, 1}, 0.75},
                {{1, 2, 3, 4}, {0, 0, 1, 1}, 1},
                {{4, 3, 2, 1}, {0, 0, 1, 1}, 0},
                {{5, 5, 5, 5}, {0, 1, 0, 1}, 0.5},
                {{-0.f, 0, 0, -0.f}, {0, 1, 0, 1}, 0.5},
                {{1, 2, 3, INFINITY}, {0, -1, -100, 1}, 1},
                {{1, NAN, 3, -NAN}, {0, 1, 1, 0}, 0.25},
                {{1, 2, 3, 4}, {1, 1, 1, -1}, NAN}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        samples s = {.n = 4};
        for (int k = 0; k < 4; k++)
            s.list[k] = (sample){
                .score = rows[i].scores[k], .label = rows[i].labels[k], .truth = (float)rows[i].labels[k]};
        evaluation got = {.of = &s, .batch = 3};
        evaluate(NULL, 0, &got);
        CHECK_SAYS(got.values[0] == rows[i].auc || (isnan(got.values[0]) && isnan(rows[i].auc)),
                   "row %d: %g, not %g", (int)i, got.values[0], rows[i].auc);
        CHECK(got.values[3] == 0); /* all vectors are the same */
    }
}

/* ---- an evaluator with rows ---- */

enum { WIDTH = 3, EACH = 2 /* rows of a sample */ };

typedef struct own {
    int64_t width, grows, reserved;
    bool is_null, is_silent; /* adds NULL; adds nothing */
    faults *memory;          /* or NULL */
    samples *of;
    double rows[EACH * MOST * WIDTH]; /* that `report` saw */
    int64_t n, noted;
    size_t live; /* bytes in `report` */
} own;

static weft_status own_open(void *self, int64_t rows, const weft_view *reads, weft_tally_size *keeps,
                            weft_error *error) {
    const own *o = self;
    (void)reads, (void)error;
    keeps->width = o->width + (o->grows ? rows : 0);
    keeps->reserved[0] = (uint64_t)o->reserved;
    return WEFT_OK;
}

/* Row `of` of a sample: numbers that are equal in many rows, or only seem so. */
static void fill(double *row, float score, int of) {
    static const double others[] = {0, -0., 1e300, -INFINITY, 5e-324, -5e-324};
    int at = (int)fabs((double)score * 10);
    row[0] = at % 4 ? others[at % 6] : NAN;
    row[1] = at % 3 ? (double)score : copysign(NAN, (double)score);
    row[2] = of ? -0. : 0;
}

static weft_status own_batch(void *self, int64_t rows, const weft_view *reads, weft_tally *tally,
                             weft_error *error) {
    own *o = self;
    const float *scores = reads[0].data;
    int64_t n = -1, before;
    (void)error;
    if (o->is_silent) return WEFT_OK;
    weft_tally_rows(tally, &before);
    for (int64_t i = 0; i < rows; i++)
        for (int k = 0; k < EACH; k++) {
            double row[WIDTH];
            fill(row, scores[i], k);
            weft_tally_row(tally, o->is_null ? NULL : row);
        }
    const double *kept = weft_tally_rows(tally, &n);
    if (o->width == WIDTH && !o->is_null && !o->memory) {
        double first[WIDTH];
        fill(first, scores[0], 0);
        CHECK(n == before + EACH * rows && memcmp(kept + before * WIDTH, first, sizeof first) == 0);
    }
    return WEFT_OK;
}

static weft_status own_report(void *self, weft_tally *tally, weft_error *error) {
    own *o = self;
    (void)error;
    const double *rows = weft_tally_rows(tally, &o->n);
    if (o->n && o->n * WIDTH <= (int64_t)(sizeof o->rows / sizeof *o->rows))
        memcpy(o->rows, rows, (size_t)o->n * WIDTH * sizeof *rows);
    if (o->memory) o->live = o->memory->live;
    weft_tally_report(tally, NULL, (double)o->n);
    for (int i = 0; o->is_silent && i < 40; i++) weft_tally_row(tally, (const double[WIDTH]){i});
    weft_tally_rows(tally, &o->noted);
    return WEFT_OK;
}

static weft_evaluator own_of(own *o) {
    return (weft_evaluator){"own", {"scores"}, own_open, own_batch, own_report, NULL, o};
}

static weft_status validate_own(own *o, weft_comm *comm, const weft_env *env, int times, weft_error *error) {
    weft_evaluator one = own_of(o);
    weft_source source = source_of(o->of);
    weft_model *model = build();
    weft_trainer_options how = {.compile.graph = "val",
                                .comm = comm,
                                .env = env,
                                .val = {1, (const weft_source *[]){&source}, NULL},
                                .n_evaluators = 1,
                                .evaluators = &one};
    weft_trainer *t = weft_trainer_new(model, &how, error);
    for (int i = 0; t && i < times && !weft_trainer_validate(t, NULL, error); i++)
        if (o->memory && i) CHECK(o->live >= o->memory->live + sizeof o->rows); /* rows are given back */
    weft_trainer_free(t);
    weft_model_free(model);
    return error->status;
}

static void run_own(weft_comm *comm, int rank, void *context) {
    weft_error e = {0};
    CHECK_SAYS(!validate_own((own *)context + rank, comm, NULL, 2, &e), "%s", e.text);
}

static int by_bits(const void *a, const void *b) {
    for (int k = 0; k < WIDTH; k++) {
        double x = ((const double *)a)[k], y = ((const double *)b)[k];
        if (memcmp(&x, &y, sizeof x) == 0) continue;
        double of_x = isnan(x) ? copysign(2, x) : x > 0 ? 1 : x < 0 ? -1 : 0; /* of NaN the sign alone */
        double of_y = isnan(y) ? copysign(2, y) : y > 0 ? 1 : y < 0 ? -1 : 0;
        if (of_x != of_y) return of_x < of_y ? -1 : 1;
        if (x != y) return x < y ? -1 : 1;
        return signbit(x) ? -1 : 1; /* -0 and 0 */
    }
    return 0;
}

TEST(rows_reach_every_rank_in_one_order) {
    samples s = golden();
    for (s.n = MOST; s.n > 0; s.n -= 13)
        for (int world = 1; world <= WORLDS; world++) {
            static double want[EACH * MOST][WIDTH];
            static own o[WORLDS];
            for (int i = 0; i < EACH * s.n; i++) fill(want[i], s.list[i / EACH].score, i % EACH);
            qsort(want, (size_t)(EACH * s.n), sizeof *want, by_bits);
            for (int r = 0; r < world; r++) o[r] = (own){.width = WIDTH, .of = &s};
            ranks_run(world, 60, run_own, o);
            for (int r = 0; r < world; r++)
                CHECK_SAYS(o[r].n == EACH * s.n &&
                               memcmp(o[r].rows, want, (size_t)o[r].n * sizeof *want) == 0,
                           "%d samples, rank %d of %d: %d rows", s.n, r, world, (int)o[r].n);
        }
}

/* And more than there were may be added, where a program does that. */
TEST(there_may_be_no_rows_at_all) {
    samples s = golden();
    for (int world = 1; world <= 2; world++) {
        static own o[WORLDS];
        for (int r = 0; r < world; r++) o[r] = (own){.width = WIDTH, .is_silent = true, .of = &s};
        ranks_run(world, 60, run_own, o);
        for (int r = 0; r < world; r++) CHECK(o[r].n == 0 && o[r].noted == 40);
    }
}

/* ---- what is refused ---- */

static void refused(const weft_evaluator *e, int32_t label, weft_status status, const char *says) {
    weft_error error = {0};
    samples s = golden();
    s.list[30].label = label;
    s.list[30].truth = (float)label;
    weft_source source = source_of(&s);
    weft_model *model = build();
    weft_trainer_options how = {.compile.graph = "val",
                                .val = {1, (const weft_source *[]){&source}, NULL},
                                .n_evaluators = 1,
                                .evaluators = e};
    weft_trainer *t = weft_trainer_new(model, &how, &error);
    if (t) weft_trainer_validate(t, NULL, &error);
    CHECK_SAYS(error.status == status && strstr(error.text, says), "'%s' instead of '%s'", error.text, says);
    weft_trainer_free(t);
    weft_model_free(model);
}

TEST(what_does_not_fit_is_refused) {
    const struct {
        weft_status status;
        const char *says;
        weft_evaluator e;
        int32_t label;
    } rows[] = {
        {WEFT_SHAPE,
         "evaluator auc: first is f32[4,2,3], and label is i32[4]: scores are f32 or f64 [4], [4,1] or",
         weft_evaluator_auc("first", "label")},
        {WEFT_SHAPE, "three is f32[4,3], and label is", weft_evaluator_auc("three", "label")},
        {WEFT_SHAPE, "label is i32[4], and label is", weft_evaluator_auc("label", "label")},
        {WEFT_SHAPE, "scores is f32[4], and two is f32[4,2]:", weft_evaluator_auc("scores", "two")},
        {WEFT_DATA, "label has a label 2: it must be 0 or 1, or negative",
         weft_evaluator_auc("scores", "label"), 2},
        {WEFT_DATA, "half has a label 0.5: it must be 0 or 1", weft_evaluator_auc("scores", "half")},
        {WEFT_SHAPE, "they must have one shape", weft_evaluator_recall_at("first", "three", 1)},
        {WEFT_SHAPE, "label is i32[4], and must be f32 or f64",
         weft_evaluator_recall_at("first", "label", 1)},
        {WEFT_SHAPE, "sum is f32[], and must be", weft_evaluator_recall_at("sum", "sum", 1)},
        {WEFT_ARGUMENT, "could not be made: recall_at: k must be 1 or more",
         weft_evaluator_recall_at("first", "second", 0)},
        {WEFT_ARGUMENT, "could not be made: recall_at: two outputs",
         weft_evaluator_recall_at("first", NULL, 1)},
        {WEFT_ARGUMENT, "could not be made: auc: scores and a label", weft_evaluator_auc(NULL, "label")},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        refused(&rows[i].e, rows[i].label, rows[i].status, rows[i].says);
    samples s = golden();
    static own bad[] = {{.width = -1},
                        {.width = 0},
                        {.width = WIDTH, .is_null = true},
                        {.width = WIDTH, .grows = 1},
                        {.width = INT64_MAX},
                        {.width = WIDTH, .reserved = 1}};
    static const char *const says[] = {"evaluator own: negative numbers of counts, sums or numbers in a row",
                                       "evaluator own: a row, but `open` gave no width",
                                       "evaluator own: a row is NULL",
                                       "widths of rows for the last, smaller batch",
                                       "out of memory",
                                       "weft_tally_size"};
    for (int i = 0; i < 6; i++) {
        weft_error error = {0};
        bad[i].of = &s;
        CHECK_SAYS(validate_own(&bad[i], NULL, NULL, 1, &error) && strstr(error.text, says[i]), "'%s'",
                   error.text);
    }
    int64_t n = 1;
    weft_tally_row(NULL, NULL);
    CHECK(!weft_tally_rows(NULL, &n) && n == 0);
}

/* ---- memory ---- */

/* Every evaluator, on a rank whose trainer's own memory ends at some allocation. */
static void evaluate_by(weft_comm *comm, const weft_env *env, weft_error *error) {
    samples s = golden();
    weft_evaluator evaluators[EVALUATORS];
    weft_source source = source_of(&s);
    weft_model *model = build();
    all_of(evaluators);
    weft_trainer_options how = {.compile.graph = "val",
                                .env = env,
                                .comm = comm,
                                .val = {1, (const weft_source *[]){&source}, NULL},
                                .n_evaluators = EVALUATORS,
                                .evaluators = evaluators};
    weft_trainer *t = weft_trainer_new(model, &how, error);
    if (t) weft_trainer_validate(t, NULL, error);
    weft_trainer_free(t);
    weft_model_free(model);
}

static weft_status evaluate_alone(faults *f, weft_error *error) {
    evaluate_by(NULL, &f->env, error);
    return error->status;
}

typedef struct failing {
    faults *f;
    weft_error errors[2];
} failing;

static void evaluate_rank(weft_comm *comm, int rank, void *context) {
    failing *of = context;
    evaluate_by(comm, rank ? NULL : &of->f->env, &of->errors[rank]);
    if (of->errors[rank].status) weft_comm_fail(comm, of->errors[rank].text);
}

/* Rank 0 of two has no memory; the other one ends too, unless it needs nothing more of rank 0. */
static weft_status evaluate_two(faults *f, weft_error *error) {
    failing of = {.f = f};
    ranks_run(2, 60, evaluate_rank, &of);
    CHECK(of.errors[0].status || !of.errors[1].status);
    *error = of.errors[0];
    return error->status;
}

TEST(memory_that_runs_out_is_an_error) {
    faults f;
    faults_init(&f);
    faults_inject(&f, true, evaluate_alone, NULL);
    CHECK(f.live == 0);
    faults_inject(&f, true, evaluate_two, NULL);
    CHECK(f.live == 0);
    faults_end(&f);
}

TEST(rows_are_given_back_after_each_evaluation) {
    faults f;
    weft_error e = {0};
    samples s = golden();
    static own o;
    faults_init(&f);
    o = (own){.width = WIDTH, .memory = &f, .of = &s};
    CHECK_SAYS(!validate_own(&o, NULL, &f.env, 2, &e) && o.n == EACH * MOST, "%s", e.text);
    CHECK(f.live == 0);
    faults_end(&f);
}

SUITE("evaluator_rows",
      {T(numbers_are_those_of_scikit_learn), T(any_batch_and_world_has_the_numbers_of_plain_loops),
       T(areas_known_by_hand), T(rows_reach_every_rank_in_one_order), T(there_may_be_no_rows_at_all),
       T(what_does_not_fit_is_refused), T(memory_that_runs_out_is_an_error),
       T(rows_are_given_back_after_each_evaluation)})
