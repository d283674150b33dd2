/* fit.c - the loop: epochs, iterations, validations when they are due, hooks at each point. */
#include "runtime/train/trainer.h"
#include "weft/guard.h"

#include <math.h>
#include <string.h>

double trainer_clock(void) {
    return 1e-9 * (double)weft_clock_ns();
}

double trainer_seconds(const weft_trainer *t) {
    return t->progress.seconds - t->val_seconds;
}

/* ---- an iteration ---- */

/* The number of the epoch that a schedule counts, among its optimizer's state; NULL: none does. */
static const char *epoch_path(const weft_store *store) {
    weft_stored value;
    for (int i = 0; weft_store_at(store, i, &value); i++)
        if (value.kind == WEFT_STORED_EPOCH) return value.path;
    return NULL;
}

/* Epochs that had ended when the state that was loaded was saved: schedules and the order of samples go on
 * with the next one. */
static weft_status resume_epoch(weft_trainer *t, const char *path, weft_error *error) {
    double saved = 0;
    weft_status status = path ? weft_store_get(t->store, path, &saved, sizeof saved, error) : WEFT_OK;
    t->first_epoch = saved >= 0 && saved < 0x1p53 ? (int64_t)saved : 0;
    t->has_begun = !status;
    return status;
}

/* What is in flight must have read the last number of the epoch before it changes. */
static weft_status show_epoch(weft_trainer *t, int64_t epoch, weft_error *error) {
    if (!epoch_path(t->store)) return WEFT_OK;
    weft_status status = weft_sync(t->session, error);
    return status ? status : weft_store_set_epoch(t->store, t->first_epoch + epoch, error);
}

weft_status trainer_next_epoch(weft_trainer *t, weft_error *error) {
    weft_status status = t->has_begun ? WEFT_OK : resume_epoch(t, epoch_path(t->store), error);
    if (status) return status;
    if (t->is_in_epoch) t->progress.epoch++;
    t->is_in_epoch = true;
    batches_epoch(&t->data, t->first_epoch + t->progress.epoch);
    t->begin = 0;
    return show_epoch(t, t->progress.epoch, error);
}

/* Whether the epoch has batches left for the next iteration. */
static bool has_room(const weft_trainer *t) {
    return t->is_in_epoch && flow_takes(t, t->progress.iteration) <= batches_count(&t->data) - t->begin;
}

/* Metrics, and sums over ranks that follow below, are the same on all ranks. */
static weft_status check_metrics(const weft_trainer *t, weft_error *error) {
    const weft_metrics *m = &t->progress.train;
    for (int i = 0; i < m->n; i++)
        if (!isfinite(m->list[i].value))
            return kit_fail(error, WEFT_DATA, "step %lld: %s is %g", (long long)t->progress.iteration,
                            m->list[i].name, isnan(m->list[i].value) ? NAN : m->list[i].value);
    return WEFT_OK;
}

/* Batches that this iteration took are samples of all ranks. */
static void count_samples(weft_trainer *t) {
    if (t->taken > t->most_taken) t->most_taken = t->taken;
    t->progress.train.samples = t->taken * t->data.rows;
    t->progress.samples += t->taken * t->data.rows;
    t->progress.iteration++;
}

/* What all ranks learn after an iteration whose metrics are due: means, and that one of them shall stop. */
static weft_status agree(weft_trainer *t, weft_error *error) {
    double stops = atomic_load(&t->is_stopped);
    int64_t samples = t->progress.train.samples;
    weft_status status = metrics_means(&t->metrics, t->options.comm, &stops, 1, &t->progress.train, error);
    t->progress.train.samples = samples;
    t->stops = stops > 0;
    return status;
}

/* Where it calls weft_run_update() by itself, a bad step is the error of that call. After a bad step that it
 * skips itself it continues with another run, whose errors are not bad steps. */
static weft_status run_own(weft_trainer *t, weft_error *error) {
    int64_t bad = weft_bad_steps(t->session);
    weft_status status = t->options.train_step(t, t->options.user, error);
    bool is_bad = weft_bad_steps(t->session) > bad && weft_bad_step(t->session);
    if (status != WEFT_DATA || !is_bad || t->failure.is_there) return status;
    status = step_failed(t, t->last_run, 0, true, error);
    if (!status) metrics_clear(&t->metrics);
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
    weft_status status = t->options.train_step ? run_own(t, error) : flow_run(t, error);
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
    weft_error own = {0};
    error = error ? error : &own;
    weft_status status = trainer_check_trains(t, error);
    if (!status) status = trainer_check_outside(t, "weft_trainer_train_step", error);
    if (status) return status;
    forget_error(t);
    if (!weft_trainer_session(t, error)) status = error->status;
    if (!status && !has_room(t)) status = trainer_next_epoch(t, error);
    if (!status) status = iterate(t, error);
    trainer_tell(t, status, error);
    if (!status && metrics) *metrics = t->progress.train;
    return status;
}

