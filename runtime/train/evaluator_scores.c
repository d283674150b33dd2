/* evaluator_scores.c - evaluators of scores [N,C,...] against labels [N,...]: accuracy, confusion,
 * perplexity. */
#include "runtime/train/evaluator.h"

#include <math.h>

/* ---- scores and labels ---- */

static int64_t classes_of(const weft_view *scores) {
    return scores->shape[1];
}

/* Elements of one class of a sample: the product of the axes after C. */
static int64_t inner_of(const weft_view *scores) {
    int64_t n = 1;
    for (int i = 2; i < scores->ndim; i++) n *= scores->shape[i];
    return n;
}

/* Element e of the labels: the score of its class 0; class c is c * inner further. */
static int64_t first_score(const weft_view *scores, int64_t e) {
    int64_t inner = inner_of(scores);
    return e / inner * classes_of(scores) * inner + e % inner;
}

static weft_status check_shapes(int64_t rows, const weft_view *reads, weft_error *error) {
    const weft_view *scores = &reads[0], *label = &reads[1];
    tensor s = read_type(scores), l = read_type(label);
    bool fits = is_real(scores) && is_whole(label) && s.ndim >= 2 && l.ndim == s.ndim - 1 &&
                s.shape[0] == rows && l.shape[0] == rows;
    for (int i = 1; fits && i < l.ndim; i++) fits = l.shape[i] == s.shape[i + 1];
    if (fits) return WEFT_OK;
    return kit_fail(
        error, WEFT_SHAPE,
        "%s is %s, and %s is %s: scores are f32 or f64 [%jd,C,...], labels u8, i32 or i64 [%jd,...]",
        scores->name, TENSOR(&s), label->name, TENSOR(&l), rows, rows);
}

/* How many classes have a higher score than class `label`, and those before it that have the same. With a NaN
 * among the scores no class is the right one. */
static int64_t place_of(const weft_view *scores, int64_t e, int64_t label) {
    int64_t inner = inner_of(scores), at = first_score(scores, e), place = 0;
    double own = read_real(scores, at + label * inner);
    for (int64_t c = 0; c < classes_of(scores); c++) {
        double other = read_real(scores, at + c * inner);
        if (isnan(other)) return classes_of(scores);
        place += other > own || (other == own && c < label);
    }
    return place;
}

static double ratio(double part, double of) {
    return of > 0 ? part / of : 0;
}

static weft_status open_scores(void *self, int64_t rows, const weft_view *reads, weft_tally_size *keeps,
                               weft_error *error) {
    enum { MOST = 4096 /* classes of a matrix */ };
    const measure *m = self;
    if (check_shapes(rows, reads, error)) return error->status;
    int64_t c = classes_of(&reads[0]);
    if (m->k > c) return kit_fail(error, WEFT_ARGUMENT, "the top %d of %jd classes", m->k, c);
    if (!m->counts && c > MOST) return kit_fail(error, WEFT_UNSUPPORTED, "%jd classes, at most %d", c, MOST);
    keeps->counts = m->counts ? m->counts : c * (c + 1);
    keeps->sums = m->sums;
    return WEFT_OK;
}

/* Elements whose label is negative do not count. */
static weft_status batch_scores(void *self, int64_t rows, const weft_view *reads, weft_tally *tally,
                                weft_error *error) {
    const measure *m = self;
    int64_t n = read_elements(&reads[1]), classes = classes_of(&reads[0]);
    for (int64_t e = 0; e < n; e++) {
        int64_t label = read_whole(&reads[1], e);
        if (label >= classes)
            return kit_fail(error, WEFT_DATA, "%s has a label %jd, and there are %jd classes", reads[1].name,
                            label, classes);
        if (label >= 0) m->note(m, reads, e, label, tally);
    }
    return WEFT_OK;
}

/* ---- accuracy ---- */

enum { HITS, ALL };

static void note_accuracy(const measure *m, const weft_view *reads, int64_t e, int64_t label,
                          weft_tally *tally) {
    weft_tally_count(tally, HITS, place_of(&reads[0], e, label) < m->k);
    weft_tally_count(tally, ALL, 1);
}

static weft_status report_accuracy(void *self, weft_tally *tally, weft_error *error) {
    weft_tally_report(tally, NULL,
                      (double)weft_tally_counted(tally, HITS) / (double)weft_tally_counted(tally, ALL));
    return WEFT_OK;
}

weft_evaluator weft_evaluator_accuracy(const char *scores, const char *label, int k) {
    measure m = {.name = "accuracy", .k = k, .counts = 2, .note = note_accuracy};
    if (!scores || !label) return measure_refused("accuracy: scores and a label are needed");
    if (k < 1) return measure_refused("accuracy: k must be 1 or more");
    if (k > 1) snprintf(m.name, sizeof m.name, "accuracy_top%d", k);
    weft_evaluator calls = {.open = open_scores, .batch = batch_scores, .report = report_accuracy};
    return measure_new(&m, scores, label, calls);
}

/* ---- confusion: counts [label][highest score, or C: none] ---- */

