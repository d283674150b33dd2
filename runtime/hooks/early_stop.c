/* early_stop.c - stops when a metric of the validation no longer improves: the rules of Lightning's
 * EarlyStopping. */
#include "runtime/hooks/hook.h"
#include "runtime/train/watch.h"

#include <math.h>

typedef struct early_stop {
    kit_arena memory;
    watch watch;
    int patience;
    double waited; /* validations in a row without improvement: a whole number */
    weft_hook_number kept[2];
} early_stop;

static weft_status early_stop_at(void *self, weft_trainer *t, weft_hook_point point, weft_error *error) {
    early_stop *s = self;
    double value;
    bool is_better;
    bool has_stopped = point == WEFT_BEFORE_RUN && t->checkpoints.is_resumed && s->waited >= s->patience;
    if (has_stopped) weft_trainer_stop(t);
    if (point != WEFT_AFTER_VAL) return WEFT_OK;
    if (watch_look(&s->watch, t, &value, &is_better, error)) return error->status;
    s->waited = is_better ? 0 : s->waited + 1;
    if (s->waited >= s->patience || !isfinite(value)) weft_trainer_stop(t);
    return WEFT_OK;
}

static weft_status early_stop_open(void *self, weft_trainer *t, weft_error *error) {
    return watch_open(&((const early_stop *)self)->watch, "early stop", t, error);
}

weft_hook weft_hook_early_stop(const weft_early_stop *o) {
    if (!o || !o->metric) return hook_refused("early stop: a metric is needed");
    if (weft_reserved_check(o->reserved, sizeof o->reserved, "weft_early_stop", NULL))
        return hook_refused("early stop: `reserved` is not 0");
    if (o->patience < 0) return hook_refused("early stop: patience must not be negative");
    if (!(o->min_delta >= 0)) return hook_refused("early stop: min_delta must be 0 or more");
    early_stop *s = kit_object(NULL, sizeof *s);
    if (!s) return hook_refused(NULL);
    s->watch = (watch){
        .name = kit_copy(&s->memory, o->metric), .max = o->max, .min_delta = o->min_delta, .best = NAN};
    s->patience = o->patience ? o->patience : 3;
    s->kept[0] =
        (weft_hook_number){s->watch.name, &s->watch.best}; /* of this metric: another one begins again */
    s->kept[1] = (weft_hook_number){"waited", &s->waited};
    return hook_made((weft_hook){.name = "early stop",
                                 .open = early_stop_open,
                                 .at = early_stop_at,
                                 .free = kit_free,
                                 .self = s,
                                 .n_kept = 2,
                                 .kept = s->kept});
}