/* ---- an epoch's end ---- */

/* Whether every element of f32 entry `path` of the store is finite. What another rank holds counts as it. */
static weft_status look_at(const weft_trainer *t, const char *path, bool *is_finite, weft_error *error) {
    weft_dtype dtype;
    weft_error own = {0};
    int64_t shape[WEFT_MAX_NDIM], n = 1;
    int ndim = weft_store_shape(t->store, path, &dtype, shape);
    for (int i = 0; i < ndim; i++) n *= shape[i];
    if (ndim < 0 || dtype != WEFT_F32) return WEFT_OK;
    float *values = kit_new_array(t->env, (size_t)n, sizeof *values);
    if (!values) return kit_no_memory(error, "trainer");
    weft_status status = weft_store_get(t->store, path, values, (size_t)n * sizeof *values, &own);
    for (int64_t i = 0; !status && i < n; i++) *is_finite = *is_finite && isfinite(values[i]);
    kit_free_array(t->env, values, (size_t)n, sizeof *values);
    if (status && status != WEFT_ORDER) return kit_fail(error, status, "%s", own.text);
    return WEFT_OK;
}

/* A loss that is not among the outputs is not watched, but what it does to weights is seen here. Averages are
 * NaN until they begin; what they are of is looked at itself. */
weft_status trainer_check_weights(weft_trainer *t, weft_error *error) {
    double broken = 0;
    const char *first = NULL;
    weft_stored value;
    metrics none = {.env = t->env};
    weft_metrics ignored;
    weft_status status = weft_sync(t->session, error);
    for (int i = 0; !status && weft_store_at(t->store, i, &value); i++) {
        bool is_finite = true;
        if (value.kind != WEFT_STORED_AVERAGE) status = look_at(t, value.path, &is_finite, error);
        if (!is_finite && !first) first = value.path;
        broken += !is_finite;
    }
    if (!status) status = metrics_means(&none, t->options.comm, &broken, 1, &ignored, error);
    t->is_broken = broken > 0;
    if (status || !t->is_broken || t->options.keep_going) return status;
    t->is_common = true;
    return kit_fail(error, WEFT_DATA, "step %lld: %s is no longer finite", (long long)t->progress.iteration,
                    first ? first : "a tensor of another rank");
}

/* Hooks of an evaluation and of an epoch's end may have stopped the run: all ranks stop here, then. */
static weft_status agree_stop(weft_trainer *t, weft_error *error) {
    double stops = atomic_load(&t->is_stopped);
    weft_status status =
        t->progress.world > 1 ? ranks_sum(t->env, t->options.comm, 1, &stops, error) : WEFT_OK;
    t->stops = t->stops || stops > 0;
    return status;
}

static weft_status validate(weft_trainer *t, weft_error *error) {
    t->validated = t->progress.iteration;
    if (!t->has_val) return WEFT_OK;
    weft_status status = weft_sync(t->session, error); /* what is in flight is training */
    double start = trainer_clock();
    if (!status) status = weft_trainer_validate(t, NULL, error);
    t->val_seconds += trainer_clock() - start;
    t->is_of_validation = status != WEFT_OK;
    return status ? status : agree_stop(t, error);
}

static bool is_done(const weft_trainer *t) {
    const weft_progress *p = &t->progress;
    if (p->iterations && p->iteration >= p->iterations) return true;
    return t->options.epochs && p->epoch >= t->options.epochs;
}

/* Whether the present epoch is the run's last one. */
static bool is_last(const weft_trainer *t) {
    return is_done(t) || (t->options.epochs && t->progress.epoch + 1 >= t->options.epochs);
}

/* The last epoch of a run may be cut short. What is saved from here on has the number of the next one. */
static weft_status end_epoch(weft_trainer *t, bool is_whole, weft_error *error) {
    int64_t every = t->options.val_epochs ? t->options.val_epochs : 1;
    bool is_due = every > 0 && ((t->progress.epoch + 1) % every == 0 || is_last(t));
    weft_status status = trainer_check_weights(t, error);
    if (!status && is_due && t->validated != t->progress.iteration) status = validate(t, error);
    if (!status && is_whole) status = show_epoch(t, t->progress.epoch + 1, error);
    if (!status) status = hooks_call(t, WEFT_AFTER_EPOCH, error);
    if (!status) status = agree_stop(t, error);
    if (!status && is_whole) t->progress.epoch++, t->is_in_epoch = false;
    return status;
}

