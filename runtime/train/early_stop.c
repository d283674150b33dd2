/* early_stop.c - stops when a metric of the validation no longer improves: the rules of Lightning's
 * EarlyStopping. */
#include "runtime/train/watch.h"

#include <math.h>

typedef struct early_stop {
    watch watch;
    int patience;
    double waited; /* validations in a row without improvement: a whole number */
    weft_kept kept[2];
} early_stop;

weft_status early_stop_at(void *self, weft_trainer *t, weft_point point, weft_error *error) {
    early_stop *s = self;
    double value;
    bool is_better;
    bool has_stopped = point == WEFT_BEFORE_RUN && t->checkpoints.is_resumed && s->waited >= s->patience;
    if (has_stopped) weft_trainer_stop(t);
    if (point != WEFT_AFTER_VAL) return WEFT_OK;
    weft_status status = watch_look(&s->watch, t, &value, &is_better, error);
    if (status) return status;
    s->waited = is_better ? 0 : s->waited + 1;
    if (s->waited >= s->patience || !isfinite(value)) weft_trainer_stop(t);
    return WEFT_OK;
}

weft_status early_stop_open(void *self, const weft_trainer *t, weft_error *error) {
    return watch_open(&((const early_stop *)self)->watch, "early stop", t, error);
}

static void stop_free(void *self) {
    early_stop *s = self;
    hook_free_copy(s->watch.name);
    weft_memory_free(NULL, s, sizeof *s);
}

weft_hook weft_hook_early_stop(const weft_early_stop *o) {
    if (!o || !o->metric) return hook_refused("early stop: a metric is needed");
    if (o->patience < 0) return hook_refused("early stop: patience must not be negative");
    if (!(o->min_delta >= 0)) return hook_refused("early stop: min_delta must be 0 or more");
    early_stop *s = kit_new(NULL, sizeof *s);
    if (!s) return hook_refused(NULL);
    s->watch = (watch){.max = o->max, .min_delta = o->min_delta, .best = NAN};
    s->kept[1] = (weft_kept){"waited", &s->waited};
    s->patience = o->patience ? o->patience : 3;
    bool is_complete = hook_copy(&s->watch.name, o->metric);
    s->kept[0] = (weft_kept){s->watch.name, &s->watch.best}; /* of this metric: another one begins anew */
    if (is_complete)
        return (weft_hook){.name = "early stop",
                           .at = early_stop_at,
                           .free = stop_free,
                           .self = s,
                           .n_kept = 2,
                           .kept = s->kept};
    stop_free(s);
    return hook_refused(NULL);
}
