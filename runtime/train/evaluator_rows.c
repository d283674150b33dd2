/* evaluator_rows.c - evaluators that need all samples at once, as rows: the area under the ROC curve,
 * retrieval. */
#include "runtime/train/evaluator.h"

#include <math.h>

/* ---- the area under the ROC curve: rows of a score and a label ---- */

/* [rows], or [rows,1] to [rows,most]. */
static bool is_list(const weft_view *r, int64_t rows, int64_t most) {
    return (r->ndim == 1 || (r->ndim == 2 && r->shape[1] <= most)) && r->shape[0] == rows;
}

static weft_status open_auc(void *self, int64_t rows, const weft_view *reads, weft_tally_size *keeps,
                            weft_error *error) {
    const weft_view *scores = &reads[0], *label = &reads[1];
    tensor s = read_type(scores), l = read_type(label);
    keeps->width = 2;
    if (is_real(scores) && (is_real(label) || is_whole(label)) && is_list(scores, rows, 2) &&
        is_list(label, rows, 1))
        return WEFT_OK;
    return kit_fail(
        error, WEFT_SHAPE,
        "%s is %s, and %s is %s: scores are f32 or f64 [%jd], [%jd,1] or [%jd,2], labels u8, i32, "
        "i64, f32 or f64 [%jd] or [%jd,1]",
        scores->name, TENSOR(&s), label->name, TENSOR(&l), rows, rows, rows, rows, rows);
}

/* Of class 1 against class 0. */
static double score_of(const weft_view *scores, int64_t i) {
    if (scores->ndim == 1 || scores->shape[1] == 1) return read_real(scores, i);
    return read_real(scores, 2 * i + 1) - read_real(scores, 2 * i);
}

static weft_status batch_auc(void *self, int64_t rows, const weft_view *reads, weft_tally *tally,
                             weft_error *error) {
    for (int64_t i = 0; i < rows; i++) {
        double label = is_real(&reads[1]) ? read_real(&reads[1], i) : (double)read_whole(&reads[1], i);
        if (label < 0) continue;
        if (label != 0 && label != 1)
            return kit_fail(error, WEFT_DATA,
                            "%s has a label %s: it must be 0 or 1, or negative not to count", reads[1].name,
                            NUMBER("%.9g", label));
        weft_tally_row(tally, (const double[]){score_of(&reads[0], i), label});
    }
    return WEFT_OK;
}

/* Twice the pairs of a 1 and a 0 in which the 1 has the higher score; equal scores count half. The rows are
 * sorted by score; a NaN is in no pair. */
static int64_t ordered_pairs(const double *rows, int64_t n) {
    int64_t twice = 0, below = 0; /* zeros with a lower score */
    for (int64_t i = 0; i < n;) {
        int64_t first = i, ones = 0;
        for (; i < n && rows[2 * i] == rows[2 * first]; i++) ones += rows[2 * i + 1] == 1;
        int64_t zeros = i - first - ones;
        twice += ones * (2 * below + zeros);
        below += zeros;
        i += i == first; /* a NaN is not equal to itself */
    }
    return twice;
}

static weft_status report_auc(void *self, weft_tally *tally, weft_error *error) {
    int64_t n, ones = 0;
    const double *rows = weft_tally_rows(tally, &n);
    for (int64_t i = 0; i < n; i++) ones += rows[2 * i + 1] == 1;
    double pairs = (double)ones * (double)(n - ones);
    weft_tally_report(tally, NULL, (double)ordered_pairs(rows, n) / (2 * pairs));
    return WEFT_OK;
}

weft_evaluator weft_evaluator_auc(const char *scores, const char *label) {
    if (!scores || !label) return measure_refused("auc: scores and a label are needed");
    weft_evaluator calls = {.open = open_auc, .batch = batch_auc, .report = report_auc};
    return measure_new(&(measure){.name = "auc"}, scores, label, calls);
}

/* ---- retrieval: rows of a vector of `a`, then its vector of `b` ---- */

static weft_status open_recall(void *self, int64_t rows, const weft_view *reads, weft_tally_size *keeps,
                               weft_error *error) {
    weft_status status = check_pair(reads, rows, error);
    if (!status) keeps->width = 2 * (read_elements(&reads[0]) / rows);
    return status;
}

static weft_status batch_recall(void *self, int64_t rows, const weft_view *reads, weft_tally *tally,
                                weft_error *error) {
    int64_t each = read_elements(&reads[0]) / rows;
    for (int64_t i = 0; i < rows; i++) {
        double *row = rows_add(tally);
        if (!row) return WEFT_OK; /* the tally has the error */
        for (int64_t k = 0; k < each; k++) row[k] = read_real(&reads[0], i * each + k);
        for (int64_t k = 0; k < each; k++) row[each + k] = read_real(&reads[1], i * each + k);
    }
    return WEFT_OK;
}

/* In eight sums, so that it is vectorized: always the same, in one order. */
static double dot(const double *restrict a, const double *restrict b, int64_t n) {
    enum { LANES = 8 };
    double sums[LANES] = {0}, sum = 0;
    int64_t k = 0;
    for (; k + LANES <= n; k += LANES)
        for (int l = 0; l < LANES; l++) sums[l] += a[k + l] * b[k + l];
    for (; k < n; k++) sum += a[k] * b[k];
    for (int l = 0; l < LANES; l++) sum += sums[l];
    return sum;
}

enum { BLOCK = 16 /* samples of `a` that meet a vector of `b` while it is in the cache */ };

/* How many of `n` samples from `first` on are found among the `all` rows. */
static int64_t found_in_block(const double *rows, int64_t all, int64_t width, int64_t first, int64_t n,
                              int k) {
    int64_t above[BLOCK] = {0}, found = 0;
    double own[BLOCK];
    const double *at = rows + first * width, *b = rows + width / 2;
    for (int64_t i = 0; i < n; i++) own[i] = dot(at + i * width, at + i * width + width / 2, width / 2);
    for (int64_t j = 0; j < all; j++)
        for (int64_t i = 0; i < n; i++)
            if (above[i] < k && j != first + i)
                above[i] += !(dot(at + i * width, b + j * width, width / 2) < own[i]);
    for (int64_t i = 0; i < n; i++) found += above[i] < k && !isnan(own[i]);
    return found;
}

static weft_status report_recall(void *self, weft_tally *tally, weft_error *error) {
    const measure *m = self;
    int64_t n, found = 0;
    const double *rows = weft_tally_rows(tally, &n);
    for (int64_t i = 0; i < n; i += BLOCK)
        found += found_in_block(rows, n, tally->width, i, n - i < BLOCK ? n - i : BLOCK, m->k);
    weft_tally_report(tally, NULL, (double)found / (double)n);
    return WEFT_OK;
}

weft_evaluator weft_evaluator_recall_at(const char *a, const char *b, int k) {
    measure m = {.k = k};
    if (!a || !b) return measure_refused("recall_at: two outputs are needed");
    if (k < 1) return measure_refused("recall_at: k must be 1 or more");
    snprintf(m.name, sizeof m.name, "recall_at_%d", k);
    weft_evaluator calls = {.open = open_recall, .batch = batch_recall, .report = report_recall};
    return measure_new(&m, a, b, calls);
}
