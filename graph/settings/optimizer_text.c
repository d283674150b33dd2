/* optimizer_text.c - weft_model_set_optimizer: settings of a model's optimizers, changed by text. A
 * `minimize` node keeps them as attributes, all filled in; so a change is a new value of an attribute,
 * which holds the rules that it held when the node was made. Calls that share an optimizer are changed
 * together, as they must agree. */
#include "graph/settings/minimize.h"
#include "graph/core/nearest.h"
#include "graph/core/words.h"
#include "graph/settings/schedule.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool fail(weft_node *n, const char *what, const char *why) {
    const minimize_attrs *a = n->attrs;
    return model_fail(n->graph->model, NULL, WEFT_ARGUMENT, "optimizer %s: %s%s%s", SHOW(a->name), what,
                      *what ? ": " : "", why);
}

/* ---- which nodes ---- */

/* The next `minimize` node after n; NULL begins, and ends. */
static weft_node *next_training(const weft_model *m, weft_node *n) {
    const weft_graph *g = n ? n->graph : m->graphs;
    for (n = n ? n->next : g ? g->first : NULL;; n = g->first) {
        while (n && n->op != &weft_op_minimize) n = n->next;
        if (n || !g || !(g = g->next)) return n;
    }
}

/* "" is for all that do not follow a value. */
static bool is_among_all(const weft_model *m, const char *own) {
    for (weft_node *n = NULL; (n = next_training(m, n));)
        if (strcmp(((const minimize_attrs *)n->attrs)->name, own) == 0) return !minimize_follows(n);
    return true;
}

/* By its own name, or by the pattern of a call that has it where no optimizer has that name. */
bool optimizer_is_meant(const weft_model *m, const char *own, const char *name) {
    bool is_name = false, is_pattern = false;
    if (!*name) return is_among_all(m, own);
    for (weft_node *n = NULL; (n = next_training(m, n));) {
        const minimize_attrs *a = n->attrs;
        is_name |= strcmp(a->name, name) == 0;
        is_pattern |= strcmp(a->name, own) == 0 && strcmp(a->pattern ? a->pattern : "", name) == 0;
    }
    return is_name ? strcmp(own, name) == 0 : is_pattern;
}

/* Records which optimizers there are. */
static void say_unknown(weft_model *m, const char *name) {
    text known = {0};
    nearest near = nearest_to(name, strlen(name));
    if (!*name) {
        model_fail(m, NULL, WEFT_NAME, "the model has no optimizer that settings for all are for");
        return;
    }
    for (weft_node *n = NULL; (n = next_training(m, n));) {
        const minimize_attrs *a = n->attrs;
        text_add(&known, "%s%s", known.length ? ", " : "", a->name);
        nearest_try(&near, a->name);
        nearest_try_as(&near, a->type, a->name);
        if (a->pattern && *a->pattern) nearest_try(&near, a->pattern);
    }
    char *all = text_detach(&known);
    bool trains = all && *all;
    near_text ask = nearest_ask(&near);
    model_fail(m, NULL, WEFT_NAME, "the model has no optimizer '%s'%s%s%s", SHOW(name), ask.question,
               trains ? ask.it_has : "; none of its graphs trains", trains ? all : "");
    free(all);
}

/* ---- one node ---- */

static bool numbers_hold(weft_node *n, const minimize_attrs *changed) {
    const minimize_attrs *a = n->attrs;
    const optimizer_kind *kind = optimizer_find(n->graph->model, a->type);
    char why[120];
    for (const optimizer_setting *f = optimizer_settings; f->name; f++) {
        if (f->is_count) continue; /* attrs_check has its range */
        double old = *(const double *)((const char *)a + f->to);
        double value = *(const double *)((const char *)changed + f->to);
        if (value == old) continue;
        if (!optimizer_has(kind, f)) {
            snprintf(why, sizeof why, "%s has none", a->type);
            return fail(n, f->name, why);
        }
        if (value >= 0 && value <= f->most) continue;
        snprintf(why, sizeof why, "%g: it must be from 0 to %g", value, f->most);
        return fail(n, f->name, why);
    }
    return true;
}

