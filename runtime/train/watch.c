/* watch.c - see watch.h. */
#include "runtime/train/watch.h"

#include <math.h>

/* ---- names ---- */

/* Metrics that there are. */
typedef struct names {
    const char *wanted;
    bool is_there;  /* the one that is wanted */
    char near[160]; /* of all names the one that `wanted` is nearest to; "": none is */
    kit_line list;  /* with commas */
} names;

static void add_name(names *to, const char *name, const char *part) {
    char whole[sizeof to->near];
    snprintf(whole, sizeof whole, "%.80s%s%.70s", name, *part ? "/" : "", part);
    to->is_there = to->is_there || strcmp(whole, to->wanted) == 0;
    if (weft_nearest(to->wanted, *to->near ? to->near : NULL, whole) == whole)
        memcpy(to->near, whole, sizeof whole);
    kit_add(&to->list, "%s%s", to->list.length ? ", " : "", whole);
}

static weft_status no_metric(const names *given, const char *head, weft_error *error) {
    return kit_fail(error, WEFT_NAME, "%sthe validation gives no metric '%.80s'%s%s: %.400s", head,
                    given->wanted, NEAR(*given->near ? given->near : NULL),
                    *given->near ? " It gives" : "; it gives",
                    given->list.length ? given->list.text : "none");
}

/* ---- before the first step ---- */

/* What the evaluator reports; where nobody knows, anything that begins with its name. */
static void add_reports(names *to, const weft_evaluator *e) {
    size_t n = strlen(e->name);
    bool begins = strncmp(to->wanted, e->name, n) == 0 && (!to->wanted[n] || to->wanted[n] == '/');
    for (int i = 0; e->parts && e->parts[i]; i++) add_name(to, e->name, e->parts[i]);
    if (e->parts) return;
    add_name(to, e->name, "");
    to->is_there = to->is_there || begins;
}

weft_status watch_open(const watch *w, const char *hook, const weft_trainer *t, weft_error *error) {
    names given = {.wanted = w->name};
    char head[100];
    if (!t->val.is_open)
        return kit_fail(error, WEFT_ORDER, "hook %s: without options.val no validation gives '%.80s'", hook,
                        w->name);
    for (int i = 0; i < t->val.metrics.n; i++) add_name(&given, t->val.metrics.list[i].name, "");
    for (int i = 0; i < t->options.n_evaluators; i++) add_reports(&given, &t->options.evaluators[i]);
    snprintf(head, sizeof head, "hook %s: ", hook);
    return given.is_there ? WEFT_OK : no_metric(&given, head, error);
}

/* ---- after a validation ---- */

weft_status watch_look(watch *w, const weft_trainer *t, double *value, bool *is_better, weft_error *error) {
    const weft_metrics *m = &t->progress.val;
    names given = {.wanted = w->name};
    int at = 0;
    for (; at < m->n && strcmp(m->list[at].name, w->name); at++) add_name(&given, m->list[at].name, "");
    if (at == m->n) return no_metric(&given, "", error);
    *value = m->list[at].value;
    double best = !isnan(w->best) ? w->best : w->max ? -(double)INFINITY : (double)INFINITY;
    *is_better = w->max ? *value - w->min_delta > best : *value + w->min_delta < best;
    if (*is_better) w->best = *value;
    return WEFT_OK;
}
