/* plateau.c - lowers learning rates when a metric of the validation no longer improves: weft_plateau_step()
 * after each validation. */
#include "runtime/hooks/hook.h"
#include "runtime/train/watch.h"
#include "weft/plateau.h"

#include <math.h>

enum { BEST, BAD, COOLING, STATES };

typedef struct plateau {
    kit_arena memory;
    watch watch;
    weft_plateau rules;
    char *optimizer;      /* NULL: all */
    double state[STATES]; /* that of the rules, as checkpoints keep it; best is NaN until there is one */
    weft_hook_number kept[STATES];
} plateau;

static void state_get(plateau *p) {
    const weft_plateau *r = &p->rules;
    p->state[BEST] = r->has_best ? r->best : (double)NAN;
    p->state[BAD] = r->bad;
    p->state[COOLING] = r->cooling;
}

/* A note of a checkpoint may be any number. */
static int count_of(double value) {
    return value >= 0 && value <= 1e9 ? (int)value : 0;
}

static void state_put(plateau *p) {
    weft_plateau *r = &p->rules;
    r->has_best = !isnan(p->state[BEST]);
    r->best = r->has_best ? p->state[BEST] : 0;
    r->bad = count_of(p->state[BAD]);
    r->cooling = count_of(p->state[COOLING]);
}

static weft_status plateau_at(void *self, weft_trainer *t, weft_hook_point point, weft_error *error) {
    plateau *p = self;
    double value;
    bool is_better;
    if (point != WEFT_AFTER_VAL) return WEFT_OK;
    weft_status status = watch_look(&p->watch, t, &value, &is_better, error);
    state_put(p);
    if (!status) status = weft_plateau_step(&p->rules, t->store, p->optimizer, value, error);
    state_get(p);
    return status;
}

/* A step of rules without a state lowers nothing: its metric is the best so far. */
static weft_status plateau_open(void *self, weft_trainer *t, weft_error *error) {
    const plateau *p = self;
    weft_plateau first = p->rules;
    first.has_best = false, first.bad = 0;
    weft_status status = watch_open(&p->watch, "plateau", t, error);
    return status ? status : weft_plateau_step(&first, t->store, p->optimizer, 0, error);
}

weft_hook weft_hook_plateau(const char *metric, const char *optimizer, const weft_plateau *rules) {
    if (!metric) return hook_refused("plateau: a metric is needed");
    plateau *p = kit_object(NULL, sizeof *p);
    if (!p) return hook_refused(NULL);
    if (rules) p->rules = *rules;
    p->watch.name = kit_copy(&p->memory, metric);
    p->optimizer = kit_copy(&p->memory, optimizer);
    state_get(p);
    p->kept[BEST] =
        (weft_hook_number){p->watch.name, &p->state[BEST]}; /* of this metric: another one begins again */
    p->kept[BAD] = (weft_hook_number){"bad", &p->state[BAD]};
    p->kept[COOLING] = (weft_hook_number){"cooling", &p->state[COOLING]};
    return hook_made((weft_hook){.name = "plateau",
                                 .open = plateau_open,
                                 .at = plateau_at,
                                 .free = kit_free,
                                 .self = p,
                                 .n_kept = STATES,
                                 .kept = p->kept});
}
