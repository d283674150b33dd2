/* best.c - keeps the weights of the best validation so far. */
#include "runtime/train/watch.h"

typedef struct best_weights {
    watch watch;
    const char *path;
    bool optimizer_state;
} best_weights;

static weft_status best_at(void *self, weft_trainer *t, weft_point point, weft_error *error) {
    best_weights *b = self;
    double value;
    bool is_better = false;
    if (point != WEFT_AFTER_VAL) return WEFT_OK;
    weft_status status = watch_look(&b->watch, t, &value, &is_better, error);
    if (status || !is_better) return status;
    return b->optimizer_state ? weft_trainer_save(t, b->path, true, error)
                              : trainer_save_validated(t, b->path, error);
}

static void best_free(void *self) {
    weft_memory_free(NULL, self, sizeof(best_weights));
}

weft_hook weft_hook_best(const weft_best *o) {
    best_weights *b = o && o->metric && o->path ? kit_new(NULL, sizeof *b) : NULL;
    if (!b) return (weft_hook){.name = "best"};
    b->watch = (watch){.name = o->metric, .max = o->max};
    b->path = o->path;
    b->optimizer_state = o->optimizer_state;
    return (weft_hook){"best", best_at, best_free, NULL, b};
}