/* Writes the defaults into the schedule, as weft_minimize does. */
static bool schedule_fill(weft_node *n, minimize_attrs *changed) {
    const minimize_attrs *a = n->attrs;
    weft_schedule parts[WEFT_MAX_SCHEDULES];
    char why[SCHEDULE_WHY];
    text t = {0};
    if (changed->schedule == a->schedule) return true;
    if (!schedules_parse(changed->schedule, parts, why) || !schedules_fill(parts, why))
        return fail(n, "", why);
    schedules_write(&t, parts);
    char *filled = text_detach(&t);
    changed->schedule = filled && *filled ? arena_copy(&n->graph->model->arena, filled) : NULL;
    bool good = filled && (!*filled || changed->schedule);
    free(filled);
    return good || model_fail(n->graph->model, NULL, WEFT_MEMORY, "optimizer: out of memory");
}

/* Names that are not settings: those that other libraries have for one of ours, none of which is near; and,
 * with NULL, what a text may not change: what is trained, and by which optimizer. */
static const char *const elsewhere[][2] = {
    {"pattern", NULL},
    {"type", NULL},
    {"name", NULL},
    {"groups", NULL},
    {"learning_rate", "lr"},
    {"rate", "lr"},
    {"wd", "weight_decay"},
    {"decay", "weight_decay"},
    {"epsilon", "eps"},
    {"betas", "beta1 and beta2"},
    {"grad_clip", "clip_norm"},
    {"max_norm", "clip_norm"},
    {"max_grad_norm", "clip_norm"},
    {"ema_decay", "ema"},
    {"scheduler", "schedule"},
    {"lr_scheduler", "schedule"},
};

/* Whether a field of the settings is one of these: *known is its row. A ',' in quotation marks divides
 * none. */
static bool is_elsewhere(const char *at, const char *const **known) {
    enum { NAMES = sizeof elsewhere / sizeof *elsewhere };
    while (*(at += strspn(at, " ,\t\n"))) {
        size_t n = strcspn(at, "=, \t\n");
        for (*known = elsewhere[0]; *known < elsewhere[0] + 2 * NAMES; *known += 2)
            if (word_is(**known, at, n)) return true;
        bool is_quoted = false;
        for (; *at && (is_quoted || *at != ','); at++) is_quoted ^= *at == '"';
    }
    return false;
}

/* Reads the text over the node's settings, and keeps them where all rules hold. */
static bool change(weft_node *n, const char *settings) {
    static const char between[] = " ,\t\n";
    minimize_attrs *a = n->attrs, old = *a, changed = *a;
    char why[200];
    const char *at = settings, *const * known;
    if (is_elsewhere(settings, &known)) {
        snprintf(why, sizeof why, "did you mean %s?", known[1] ? known[1] : "");
        return fail(n, known[0], known[1] ? why : "it is the model's: a text cannot change it");
    }
    if (!attrs_change(&at, between, &weft_op_minimize, &changed, &n->graph->model->arena, why))
        return fail(n, "", why);
    at += strspn(at, between);
    if (*at) return fail(n, SHOW(at), "NAME=VALUE is expected there");
    if (!numbers_hold(n, &changed) || !schedule_fill(n, &changed)) return false;
    if (attrs_check(&weft_op_minimize, &changed, why)) return fail(n, "", why);
    *a = changed;
    if (node_retype(n)) return true;
    *a = old;
    return false;
}

weft_status weft_model_set_optimizer(weft_model *m, const char *name, const char *settings) {
    if (!m) return WEFT_ARGUMENT;
    if (!settings)
        model_fail(m, NULL, WEFT_ARGUMENT, "optimizer: settings are needed, as in \"clip_norm=1\"");
    if (!name) name = "";
    int meant = 0;
    for (weft_node *n = NULL; model_ok(m) && (n = next_training(m, n));) {
        const minimize_attrs *a = n->attrs;
        if (*name ? !optimizer_is_meant(m, a->name, name) : minimize_follows(n)) continue;
        meant++;
        if (!change(n, settings)) break;
    }
    if (model_ok(m) && !meant) say_unknown(m, name);
    return m->error.status;
}
