/* evaluator_values.c - evaluators of numbers: means, squared errors, peak signal-to-noise ratios. */
#include "runtime/train/evaluator.h"

#include <math.h>

/* ---- what all share ---- */

weft_evaluator measure_refused(const char *why) {
    return (weft_evaluator){.name = why};
}

weft_evaluator measure_new(const measure *with, const char *first, const char *second, weft_evaluator calls) {
    static const char *const alone[] = {"", NULL};
    measure *self = kit_object(NULL, sizeof *self);
    if (!self) return measure_refused(NULL);
    kit_arena memory = self->memory;
    *self = *with;
    self->memory = memory;
    if (!calls.parts) calls.parts = alone;
    calls.name = self->name;
    calls.reads[0] = first;
    calls.reads[1] = second;
    calls.free = kit_free;
    calls.self = self;
    return calls;
}

bool is_real(const weft_view *r) {
    return r->dtype == WEFT_F32 || r->dtype == WEFT_F64;
}

bool is_whole(const weft_view *r) {
    return r->dtype == WEFT_U8 || r->dtype == WEFT_I32 || r->dtype == WEFT_I64;
}

double read_real(const weft_view *r, int64_t i) {
    return r->dtype == WEFT_F32 ? (double)((const float *)r->data)[i] : ((const double *)r->data)[i];
}

int64_t read_whole(const weft_view *r, int64_t i) {
    if (r->dtype == WEFT_U8) return ((const uint8_t *)r->data)[i];
    return r->dtype == WEFT_I32 ? ((const int32_t *)r->data)[i] : ((const int64_t *)r->data)[i];
}

tensor read_type(const weft_view *r) {
    return tensor_of(r->dtype, r->ndim, r->shape);
}

int64_t read_elements(const weft_view *r) {
    tensor t = read_type(r);
    return tensor_elements(&t);
}

/* ---- means of rows ---- */

/* Real numbers, a row for each sample. */
static weft_status check_rows(const weft_view *r, int64_t rows, weft_error *error) {
    tensor t = read_type(r);
    if (is_real(r) && r->ndim && r->shape[0] == rows) return WEFT_OK;
    return kit_fail(error, WEFT_SHAPE, "%s is %s, and must be f32 or f64 with a row for each of %jd samples",
                    r->name, TENSOR(&t), rows);
}

/* One count, the samples or elements, and one sum. */
static weft_status open_mean(void *self, int64_t rows, const weft_view *reads, weft_tally_size *keeps,
                             weft_error *error) {
    keeps->counts = keeps->sums = 1;
    return check_rows(&reads[0], rows, error);
}

static weft_status batch_rows(void *self, int64_t rows, const weft_view *reads, weft_tally *tally,
                              weft_error *error) {
    const measure *m = self;
    int64_t each = read_elements(&reads[0]) / rows;
    for (int64_t i = 0; i < rows; i++) weft_tally_add(tally, 0, m->value(m, reads, i * each, each));
    weft_tally_count(tally, 0, rows);
    return WEFT_OK;
}

static double mean_of(const measure *m, const weft_view *reads, int64_t first, int64_t each) {
    double sum = 0;
    for (int64_t k = 0; k < each; k++) sum += read_real(&reads[0], first + k);
    return sum / (double)each;
}

static weft_status report_mean(void *self, weft_tally *tally, weft_error *error) {
    weft_tally_report(tally, NULL, weft_tally_sum(tally, 0) / (double)weft_tally_counted(tally, 0));
    return WEFT_OK;
}

weft_evaluator weft_evaluator_mean(const char *name, const char *output) {
    measure m = {.value = mean_of};
    if (!name || !output) return measure_refused("mean: a name and an output are needed");
    snprintf(m.name, sizeof m.name, "%s", name);
    weft_evaluator calls = {.open = open_mean, .batch = batch_rows, .report = report_mean};
    return measure_new(&m, output, NULL, calls);
}

/* ---- differences ---- */

weft_status check_pair(const weft_view *reads, int64_t rows, weft_error *error) {
    tensor a = read_type(&reads[0]), b = read_type(&reads[1]);
    weft_status status = check_rows(&reads[0], rows, error);
    if (!status) status = check_rows(&reads[1], rows, error);
    if (status || (a.ndim == b.ndim && memcmp(a.shape, b.shape, (size_t)a.ndim * sizeof *a.shape) == 0))
        return status;
    return kit_fail(error, WEFT_SHAPE, "%s is %s, and %s is %s: they must have one shape", reads[0].name,
                    TENSOR(&a), reads[1].name, TENSOR(&b));
}

static weft_status open_difference(void *self, int64_t rows, const weft_view *reads, weft_tally_size *keeps,
                                   weft_error *error) {
    keeps->counts = keeps->sums = 1;
    return check_pair(reads, rows, error);
}

/* The squared error of element i. */
static double squared(const weft_view *reads, int64_t i) {
    double d = read_real(&reads[0], i) - read_real(&reads[1], i);
    return d * d;
}

static weft_status batch_mse(void *self, int64_t rows, const weft_view *reads, weft_tally *tally,
                             weft_error *error) {
    int64_t n = read_elements(&reads[0]);
    for (int64_t i = 0; i < n; i++) weft_tally_add(tally, 0, squared(reads, i));
    weft_tally_count(tally, 0, n);
    return WEFT_OK;
}

weft_evaluator weft_evaluator_mse(const char *output, const char *target) {
    if (!output || !target) return measure_refused("mse: an output and a target are needed");
    weft_evaluator calls = {.open = open_difference, .batch = batch_mse, .report = report_mean};
    return measure_new(&(measure){.name = "mse"}, output, target, calls);
}

static double psnr_of(const measure *m, const weft_view *reads, int64_t first, int64_t each) {
    double sum = 0;
    for (int64_t k = 0; k < each; k++) sum += squared(reads, first + k);
    return 10 * log10(m->range * m->range / (sum / (double)each));
}

weft_evaluator weft_evaluator_psnr(const char *output, const char *target, double range) {
    if (!output || !target) return measure_refused("psnr: an output and a target are needed");
    if (!(range > 0)) return measure_refused("psnr: the range must be more than 0");
    weft_evaluator calls = {.open = open_difference, .batch = batch_rows, .report = report_mean};
    return measure_new(&(measure){.name = "psnr", .range = range, .value = psnr_of}, output, target, calls);
}
