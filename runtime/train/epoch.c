/* epoch.c - an epoch's begin and end: the number that schedules count, validations, and weights that are no
 * longer finite. */
#include "runtime/train/trainer.h"

#include <math.h>

/* ---- its number ---- */

/* The number of the epoch that a schedule counts, among its optimizer's state; NULL: none does. */
static const char *epoch_path(const weft_store *store) {
    weft_stored value;
    for (int i = 0; weft_store_at(store, i, &value); i++)
        if (value.kind == WEFT_STORED_EPOCH) return value.path;
    return NULL;
}

/* Epochs that had ended when the state that was loaded was saved: schedules and the order of samples continue
 * with the next one. */
static weft_status resume_epoch(weft_trainer *t, weft_error *error) {
    double saved = 0;
    const char *path = epoch_path(t->store);
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
    if (!t->has_begun && resume_epoch(t, error)) return error->status;
    if (t->is_in_epoch) t->progress.epoch++;
    t->is_in_epoch = true;
    batches_epoch(&t->data, t->first_epoch + t->progress.epoch);
    t->begin = 0;
    return show_epoch(t, t->progress.epoch, error);
}

/* ---- its end ---- */

/* Whether every element of f32 entry `path` of the store is finite. What another rank holds counts as it. */
static weft_status look_at(const weft_trainer *t, const char *path, bool *is_finite, weft_error *error) {
    weft_dtype dtype;
    weft_error own = {0};
    int64_t shape[WEFT_MAX_NDIM];
    int ndim = weft_store_shape(t->store, path, &dtype, shape);
    tensor type = tensor_of(dtype, ndim, shape);
    if (ndim < 0 || dtype != WEFT_F32) return WEFT_OK;
    kit_arena memory = kit_arena_of(t->env);
    float *values = kit_take_raw(&memory, tensor_bytes(&type), 1);
    if (!values) return kit_no_memory(error, "trainer");
    weft_status status = weft_store_get(t->store, path, values, tensor_bytes(&type), &own);
    for (int64_t i = 0; !status && i < tensor_elements(&type); i++)
        *is_finite = *is_finite && isfinite(values[i]);
    kit_release(memory);
    return status == WEFT_ORDER ? WEFT_OK : kit_pass(error, &own);
}

/* A loss that is not among the outputs is not watched, but what it does to weights is seen here. Averages are
 * NaN until they begin; what they are of is looked at itself. */
weft_status trainer_check_weights(weft_trainer *t, weft_error *error) {
    double broken = 0;
    const char *first = NULL;
    weft_stored value;
    if (weft_sync(t->session, error)) return error->status;
    for (int i = 0; weft_store_at(t->store, i, &value); i++) {
        bool is_finite = true;
        if (value.kind != WEFT_STORED_AVERAGE && look_at(t, value.path, &is_finite, error))
            return error->status;
        if (!is_finite && !first) first = value.path;
        broken += !is_finite;
    }
    weft_status status = ranks_sum(t->env, t->options.comm, 1, &broken, error);
    t->is_broken = broken > 0;
    if (status || !t->is_broken || t->options.keep_going) return status;
    t->is_common = true;
    return kit_fail(error, WEFT_DATA, "step %jd: %s is no longer finite", t->progress.iteration,
                    first ? first : "a tensor of another rank");
}

/* Hooks of an evaluation and of an epoch's end may have stopped the run: all ranks stop here, then. */
weft_status trainer_agree_stop(weft_trainer *t, weft_error *error) {
    double stops = atomic_load(&t->is_stopped);
    weft_status status = ranks_sum(t->env, t->options.comm, 1, &stops, error);
    t->stops = t->stops || stops > 0;
    return status;
}

weft_status epoch_validate(weft_trainer *t, weft_error *error) {
    t->validated = t->progress.iteration;
    if (!t->val.is_open) return WEFT_OK;
    weft_status status = weft_sync(t->session, error); /* what is in flight is training */
    double start = trainer_clock();
    if (!status) status = weft_trainer_validate(t, NULL, error);
    t->val_seconds += trainer_clock() - start;
    t->is_of_validation = status != WEFT_OK;
    return status ? status : trainer_agree_stop(t, error);
}

bool epoch_has_room(const weft_trainer *t) {
    return t->is_in_epoch && flow_takes(t, t->progress.iteration) <= batches_count(&t->data) - t->begin;
}

bool trainer_is_done(const weft_trainer *t) {
    const weft_progress *p = &t->progress;
    if (p->iterations && p->iteration >= p->iterations) return true;
    return t->options.epochs && p->epoch >= t->options.epochs;
}

/* Whether the present epoch is the run's last one. */
static bool is_last(const weft_trainer *t) {
    return trainer_is_done(t) || (t->options.epochs && t->progress.epoch + 1 >= t->options.epochs);
}

/* What is saved from here on has the number of the next one. */
weft_status epoch_end(weft_trainer *t, bool is_whole, weft_error *error) {
    int64_t every = t->options.val_epochs;
    bool is_due = every > 0 && ((t->progress.epoch + 1) % every == 0 || is_last(t));
    if (trainer_check_weights(t, error) ||
        (is_due && t->validated != t->progress.iteration && epoch_validate(t, error)) ||
        (is_whole && show_epoch(t, t->progress.epoch + 1, error)) || hooks_call(t, WEFT_AFTER_EPOCH, error) ||
        trainer_agree_stop(t, error))
        return error->status;
    if (is_whole) t->progress.epoch++, t->is_in_epoch = false;
    return WEFT_OK;
}

weft_status epoch_begin(weft_trainer *t, weft_error *error) {
    weft_status status = trainer_next_epoch(t, error);
    return status ? status : hooks_call(t, WEFT_BEFORE_EPOCH, error);
}

weft_status trainer_cross_epoch(weft_trainer *t, weft_error *error) {
    if (!t->is_in_fit) return trainer_next_epoch(t, error);
    weft_status status = epoch_end(t, true, error);
    return status ? status : epoch_begin(t, error);
}
