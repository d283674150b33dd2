/* early_stop.c - stops when a metric of the validation no longer improves: the rules of Lightning's
 * EarlyStopping. */
#include "runtime/train/watch.h"

#include <math.h>

typedef struct early_stop {
    watch watch;
    int patience, waited; /* validations in a row without improvement */
} early_stop;

static weft_status stop_at(void *self, weft_trainer *t, weft_point point, weft_error *error) {
    early_stop *s = self;
    double value;
    bool is_better;
    if (point != WEFT_AFTER_VAL) return WEFT_OK;
    weft_status status = watch_look(&s->watch, t, &value, &is_better, error);
    if (status) return status;
    s->waited = is_better ? 0 : s->waited + 1;
    if (s->waited >= s->patience || !isfinite(value)) weft_trainer_stop(t);
    return WEFT_OK;
}

static void stop_free(void *self) {
    weft_memory_free(NULL, self, sizeof(early_stop));
}

weft_hook weft_hook_early_stop(const weft_early_stop *o) {
    bool is_good = o && o->metric && o->patience >= 0 && o->min_delta >= 0;
    early_stop *s = is_good ? kit_new(NULL, sizeof *s) : NULL;
    if (!s) return (weft_hook){.name = "early stop"};
    s->watch = (watch){.name = o->metric, .max = o->max, .min_delta = o->min_delta};
    s->patience = o->patience ? o->patience : 3;
    return (weft_hook){"early stop", stop_at, stop_free, NULL, s};
}
