/* log_tensorboard.c - every interval, validation and test as scalars of an event file. */
#include "runtime/train/event_file.h"

typedef struct events_log {
    event_file events;
    interval interval;
    log_values values;
} events_log;

static weft_status events_at(void *self, weft_trainer *t, weft_point point, weft_error *error) {
    events_log *l = self;
    const char *phase;
    const weft_progress *p = weft_trainer_progress(t);
    if (p->rank) return WEFT_OK;
    weft_status status = event_file_open(&l->events, t->env, error);
    if (status) return status;
    if (interval_line(&l->interval, t, point, &phase, &l->values))
        event_file_scalars(&l->events, p->iteration, phase, &l->values);
    if (point == WEFT_AFTER_RUN || point == WEFT_AFTER_TEST) log_file_sync(&l->events.file, p->iteration);
    return WEFT_OK;
}

static weft_status events_check(void *self, weft_error *error) {
    const events_log *l = self;
    weft_status status = log_file_check(&l->events.file, error);
    return status ? status : log_values_check(&l->values, error);
}

static void events_free(void *self) {
    events_log *l = self;
    event_file_free(&l->events);
    interval_free(&l->interval, &l->values);
    weft_memory_free(NULL, l, sizeof *l);
}

weft_hook weft_hook_tensorboard(const char *folder, int64_t every) {
    if (!folder) return hook_refused("tensorboard: a folder is needed");
    events_log *l = kit_new(NULL, sizeof *l);
    if (!l) return hook_refused(NULL);
    l->interval.every = every;
    if (event_file_new(&l->events, folder))
        return (weft_hook){"tensorboard", events_at, events_free, events_check, l};
    events_free(l);
    return hook_refused(NULL);
}