/* C where a score is NaN. */
static int64_t highest(const weft_view *scores, int64_t e) {
    int64_t inner = inner_of(scores), at = first_score(scores, e), best = 0;
    for (int64_t c = 0; c < classes_of(scores); c++) {
        double score = read_real(scores, at + c * inner);
        if (isnan(score)) return classes_of(scores);
        if (score > read_real(scores, at + best * inner)) best = c;
    }
    return best;
}

static void note_confusion(const measure *m, const weft_view *reads, int64_t e, int64_t label,
                           weft_tally *tally) {
    weft_tally_count(tally, label * (classes_of(&reads[0]) + 1) + highest(&reads[0], e), 1);
}

/* Sums over the classes that occur, which become means. */
typedef struct by_class {
    double n, precision, recall, f1, iou;
} by_class;

static void add_class(by_class *sum, const weft_tally *t, int64_t k, int64_t c) {
    int64_t row = c + 1;
    double hits = (double)weft_tally_counted(t, k * row + k), given = 0;
    double labels = (double)weft_tally_counted(t, k * row + c);
    for (int64_t i = 0; i < c; i++) {
        labels += (double)weft_tally_counted(t, k * row + i);
        given += (double)weft_tally_counted(t, i * row + k);
    }
    if (labels + given == 0) return;
    sum->n++;
    sum->precision += ratio(hits, given);
    sum->recall += ratio(hits, labels);
    sum->f1 += ratio(2 * hits, labels + given);
    sum->iou += ratio(hits, labels + given - hits);
}

static const char *const confusion_parts[] = {"accuracy", "precision", "recall", "f1", "iou", NULL};

static weft_status report_confusion(void *self, weft_tally *tally, weft_error *error) {
    const measure *m = self;
    int64_t c = 0;
    double hits = 0, all = 0;
    by_class sum = {0};
    while (c * (c + 1) < tally->n_counts) c++;
    for (int64_t i = 0; i < tally->n_counts; i++) {
        int64_t n = weft_tally_counted(tally, i), label = i / (c + 1), given = i % (c + 1);
        all += (double)n;
        if (given == label) hits += (double)n;
        if (m->matrix && given < c) m->matrix[label * c + given] = n;
    }
    for (int64_t k = 0; k < c; k++) add_class(&sum, tally, k, c);
    const double values[] = {hits / all, sum.precision / sum.n, sum.recall / sum.n, sum.f1 / sum.n,
                             sum.iou / sum.n};
    for (int i = 0; confusion_parts[i]; i++) weft_tally_report(tally, confusion_parts[i], values[i]);
    return WEFT_OK;
}

weft_evaluator weft_evaluator_confusion(const char *scores, const char *label, int64_t *matrix) {
    measure m = {.name = "confusion", .matrix = matrix, .note = note_confusion};
    if (!scores || !label) return measure_refused("confusion: scores and a label are needed");
    weft_evaluator calls = {
        .open = open_scores, .batch = batch_scores, .report = report_confusion, .parts = confusion_parts};
    return measure_new(&m, scores, label, calls);
}

/* ---- perplexity ---- */

/* -log softmax(scores)[label] */
static double surprise(const weft_view *scores, int64_t e, int64_t label) {
    int64_t inner = inner_of(scores), at = first_score(scores, e);
    double most = -(double)INFINITY, sum = 0;
    for (int64_t c = 0; c < classes_of(scores); c++) most = fmax(most, read_real(scores, at + c * inner));
    for (int64_t c = 0; c < classes_of(scores); c++) sum += exp(read_real(scores, at + c * inner) - most);
    return log(sum) + most - read_real(scores, at + label * inner);
}

static void note_perplexity(const measure *m, const weft_view *reads, int64_t e, int64_t label,
                            weft_tally *tally) {
    weft_tally_add(tally, 0, surprise(&reads[0], e, label));
    weft_tally_count(tally, 0, 1);
}

/* Of values that the graph gives itself. */
static weft_status open_surprises(void *self, int64_t rows, const weft_view *reads, weft_tally_size *keeps,
                                  weft_error *error) {
    tensor t = read_type(&reads[0]);
    keeps->counts = keeps->sums = 1;
    if (is_real(&reads[0])) return WEFT_OK;
    return kit_fail(error, WEFT_SHAPE, "%s is %s, and must be f32 or f64", reads[0].name, TENSOR(&t));
}

static weft_status batch_surprises(void *self, int64_t rows, const weft_view *reads, weft_tally *tally,
                                   weft_error *error) {
    int64_t n = read_elements(&reads[0]);
    for (int64_t e = 0; e < n; e++) weft_tally_add(tally, 0, read_real(&reads[0], e));
    weft_tally_count(tally, 0, n);
    return WEFT_OK;
}

static weft_status report_perplexity(void *self, weft_tally *tally, weft_error *error) {
    weft_tally_report(tally, NULL, exp(weft_tally_sum(tally, 0) / (double)weft_tally_counted(tally, 0)));
    return WEFT_OK;
}

weft_evaluator weft_evaluator_perplexity(const char *scores, const char *label) {
    if (!scores) return measure_refused("perplexity: scores are needed");
    weft_evaluator calls = {.open = label ? open_scores : open_surprises,
                            .batch = label ? batch_scores : batch_surprises,
                            .report = report_perplexity};
    return measure_new(&(measure){.name = "perplexity", .counts = 1, .sums = 1, .note = note_perplexity},
                       scores, label, calls);
}
