/* fit.c - the loop: iterations, epochs and validations when they are due, hooks at each point. */
#include "runtime/train/trainer.h"

#include <math.h>

/* ---- an iteration ---- */

/* Metrics, and sums over ranks that follow below, are the same on all ranks. */
static weft_status check_metrics(const weft_trainer *t, weft_error *error) {
    const weft_metrics *m = &t->progress.train;
    for (int i = 0; i < m->n; i++)
        if (!isfinite(m->list[i].value))
            return kit_fail(error, WEFT_DATA, "step %jd: %s is %g", t->progress.iteration, m->list[i].name,
                            isnan(m->list[i].value) ? NAN : m->list[i].value);
    return WEFT_OK;
}

/* Batches that this iteration took are samples of all ranks. */
static void count_samples(weft_trainer *t) {
    if (t->taken > t->most_taken) t->most_taken = t->taken;
    t->progress.train.samples = t->taken * t->data.rows;
    t->progress.samples += t->taken * t->data.rows;
    t->progress.iteration++;
}

/* What all ranks learn after an iteration whose metrics are due: means, and whether one of them says stop. */
static weft_status agree(weft_trainer *t, weft_error *error) {
    double stops = atomic_load(&t->is_stopped);
    int64_t samples = t->progress.train.samples;
    weft_status status = metrics_means(&t->metrics, t->options.comm, &stops, &t->progress.train, error);
    t->progress.train.samples = samples;
    t->stops = stops > 0;
    return status;
}

static weft_status iterate(weft_trainer *t, weft_error *error) {
    int64_t every = t->options.metrics_every > 1 ? t->options.metrics_every : 1,
            skipped = t->progress.skipped;
    t->fetches = (t->progress.iteration + 1) % every == 0;
    t->micro_each = 0;
    t->taken = 0;
    t->began = t->begin;
    t->has_run = false;
    t->last_run = NULL;
    t->is_in_step = true;
    metrics_clear(&t->metrics);
    fed_now(t);
    weft_status status = t->options.train_step ? own_step_run(t, error) : flow_run(t, error);
    t->is_in_step = false;
    bool is_good = !status && t->progress.skipped == skipped;
    if (is_good) t->bad_in_row = 0;
    if (is_good || (!status && t->has_run)) t->has_trained = t->checkpoints.has_news = true;
    if (!status) t->failure = (failure){.batch = -1};
    t->progress.data_seconds = t->data_seconds + weft_loader_waited(t->data.loader);
    if (status) return status;
    count_samples(t);
    if (t->fetches) return agree(t, error);
    t->progress.train.n = 0;
    return WEFT_OK;
}

/* Of an earlier call. */
static void forget_error(weft_trainer *t) {
    t->is_common = t->is_of_validation = false;
    t->failure = (failure){.batch = -1};
}

bool weft_trainer_failed_validating(const weft_trainer *t) {
    return t && t->is_of_validation;
}

weft_status weft_trainer_train_step(weft_trainer *t, weft_metrics *metrics, weft_error *error) {
    weft_error own;
    error = kit_error(error, &own);
    if (trainer_check_outside(t, "weft_trainer_train_step", error)) return error->status;
    forget_error(t);
    bool failed = !weft_trainer_session(t, error) || (!epoch_has_room(t) && trainer_next_epoch(t, error)) ||
                  iterate(t, error);
    if (failed) return trainer_tell(t, error->status, error);
    if (metrics) *metrics = t->progress.train;
    return WEFT_OK;
}

/* ---- the loop ---- */

/* An iteration and what follows it: hooks, a validation, the end of an epoch. */
static weft_status one(weft_trainer *t, weft_error *error) {
    int64_t every = t->options.val_iterations;
    if (t->is_in_epoch && !epoch_has_room(t))
        return epoch_end(t, true, error); /* what an error left, or single steps */
    if ((!t->is_in_epoch && epoch_begin(t, error)) || hooks_call(t, WEFT_BEFORE_ITERATION, error))
        return error->status;
    weft_status status = iterate(t, error);
    t->progress.seconds = t->seconds + (trainer_clock() - t->start);
    if (status || hooks_call(t, WEFT_AFTER_ITERATION, error)) return error->status;
    t->stops = t->stops || (t->progress.world == 1 && atomic_load(&t->is_stopped)); /* by a hook */
    t->is_common = t->fetches && !t->options.keep_going && check_metrics(t, error);
    if (t->is_common) return error->status;
    if (every > 0 && t->progress.iteration % every == 0 && epoch_validate(t, error)) return error->status;
    bool is_whole = !epoch_has_room(t);
    if (is_whole || trainer_is_done(t)) return epoch_end(t, is_whole, error);
    return t->stops ? trainer_check_weights(t, error) : WEFT_OK; /* the epoch stays open */
}

static weft_status loop(weft_trainer *t, weft_error *error) {
    weft_status status = hooks_call(t, WEFT_BEFORE_RUN, error);
    if (!status && t->checkpoints.is_resumed)
        status = trainer_agree_stop(t, error); /* what had stopped stays so */
    t->checkpoints.is_resumed = false;
    t->is_in_fit = true;
    while (!status && !t->stops && !trainer_is_done(t))
        status = one(t, error) || checkpoints_turn(t, error) ? error->status : WEFT_OK;
    t->is_in_fit = false;
    return trainer_tell(t, status, error);
}

weft_status weft_trainer_fit(weft_trainer *t, weft_error *error) {
    weft_error own, last = {0};
    error = kit_error(error, &own);
    if (trainer_check_outside(t, "weft_trainer_fit", error)) return error->status;
    forget_error(t);
    if (!weft_trainer_session(t, error)) return trainer_tell(t, error->status, error);
    atomic_store(&t->is_stopped, false);
    t->stops = false;
    t->bad_in_row = 0;
    t->start = trainer_clock();
    t->seconds = t->progress.seconds;
    if (checkpoints_begin(t, error)) return trainer_tell(t, error->status, error); /* no hook was called */
    weft_status status = loop(t, error);
    if (status)
        checkpoints_fail(t);
    else
        checkpoints_end(t);
    t->progress.seconds = t->seconds + (trainer_clock() - t->start);
    weft_status after = hooks_call(t, WEFT_AFTER_RUN, status ? &last : error);
    return status ? status : trainer_tell(t, after, error);
}

weft_status weft_trainer_check(const weft_trainer *t, weft_error *error) {
    weft_error own;
    error = kit_error(error, &own);
    if (!t) return kit_fail(error, WEFT_ARGUMENT, "trainer: it is NULL");
    if (t->is_broken) return kit_fail(error, WEFT_DATA, "the weights are not finite");
    if (t->progress.skipped && !t->has_trained)
        return kit_fail(error, WEFT_DATA, "each step was a bad one and was skipped: nothing was trained");
    if (check_metrics(t, error) || kit_pass(error, &t->checkpoints.failure)) return error->status;
    return hooks_check(t, error);
}

void weft_trainer_set_metrics_every(weft_trainer *t, int64_t every) {
    if (t) t->options.metrics_every = every;
}

/* Lock-free, so that a signal handler may call it. */
void weft_trainer_stop(weft_trainer *t) {
    if (t) atomic_store(&t->is_stopped, true);
}
