/* bad_steps.c - a step that failed on its data: the samples of its micro-batch, which every rank knows as all
 * see the same order, and whether a bad one (bad_step.h) is passed over. */
#include "runtime/train/trainer.h"

#include "runtime/data/loader.h"
#include "weft/bad_step.h"

/* ---- where it was ---- */

int64_t flow_micro_batch(const weft_trainer *t, const bound *r, int rank, int64_t k) {
    return t->micro_begin + rank * t->micro_each + k * (t->micro_each / r->accumulate);
}

/* r: the graph that ran, NULL: unknown; micro: of this rank, where the session does not tell another one. A
 * micro-batch that an earlier run of the step had is not known any more. */
static failure find_place(const weft_trainer *t, const bound *r, int64_t micro, bool is_bad) {
    failure f = {.is_there = true, .batch = -1};
    weft_failed_step *s = &f.step;
    *s = (weft_failed_step){.is_bad = is_bad,
                            .epoch = log_epoch(t),
                            .iteration = log_step(t) + 1,
                            .rank = t->progress.rank,
                            .micro_batch = micro,
                            .row = -1};
    if (is_bad && !weft_bad_step_at(t->session, &s->rank, &s->micro_batch)) s->micro_batch = -1;
    if (is_bad) s->row = weft_bad_step_row(t->session);
    if (!r || !bound_reads(r) || s->micro_batch < 0 || s->micro_batch >= r->accumulate) return f;
    f.batch = flow_micro_batch(t, r, s->rank, s->micro_batch);
    s->samples = t->data.rows;
    if (s->row >= s->samples) s->row = -1;
    return f;
}

bool weft_trainer_failed(const weft_trainer *t, weft_failed_step *step) {
    bool is_there = t && t->failure.is_there;
    if (is_there && step) *step = t->failure.step;
    return is_there;
}

int64_t weft_trainer_failed_sample(const weft_trainer *t, int64_t row) {
    bool is_there = t && t->failure.is_there && row >= 0 && row < t->failure.step.samples;
    return is_there ? loader_sample(t->data.loader, t->failure.batch, row) : -1;
}

/* ---- telling ---- */

/* ", sample 3942, row 1" where the row is known; else ", samples 17, 3942, 5": as many as have room, or 16 of
 * a bad step, whose report has them all. They stand in the order of rows, by which an error may name one. */
static void list_samples(const weft_trainer *t, kit_line *to, size_t room) {
    enum { SHORT = 16, NUMBER = 40 };
    const weft_failed_step *s = &t->failure.step;
    int64_t most = s->row >= 0 ? 0 : s->is_bad && s->samples > SHORT ? SHORT : s->samples, i = 0;
    if (s->row >= 0) kit_add(to, ", sample %jd, row %jd", weft_trainer_failed_sample(t, s->row), s->row);
    for (; i < most && to->length + 2 * NUMBER < room; i++)
        kit_add(to, "%s%jd", i ? ", " : ", samples ", weft_trainer_failed_sample(t, i));
    if (s->row < 0 && i < s->samples) kit_add(to, ", ... (%jd)", s->samples);
    kit_add(to, "]");
}

/* Appends " [epoch 2, iteration 128, sample 3942, row 1]" to the error. */
static void name_samples(const weft_trainer *t, weft_error *error) {
    enum { LINE = sizeof error->text, LEAST = 160 };
    const weft_failed_step *s = &t->failure.step;
    kit_line to = {0};
    kit_add(&to, "%s", error->text);
    if (to.length + LEAST > LINE) return;
    kit_add(&to, " [epoch %jd, iteration %jd", s->epoch, s->iteration);
    if (t->progress.world > 1) kit_add(&to, ", rank %d", s->rank);
    list_samples(t, &to, LINE);
    snprintf(error->text, LINE, "%.*s", LINE - 1, to.text);
}

/* ---- passing over ---- */

static weft_status pass_over(weft_trainer *t, weft_error *error) {
    trainer_log(t, "%s: skipped, %jd of at most %jd in a row", error->text, t->bad_in_row,
                t->options.skip_bad_steps);
    t->progress.skipped++;
    t->failure = (failure){.batch = -1};
    *error = (weft_error){0};
    metrics_rewind(&t->metrics);
    return WEFT_OK;
}

weft_status step_failed(weft_trainer *t, const bound *r, int64_t micro, bool is_bad, weft_error *error) {
    t->failure = find_place(t, r, micro, is_bad);
    name_samples(t, error);
    if (is_bad && t->bad_in_row < t->options.skip_bad_steps) {
        t->bad_in_row++;
        return pass_over(t, error);
    }
    t->is_common = is_bad;
    return WEFT_DATA;
}
