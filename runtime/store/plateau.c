/* plateau.c - learning rates in a store: what they are, and weft_plateau, the rules of
 * torch.optim.lr_scheduler.ReduceLROnPlateau. */
#include "weft/plateau.h"

#include "runtime/plan/program.h"
#include "runtime/store/store.h"

#include "graph/core/error.h"
#include "graph/settings/schedule.h"
#include "weft/train.h"

#include <math.h>
#include <string.h>

static double number(double v, double otherwise) {
    return v == WEFT_ZERO ? 0 : v == 0 ? otherwise : v;
}

static const char *broken(const weft_plateau *p) {
    double factor = number(p->factor, 0.1);
    if (!(factor >= 0 && factor < 1)) return "factor must be from 0 to below 1";
    if (p->cooldown < 0) return "cooldown must not be negative";
    if (!(number(p->threshold, 1e-4) >= 0)) return "threshold must not be negative";
    if (!(p->min_lr >= 0)) return "min_lr must not be negative";
    return number(p->eps, 1e-8) >= 0 ? NULL : "eps must not be negative";
}

/* A NaN is not better than anything. */
static bool is_better(const weft_plateau *p, double metric) {
    double threshold = number(p->threshold, 1e-4);
    if (!p->has_best) return p->max ? metric > -INFINITY : metric < INFINITY;
    if (p->max) return metric > (p->absolute ? p->best + threshold : p->best * (threshold + 1));
    return metric < (p->absolute ? p->best - threshold : p->best * (1 - threshold));
}

/* Whether the rates fall now. */
static bool count(weft_plateau *p, double metric) {
    bool better = is_better(p, metric);
    if (better) {
        p->best = metric;
        p->has_best = true;
    }
    p->bad = better ? 0 : p->bad + 1;
    if (p->cooling > 0) {
        p->cooling--;
        p->bad = 0;
    }
    if (p->bad <= (p->patience < 0 ? 0 : p->patience ? p->patience : 10)) return false;
    p->cooling = p->cooldown;
    p->bad = 0;
    return true;
}

static weft_status lower(const weft_plateau *p, weft_store *store, const char *path, const char *name,
                         weft_error *error) {
    double lr, lower;
    weft_status status = weft_store_get(store, path, &lr, sizeof lr, error);
    if (status) return status;
    lower = fmax(lr * number(p->factor, 0.1), p->min_lr);
    return lr - lower > number(p->eps, 1e-8) ? weft_store_set_lr(store, name, lower, error) : WEFT_OK;
}

/* The rates of all optimizers that are asked for. */
static weft_status lower_all(const weft_plateau *p, weft_store *store, const char *optimizer, bool falls,
                             weft_error *error) {
    weft_stored value;
    int matched = 0;
    for (int i = 0; weft_store_at(store, i, &value); i++) {
        if (value.kind != WEFT_STORED_LR || (optimizer && strcmp(value.of, optimizer))) continue;
        matched++;
        weft_status status = falls ? lower(p, store, value.path, value.of, error) : WEFT_OK;
        if (status) return status;
    }
    return matched ? WEFT_OK
                   : error_set(error, WEFT_NAME, "plateau: there is no optimizer '%s'", SHOW(optimizer));
}

weft_status weft_plateau_step(weft_plateau *p, weft_store *store, const char *optimizer, double metric,
                              weft_error *error) {
    if (!p || !store) return error_set(error, WEFT_ARGUMENT, "plateau: a plateau and a store are needed");
    if (reserved_check(p->reserved, sizeof p->reserved, "weft_plateau", error)) return WEFT_ARGUMENT;
    const char *why = broken(p);
    if (why) return error_set(error, WEFT_ARGUMENT, "plateau: %s", why);
    return lower_all(p, store, optimizer, count(p, metric), error);
}

/* ---- what they are ---- */

/* Also while a deferred part is pending: it may read these numbers, and never writes them (deferred.c). */
static bool read_number(const weft_store *store, const weft_variable *v, double *into) {
    const store_part *e;
    weft_error ignored;
    int i = 0;
    while ((e = store_part_at(store, i)) && strcmp(e->path, v->path)) i++;
    return e && e->type.ndim == 0 && e->type.dtype == WEFT_F64 &&
           !store_read(store, e, 0, into, sizeof *into, &ignored);
}

/* Optimizer `index` of those that have a rate; NULL: there are fewer. */
static const optimizer_entry *nth_with_rate(const weft_plan *plan, int index) {
    for (int i = 0; i < plan->n_optimizers; i++)
        if (plan->optimizers[i].lr && index-- == 0) return &plan->optimizers[i];
    return NULL;
}

/* The last update's count is one less than the steps that are done. */
bool weft_store_lr(const weft_plan *plan, const weft_store *store, int index, const char **optimizer,
                   double *lr) {
    weft_schedule parts[WEFT_MAX_SCHEDULES] = {{0}};
    char why[SCHEDULE_WHY];
    double steps, epoch = 0;
    const optimizer_entry *o = plan && store && lr && index >= 0 ? nth_with_rate(plan, index) : NULL;
    if (!o) return false;
    if (optimizer) *optimizer = o->name;
    if (!read_number(store, o->lr, lr) || !read_number(store, o->step, &steps)) return false;
    if (o->epoch && !read_number(store, o->epoch, &epoch)) return false;
    if (!o->schedule) return true;
    if (!schedules_parse(o->schedule, parts, why)) return false;
    *lr *= weft_schedule_factor(parts, WEFT_SCHEDULED_LR, steps > 0 ? (int64_t)steps - 1 : 0, (int64_t)epoch);
    return true;
}
