/* watch.c - see watch.h. */
#include "runtime/train/watch.h"

#include <math.h>
#include <string.h>

/* ---- before the first step ---- */

/* Names so far, with commas, cut where it is full. */
typedef struct names {
    const char *wanted;
    char text[400], near[160]; /* near: of all names the one that `wanted` is nearest to; "": none is */
    size_t n;
} names;

static void add_name(names *to, const char *name, const char *part) {
    char whole[sizeof to->near];
    snprintf(whole, sizeof whole, "%.80s%s%.70s", name, *part ? "/" : "", part);
    if (weft_nearest(to->wanted, *to->near ? to->near : NULL, whole) == whole)
        memcpy(to->near, whole, sizeof whole);
    if (to->n + 170 > sizeof to->text) return;
    to->n += (size_t)snprintf(to->text + to->n, sizeof to->text - to->n, "%s%.80s%s%.70s", to->n ? ", " : "",
                              name, *part ? "/" : "", part);
}

/* Whether the evaluator reports the metric; the names that it has for sure. */
static bool reports(const weft_evaluator *e, const char *metric, names *given) {
    bool is_there = false;
    size_t n = strlen(e->name);
    bool begins = strncmp(metric, e->name, n) == 0 && (!metric[n] || metric[n] == '/');
    const char *const *parts = evaluator_parts(e);
    if (!parts) add_name(given, e->name, "");
    if (!parts) return begins;
    for (int i = 0; parts[i]; i++) {
        add_name(given, e->name, parts[i]);
        is_there = is_there || (begins && strcmp(metric[n] ? metric + n + 1 : "", parts[i]) == 0);
    }
    return is_there;
}

weft_status watch_open(const watch *w, const char *hook, const weft_trainer *t, weft_error *error) {
    names given = {.wanted = w->name};
    bool is_there = false;
    if (!t->has_val)
        return kit_fail(error, WEFT_ORDER, "hook %s: without options.val no validation gives '%.80s'", hook,
                        w->name);
    for (int i = 0; i < t->val.metrics.n; i++) {
        add_name(&given, t->val.metrics.list[i].name, "");
        is_there = is_there || strcmp(t->val.metrics.list[i].name, w->name) == 0;
    }
    for (int i = 0; i < t->options.n_evaluators; i++)
        is_there = reports(&t->options.evaluators[i], w->name, &given) || is_there;
    if (is_there) return WEFT_OK;
    return kit_fail(error, WEFT_NAME, "hook %s: the validation gives no metric '%.80s'%s%s: %s", hook,
                    w->name, NEAR(*given.near ? given.near : NULL), *given.near ? " It gives" : "; it gives",
                    given.n ? given.text : "none");
}

/* ---- after a validation ---- */

static weft_status no_metric(const watch *w, const weft_metrics *m, weft_error *error) {
    names given = {.wanted = w->name};
    for (int i = 0; i < m->n; i++) add_name(&given, m->list[i].name, "");
    return kit_fail(error, WEFT_NAME, "the validation gives no metric '%.80s'%s%s: %s", w->name,
                    NEAR(*given.near ? given.near : NULL), *given.near ? " It gives" : "; it gives",
                    given.n ? given.text : "none");
}

weft_status watch_look(watch *w, const weft_trainer *t, double *value, bool *is_better, weft_error *error) {
    const weft_metrics *m = &t->progress.val;
    int at = 0;
    while (at < m->n && strcmp(m->list[at].name, w->name)) at++;
    if (at == m->n) return no_metric(w, m, error);
    *value = m->list[at].value;
    double best = !isnan(w->best) ? w->best : w->max ? -(double)INFINITY : (double)INFINITY;
    *is_better = w->max ? *value - w->min_delta > best : *value + w->min_delta < best;
    if (*is_better) w->best = *value;
    return WEFT_OK;
}
