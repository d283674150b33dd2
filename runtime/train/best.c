/* best.c - keeps the weights of the best validation so far. */
#include "runtime/train/watch.h"

#include <math.h>

typedef struct best_weights {
    watch watch;
    char *path;
    bool optimizer_state;
    weft_kept kept;
} best_weights;

weft_status best_at(void *self, weft_trainer *t, weft_point point, weft_error *error) {
    best_weights *b = self;
    double value;
    bool is_better = false;
    if (point != WEFT_AFTER_VAL) return WEFT_OK;
    weft_status status = watch_look(&b->watch, t, &value, &is_better, error);
    if (status || !is_better) return status;
    return b->optimizer_state ? weft_trainer_save(t, b->path, true, error)
                              : trainer_save_validated(t, b->path, error);
}

weft_status best_open(void *self, const weft_trainer *t, weft_error *error) {
    const best_weights *b = self;
    weft_status status = watch_open(&b->watch, "best", t, error);
    return status ? status : hook_check_folder(t, "best", b->path, error);
}

static void best_free(void *self) {
    best_weights *b = self;
    hook_free_copy(b->watch.name);
    hook_free_copy(b->path);
    weft_memory_free(NULL, b, sizeof *b);
}

weft_hook weft_hook_best(const weft_best *o) {
    if (!o || !o->metric || !o->path) return hook_refused("best: a metric and a path are needed");
    best_weights *b = kit_new(NULL, sizeof *b);
    if (!b) return hook_refused(NULL);
    b->watch = (watch){.max = o->max, .best = NAN};

    b->optimizer_state = o->optimizer_state;
    bool is_complete = hook_copy(&b->watch.name, o->metric) && hook_copy(&b->path, o->path);
    b->kept = (weft_kept){b->watch.name, &b->watch.best}; /* of this metric: another one begins anew */
    if (is_complete)
        return (weft_hook){
            .name = "best", .at = best_at, .free = best_free, .self = b, .n_kept = 1, .kept = &b->kept};
    best_free(b);
    return hook_refused(NULL);
}