static weft_status begin_epoch(weft_trainer *t, weft_error *error) {
    weft_status status = trainer_next_epoch(t, error);
    return status ? status : hooks_call(t, WEFT_BEFORE_EPOCH, error);
}

weft_status trainer_cross_epoch(weft_trainer *t, weft_error *error) {
    if (!t->is_in_fit) return trainer_next_epoch(t, error);
    weft_status status = end_epoch(t, true, error);
    return status ? status : begin_epoch(t, error);
}

/* ---- the loop ---- */

/* An iteration and what follows it: hooks, a validation, the end of an epoch. */
static weft_status one(weft_trainer *t, weft_error *error) {
    weft_status status = WEFT_OK;
    int64_t every = t->options.val_iterations;
    if (t->is_in_epoch && !has_room(t))
        return end_epoch(t, true, error); /* what an error left, or single steps */
    if (!t->is_in_epoch) status = begin_epoch(t, error);
    if (!status) status = hooks_call(t, WEFT_BEFORE_ITERATION, error);
    if (!status) status = iterate(t, error);
    t->progress.seconds = t->seconds + (trainer_clock() - t->start);
    if (!status) status = hooks_call(t, WEFT_AFTER_ITERATION, error);
    t->stops = t->stops || (t->progress.world == 1 && atomic_load(&t->is_stopped)); /* by a hook */
    if (!status && t->fetches && !t->options.keep_going) {
        status = check_metrics(t, error);
        t->is_common = status != WEFT_OK;
    }
    if (!status && every > 0 && t->progress.iteration % every == 0) status = validate(t, error);
    if (!status && !has_room(t)) return end_epoch(t, true, error);
    if (!status && is_done(t)) return end_epoch(t, false, error);
    return !status && t->stops ? trainer_check_weights(t, error) : status; /* the epoch stays open */
}

weft_status weft_trainer_fit(weft_trainer *t, weft_error *error) {
    weft_error own = {0}, last = {0};
    error = error ? error : &own;
    weft_status status = trainer_check_trains(t, error);
    if (!status) status = trainer_check_outside(t, "weft_trainer_fit", error);
    if (status) return status;
    forget_error(t);
    if (!weft_trainer_session(t, error)) return trainer_tell(t, error->status, error);
    atomic_store(&t->is_stopped, false);
    t->stops = false;
    t->bad_in_row = 0;
    t->start = trainer_clock();
    t->seconds = t->progress.seconds;
    if ((status = checkpoints_begin(t, error)))
        return trainer_tell(t, status, error); /* no hook was called */
    status = hooks_call(t, WEFT_BEFORE_RUN, error);
    if (!status && t->checkpoints.is_resumed) status = agree_stop(t, error); /* what had stopped stays so */
    t->checkpoints.is_resumed = false;
    t->is_in_fit = true;
    while (!status && !t->stops && !is_done(t)) {
        status = one(t, error);
        if (!status) status = checkpoints_turn(t, error);
    }
    t->is_in_fit = false;
    trainer_tell(t, status, error);
    if (status)
        checkpoints_fail(t);
    else
        checkpoints_end(t);
    t->progress.seconds = t->seconds + (trainer_clock() - t->start);
    weft_status after = hooks_call(t, WEFT_AFTER_RUN, status ? &last : error);
    return status ? status : trainer_tell(t, after, error);
}

weft_status weft_trainer_check(const weft_trainer *t, weft_error *error) {
    weft_error own = {0};
    error = error ? error : &own;
    if (!t) return kit_fail(error, WEFT_ARGUMENT, "trainer: it is NULL");
    if (t->is_broken) return kit_fail(error, WEFT_DATA, "the weights are not finite");
    if (t->progress.skipped && !t->has_trained)
        return kit_fail(error, WEFT_DATA, "each step was a bad one and was skipped: nothing was trained");
    weft_status status = check_metrics(t, error);
    const weft_error *failure = &t->checkpoints.failure;
    if (!status && failure->status) status = kit_fail(error, failure->status, "%s", failure->text);
    return status ? status : hooks_check(t, error);
}

void weft_trainer_metrics_every(weft_trainer *t, int64_t every) {
    if (t) t->options.metrics_every = every;
}

/* Lock-free, so that a signal handler may call it. */
void weft_trainer_stop(weft_trainer *t) {
    if (t) atomic_store(&t->is_stopped, true);
}
