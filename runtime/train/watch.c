/* watch.c - see watch.h. */
#include "runtime/train/watch.h"

#include <math.h>
#include <string.h>

static weft_status no_metric(const watch *w, const weft_metrics *m, weft_error *error) {
    char names[400] = "";
    size_t at = 0;
    for (int i = 0; i < m->n && at + 90 < sizeof names; i++)
        at += (size_t)snprintf(names + at, sizeof names - at, "%s%.80s", at ? ", " : "", m->list[i].name);
    return kit_fail(error, WEFT_NAME, "the validation gives no metric '%.80s'; it gives: %s", w->name,
                    names[0] ? names : "none");
}

weft_status watch_look(watch *w, const weft_trainer *t, double *value, bool *is_better, weft_error *error) {
    const weft_metrics *m = &t->progress.val;
    int at = 0;
    while (at < m->n && strcmp(m->list[at].name, w->name)) at++;
    if (at == m->n) return no_metric(w, m, error);
    *value = m->list[at].value;
    double best = w->has_best ? w->best : w->max ? -(double)INFINITY : (double)INFINITY;
    *is_better = w->max ? *value - w->min_delta > best : *value + w->min_delta < best;
    if (*is_better) w->best = *value, w->has_best = true;
    return WEFT_OK;
}
