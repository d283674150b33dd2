/* evaluate.c - validation, test and prediction: sweeps over a data set on the trainer's store. */
#include "runtime/train/trainer.h"

#include <string.h>

/* The session that trains must have finished what others read. */
static weft_status settle(weft_trainer *t, weft_error *error) {
    return t->session ? weft_sync(t->session, error) : WEFT_OK;
}

static weft_status check_has(const weft_trainer *t, bool has, const char *call, const char *field,
                             weft_error *error) {
    if (!t) return kit_fail(error, WEFT_ARGUMENT, "%s: the trainer is NULL", call);
    return has ? WEFT_OK
               : kit_fail(error, WEFT_ORDER, "%s: the trainer has no data for it: set options.%s", call,
                          field);
}

/* One batch: its numbers are metrics of this rank. */
static weft_status step(weft_trainer *t, sweep *s, weft_metrics *metrics, weft_error *error) {
    int which;
    weft_metrics given = {0};
    weft_status status = settle(t, error);
    if (!status) status = sweep_next(s, t->store, &which, error);
    if (status) return status;
    metrics_clear(&s->metrics);
    if (which < 0) s->is_begun = false; /* the next call begins anew */
    if (which >= 0) {
        metrics_note(&s->metrics, &s->run[which], 1);
        measures_clear(&s->measures);
        status = measures_batch(&s->measures, which, &s->data, error);
        if (!status) status = metrics_means(&s->metrics, NULL, NULL, 0, &given, error);
        if (!status) status = measures_report(&s->measures, NULL, &given, error);
        given.samples = s->data.rows;
    }
    if (metrics) *metrics = given;
    return status;
}

static weft_status all(weft_trainer *t, sweep *s, weft_point before, weft_metrics *progress,
                       weft_metrics *metrics, weft_error *error) {
    weft_status status = hooks_call(t, before, error);
    if (!status) status = settle(t, error);
    if (!status) status = sweep_means(s, t->store, progress, error);
    if (!status && metrics) *metrics = *progress;
    return status ? status : hooks_call(t, (weft_point)(before + 1), error);
}

weft_status weft_trainer_val_step(weft_trainer *t, weft_metrics *metrics, weft_error *error) {
    weft_error own = {0};
    error = error ? error : &own;
    weft_status status = check_has(t, t && t->has_val, "weft_trainer_val_step", "val", error);
    return status ? status : step(t, &t->val, metrics, error);
}

weft_status weft_trainer_test_step(weft_trainer *t, weft_metrics *metrics, weft_error *error) {
    weft_error own = {0};
    error = error ? error : &own;
    weft_status status = check_has(t, t && t->has_test, "weft_trainer_test_step", "test", error);
    return status ? status : step(t, &t->test, metrics, error);
}

weft_status weft_trainer_validate(weft_trainer *t, weft_metrics *metrics, weft_error *error) {
    weft_error own = {0};
    error = error ? error : &own;
    weft_status status = check_has(t, t && t->has_val, "weft_trainer_validate", "val", error);
    return status ? status : all(t, &t->val, WEFT_BEFORE_VAL, &t->progress.val, metrics, error);
}

weft_status weft_trainer_test(weft_trainer *t, weft_metrics *metrics, weft_error *error) {
    weft_error own = {0};
    error = error ? error : &own;
    weft_status status = check_has(t, t && t->has_test, "weft_trainer_test", "test", error);
    return status ? status : all(t, &t->test, WEFT_BEFORE_TEST, &t->progress.test, metrics, error);
}
