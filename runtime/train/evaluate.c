/* evaluate.c - validation and test: sweeps over a data set on the trainer's store, by the averages of
 * parameters where optimizers keep some. */
#include "runtime/train/trainer.h"

/* The session that trains must have finished what others read. */
static weft_status settle(weft_trainer *t, weft_error *error) {
    return t->session ? weft_sync(t->session, error) : WEFT_OK;
}

static bool keeps_averages(const weft_store *store) {
    weft_stored value;
    for (int i = 0; weft_store_at(store, i, &value); i++)
        if (value.kind == WEFT_STORED_AVERAGE) return true;
    return false;
}

/* As MMEngine's EMAHook does for an evaluation. A trainer for an evaluation has no session that trains, and
 * each rank a whole store. */
weft_status trainer_averages_on(weft_trainer *t, sweep *s, bool *done, weft_error *error) {
    *done = false;
    if (t->options.without_averages || !keeps_averages(t->store) || weft_uses_averages(t->store))
        return WEFT_OK;
    bool is_alone = t->options.compile.graph;
    if (is_alone ? sweep_sessions(s, t->store, error) != WEFT_OK : !weft_trainer_session(t, error))
        return error->status;
    weft_status status = weft_use_averages(is_alone ? s->session[0] : t->session, true, error);
    *done = !status;
    return status;
}

weft_status trainer_averages_off(weft_trainer *t, sweep *s, weft_status before, weft_error *error) {
    weft_error second = {0};
    weft_session *session = t->options.compile.graph ? s->session[0] : t->session;
    weft_status status = weft_use_averages(session, false, before ? &second : error);
    return before ? before : status;
}

/* Hooks, which may fail on one rank, are called while parameters are in their place. */
weft_status trainer_save_validated(weft_trainer *t, const char *path, weft_error *error) {
    bool averaged = false;
    if (!weft_trainer_session(t, error)) return error->status;
    bool failed = hooks_call(t, WEFT_BEFORE_SAVE, error) ||
                  trainer_averages_on(t, &t->val, &averaged, error) || weft_sync(t->session, error) ||
                  weft_session_save(t->session, path, false, error);
    weft_status status = failed ? error->status : WEFT_OK;
    if (averaged) status = trainer_averages_off(t, &t->val, status, error);
    return status ? status : hooks_call(t, WEFT_AFTER_SAVE, error);
}

/* The sweep of a validation, or of a test; NULL: there is none. */
static sweep *find_sweep(weft_trainer *t, weft_hook_point before, const char *call, weft_error *error) {
    bool is_val = before == WEFT_BEFORE_VAL;
    if (!t) return kit_fail(error, WEFT_ARGUMENT, "%s: the trainer is NULL", call), NULL;
    sweep *s = is_val ? &t->val : &t->test;
    if (s->is_open) return s;
    kit_fail(error, WEFT_ORDER, "%s: the trainer has no data for it: set options.%s", call,
             is_val ? "val" : "test");
    return NULL;
}

/* One batch: its numbers are metrics of this rank. Averages would have to come and go on all ranks. */
static weft_status step(weft_trainer *t, weft_hook_point before, const char *call, weft_metrics *metrics,
                        weft_error *error) {
    int which;
    weft_error own;
    weft_metrics given = {0};
    error = kit_error(error, &own);
    sweep *s = find_sweep(t, before, call, error);
    if (s) fed_now(t);
    if (!s || settle(t, error) || sweep_next(s, t->store, &which, error)) return error->status;
    metrics_clear(&s->metrics);
    if (which < 0) s->is_begun = false; /* the next call begins again */
    if (which >= 0) {
        metrics_note(&s->metrics, &s->run[which], 1);
        measures_clear(&s->measures);
        if (measures_batch(&s->measures, which, &s->data, error) ||
            metrics_means(&s->metrics, NULL, NULL, &given, error) ||
            measures_report(&s->measures, NULL, &given, error))
            return error->status;
        given.samples = s->data.rows;
    }
    if (metrics) *metrics = given;
    return WEFT_OK;
}

static weft_status all(weft_trainer *t, weft_hook_point before, const char *call, weft_metrics *metrics,
                       weft_error *error) {
    weft_error own;
    bool averaged = false;
    error = kit_error(error, &own);
    sweep *s = find_sweep(t, before, call, error);
    if (!s) return error->status;
    weft_metrics *progress = s == &t->val ? &t->progress.val : &t->progress.test;
    t->is_common = false;
    fed_now(t);
    bool failed = hooks_call(t, before, error) || settle(t, error) ||
                  trainer_averages_on(t, s, &averaged, error) || sweep_run(s, t->store, error);
    weft_status status = failed ? error->status : WEFT_OK;
    if (averaged) status = trainer_averages_off(t, s, status, error);
    if (status || sweep_means(s, progress, error)) return trainer_tell(t, error->status, error);
    if (metrics) *metrics = *progress;
    return trainer_tell(t, hooks_call(t, (weft_hook_point)(before + 1), error), error);
}

weft_status weft_trainer_val_step(weft_trainer *t, weft_metrics *metrics, weft_error *error) {
    return step(t, WEFT_BEFORE_VAL, "weft_trainer_val_step", metrics, error);
}

weft_status weft_trainer_test_step(weft_trainer *t, weft_metrics *metrics, weft_error *error) {
    return step(t, WEFT_BEFORE_TEST, "weft_trainer_test_step", metrics, error);
}

weft_status weft_trainer_validate(weft_trainer *t, weft_metrics *metrics, weft_error *error) {
    return all(t, WEFT_BEFORE_VAL, "weft_trainer_validate", metrics, error);
}

weft_status weft_trainer_test(weft_trainer *t, weft_metrics *metrics, weft_error *error) {
    return all(t, WEFT_BEFORE_TEST, "weft_trainer_test", metrics, error);
}
