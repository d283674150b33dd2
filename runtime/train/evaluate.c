/* evaluate.c - validation and test: sweeps over a data set on the trainer's store, by the averages of
 * parameters where optimizers keep some. */
#include "runtime/train/trainer.h"

#include <string.h>

/* The session that trains must have finished what others read. */
static weft_status settle(weft_trainer *t, weft_error *error) {
    return t->session ? weft_sync(t->session, error) : WEFT_OK;
}

/* "optimizer.adam:all/net/fc/weight/ema" */
static bool keeps_averages(const weft_store *store) {
    static const char end[] = "/ema";
    const char *path;
    for (int i = 0; (path = weft_store_path(store, i)); i++) {
        size_t n = strlen(path);
        if (!strncmp(path, "optimizer.", 10) && n > sizeof end && !strcmp(path + n - (sizeof end - 1), end))
            return true;
    }
    return false;
}

/* Puts averages in the place of parameters, as MMEngine's EMAHook does for an evaluation, or these back. An
 * error that came before stays. */
static weft_status averages(weft_trainer *t, bool on, weft_status before, weft_error *error) {
    weft_error second = {0};
    if ((before && on) || t->options.without_averages || !keeps_averages(t->store)) return before;
    weft_session *s = weft_trainer_session(t, before ? &second : error);
    weft_status status = s ? weft_use_averages(s, on, before ? &second : error) : error->status;
    return before ? before : status;
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
    weft_status status = averages(t, true, settle(t, error), error);
    if (!status) status = sweep_next(s, t->store, &which, error);
    status = averages(t, false, status, error);
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
    t->is_common = false;
    weft_status status = hooks_call(t, before, error);
    if (!status) status = averages(t, true, settle(t, error), error);
    if (!status) status = averages(t, false, sweep_means(s, t->store, progress, error), error);
    if (!status && metrics) *metrics = *progress;
    if (!status) status = hooks_call(t, (weft_point)(before + 1), error);
    return trainer_tell(t, status, error);
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
