/* best.c - keeps the weights of the best validation so far. */
#include "runtime/hooks/hook.h"
#include "runtime/train/watch.h"

#include <math.h>

typedef struct best_weights {
    kit_arena memory;
    watch watch;
    char *path;
    bool optimizer_state;
    weft_hook_number kept;
} best_weights;

static weft_status best_at(void *self, weft_trainer *t, weft_hook_point point, weft_error *error) {
    best_weights *b = self;
    double value;
    bool is_better = false;
    if (point != WEFT_AFTER_VAL) return WEFT_OK;
    weft_status status = watch_look(&b->watch, t, &value, &is_better, error);
    if (status || !is_better) return status;
    return b->optimizer_state ? weft_trainer_save(t, b->path, true, error)
                              : trainer_save_validated(t, b->path, error);
}

static weft_status best_open(void *self, weft_trainer *t, weft_error *error) {
    const best_weights *b = self;
    weft_status status = watch_open(&b->watch, "best", t, error);
    return status ? status : hook_check_folder(t, "best", b->path, error);
}

weft_hook weft_hook_best(const weft_best *o) {
    if (!o || !o->metric || !o->path) return hook_refused("best: a metric and a path are needed");
    if (weft_reserved_check(o->reserved, sizeof o->reserved, "weft_best", NULL))
        return hook_refused("best: `reserved` is not 0");
    best_weights *b = kit_object(NULL, sizeof *b);
    if (!b) return hook_refused(NULL);
    b->watch = (watch){.name = kit_copy(&b->memory, o->metric), .max = o->max, .best = NAN};
    b->path = kit_copy(&b->memory, o->path);
    b->optimizer_state = o->optimizer_state;
    /* of this metric: another one begins again */
    b->kept = (weft_hook_number){b->watch.name, &b->watch.best};
    return hook_made((weft_hook){.name = "best",
                                 .open = best_open,
                                 .at = best_at,
                                 .free = kit_free,
                                 .self = b,
                                 .n_kept = 1,
                                 .kept = &b->kept});
}
