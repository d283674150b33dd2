/* minimize_settings.c - weft_minimize: turns a weft_optimizer into a `minimize` node, with defaults filled
 * in.
 *
 * It checks every field by graph/settings/minimize_list.h: 0 means the field's default and WEFT_ZERO a true
 * 0. Other negative numbers are errors, and so are fields that the optimizer or the schedule does not have,
 * because a setting without effect is a training that silently goes wrong. Files and dumps hold the result,
 * so later defaults do not change them. */
#include "graph/settings/minimize.h"

#include "graph/settings/schedule.h"

#include <float.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- one field ---- */

/* The default of the setting for this optimizer. */
static double fallback_of(const optimizer_kind *kind, const optimizer_setting *s) {
    for (int i = 0; kind->defaults[i].name; i++)
        if (strcmp(kind->defaults[i].name, s->name) == 0) return kind->defaults[i].value;
    return s->fallback;
}

/* Resolves 0 and WEFT_ZERO in a number of the caller's and checks its range, from 0 to `most`. */
static bool number_read(weft_graph *g, const char *what, double value, double fallback, double most,
                        bool has_zero, double *into) {
    bool is_zero = value == WEFT_ZERO && has_zero;
    *into = is_zero ? 0 : value == 0 ? fallback : value;
    if (*into >= 0 && *into <= most) return true;
    if (!has_zero)
        return graph_fail(g, WEFT_ARGUMENT, "minimize: %s=%g: it must be from 0 to %g", what, value, most);
    return graph_fail(g, WEFT_ARGUMENT,
                      "minimize: %s=%g: it must be from 0 to %g (0 means %g; a true 0 is WEFT_ZERO)", what,
                      value, most, fallback);
}

/* A setting that nothing reads may only be 0, and stays so, or gets its default: so the attributes of calls
 * that share an optimizer compare equal. */
static bool setting_read(weft_graph *g, const optimizer_kind *kind, const optimizer_setting *s,
                         const weft_optimizer *o, minimize_attrs *a) {
    const void *from = (const char *)o + s->from;
    void *to = (char *)a + s->to;
    int64_t count = s->is_count ? *(const int64_t *)from : 0;
    double value = s->is_count ? (double)count : *(const double *)from;
    if (!optimizer_has(kind, s))
        return value == 0 || graph_fail(g, WEFT_ARGUMENT, "minimize: %s is set, but %s has none: leave it 0",
                                        s->name, o->type);
    if (!s->is_count) return number_read(g, s->name, value, fallback_of(kind, s), s->most, s->has_zero, to);
    *(int64_t *)to = count;
    return count >= 0 ||
           graph_fail(g, WEFT_ARGUMENT, "minimize: %s=%jd: it must not be negative", s->name, count);
}

static bool settings_read(weft_graph *g, const optimizer_kind *kind, const weft_optimizer *o,
                          minimize_attrs *a) {
    for (const optimizer_setting *s = optimizer_settings; s->name; s++)
        if (!setting_read(g, kind, s, o, a)) return false;
    return true;
}

/* ---- parameter groups ---- */

/* A pattern is part of the text in minimize_attrs.groups, so it has no separators. */
static bool group_check(weft_graph *g, const weft_param_group *p, int i) {
    int known = 0;
    while (parameter_kinds[known]) known++;
    if (p->kinds >> known)
        return graph_fail(g, WEFT_ARGUMENT,
                          "minimize: parameter group %d: kinds=%u: it must be of the bits WEFT_PARAMS_...", i,
                          p->kinds);
    if (p->from < 0 || p->to < 0 || (p->to && p->to <= p->from))
        return graph_fail(g, WEFT_ARGUMENT,
                          "minimize: parameter group %d: from=%jd to=%jd: it trains in updates [from, to), "
                          "which must be some (to 0: no end)",
                          i, p->from, p->to);
    if (!p->pattern && p->kinds) return true;
    if (!p->pattern || !*p->pattern || strlen(p->pattern) >= MINIMIZE_MAX_PATTERN ||
        strpbrk(p->pattern, " ;\""))
        return graph_fail(g, WEFT_ARGUMENT,
                          "minimize: parameter group %d: it needs kinds, or a pattern of less than %d "
                          "characters and without space, ';' and quote",
                          i, MINIMIZE_MAX_PATTERN);
    return true;
}

/* Appends " beta1=0.5 eps=1e-06". The op checks the rest. */
static bool numbers_write(text *t, weft_graph *g, const weft_param_group *p, int i) {
    for (size_t k = 0; k < sizeof p->numbers / sizeof *p->numbers && p->numbers[k].field; k++) {
        const char *name = p->numbers[k].field;
        const op_attr *f = attr_find(&weft_op_minimize, name, strlen(name));
        if (!f || f->kind != ATTR_REAL || strpbrk(name, " ;="))
            return graph_fail(g, WEFT_ARGUMENT,
                              "minimize: parameter group %d: an optimizer has no number '%s'", i, SHOW(name));
        double value = p->numbers[k].value;
        text_add(t, " %s=", name);
        real_write(t, value == WEFT_ZERO ? 0 : value);
    }
    return true;
}

/* NULL is all, which a group with kinds may say. */
static const char *pattern_of(const weft_param_group *p) {
    return p->pattern ? p->pattern : "*";
}

/* Appends "pattern lr_scale decay_scale kinds=... name=value...", with ';' before all but the first. */
static bool group_write(text *t, weft_graph *g, const weft_param_group *p, int i, double weight_decay) {
    char what[80];
    double lr_scale, decay_scale;
    snprintf(what, sizeof what, "parameter group %d: lr_scale", i);
    if (!group_check(g, p, i) || !number_read(g, what, p->lr_scale, 1, FLT_MAX, true, &lr_scale))
        return false;
    snprintf(what, sizeof what, "parameter group %d: decay_scale", i);
    if (!number_read(g, what, p->decay_scale, 1, FLT_MAX, true, &decay_scale)) return false;
    if (p->decay_scale != 0 && weight_decay == 0)
        return model_fail(
            g->model, g, WEFT_ARGUMENT,
            "minimize: parameter group %d: decay_scale is set, but weight_decay is 0, so there is "
            "nothing to multiply: set weight_decay, or leave decay_scale 0",
            i);
    text_add(t, "%s%s ", i ? ";" : "", pattern_of(p));
    real_write(t, lr_scale);
    text_add(t, " ");
    real_write(t, decay_scale);
    if (p->kinds) text_add(t, " kinds=");
    parameter_kinds_write(t, p->kinds, "+");
    if (p->from) text_add(t, " from=%jd", p->from);
    if (p->to) text_add(t, " to=%jd", p->to);
    return numbers_write(t, g, p, i);
}

/* Whether the call trains v, unless it is frozen. */
static bool is_candidate(const weft_variable *v, const char *pattern) {
    return v->kind == VARIABLE_PARAMETER && !v->follows && path_matches(pattern, v->path);
}

static bool group_takes(const weft_param_group *p, const weft_variable *v) {
    return (!p->kinds || p->kinds & variable_kinds(v)) && path_matches(pattern_of(p), v->path);
}

/* The first candidate that the group takes by itself; NULL: it takes no candidate. */
static const weft_variable *first_of(const weft_graph *g, const char *pattern, const weft_param_group *p) {
    const weft_variable *v = g->model->variables;
    while (v && !(is_candidate(v, pattern) && group_takes(p, v))) v = v->next;
    return v;
}

/* Reports that earlier groups take all that group i matches, which is something. */
static bool group_unused(weft_graph *g, const weft_optimizer *o, const char *pattern, int i) {
    const weft_variable *v = first_of(g, pattern, &o->groups[i]);
    int hidden_by = 0;
    while (!group_takes(&o->groups[hidden_by], v)) hidden_by++;
    return model_fail(
        g->model, g, WEFT_ARGUMENT,
        "minimize: parameter group %d, '%s', is never used: all it matches is in an earlier group, as "
        "group %d, '%s'; put the narrower %s first",
        i, SHOW(pattern_of(&o->groups[i])), hidden_by, SHOW(pattern_of(&o->groups[hidden_by])),
        o->groups[i].kinds || o->groups[hidden_by].kinds ? "group" : "pattern");
}

/* Reports that nothing of the group's kinds matches, and what kinds there are. */
static bool no_such_kind(weft_graph *g, const weft_optimizer *o, const char *pattern, int i) {
    const weft_param_group *p = &o->groups[i];
    unsigned there = 0;
    text wanted = {0}, known = {0};
    for (const weft_variable *v = g->model->variables; v; v = v->next)
        if (is_candidate(v, pattern) && path_matches(pattern_of(p), v->path)) there |= variable_kinds(v);
    parameter_kinds_write(&wanted, p->kinds, " or ");
    parameter_kinds_write(&known, there, ", ");
    char *a = text_detach(&wanted), *b = text_detach(&known);
    model_fail(
        g->model, g, WEFT_NAME,
        "minimize: parameter group %d: no parameter of '%s' under '%s' is of the kind %s: there are %s", i,
        *pattern ? SHOW(pattern) : "(all)", SHOW(pattern_of(p)), a ? a : "",
        b && *b ? b : "none of any kind");
    free(a);
    free(b);
    return false;
}

/* Reports one of a group's several patterns that matches nothing. */
static bool patterns_match(weft_graph *g, const weft_optimizer *o, const char *pattern, int i) {
    char one[PATTERN_ROOM];
    for (size_t at = 0; pattern_next(pattern_of(&o->groups[i]), &at, one);) {
        if (!first_of(g, pattern, &(weft_param_group){.pattern = one}))
            return graph_fail(g, WEFT_NAME, "minimize: parameter group %d: no parameter of '%s' matches '%s'",
                              i, *pattern ? SHOW(pattern) : "(all)", show_name(one, strlen(one)).text);
    }
    return true;
}

/* Every group must be the first that matches some parameter. */
static bool groups_are_used(weft_graph *g, const weft_optimizer *o, const char *pattern,
                            const char *written) {
    param_groups groups;
    bool *is_used = NULL, good = true;
    if (param_groups_broken(written))
        return graph_fail(g, WEFT_ARGUMENT, "minimize: %s", param_groups_broken(written));
    if (param_groups_open(&groups, &g->model->env, written))
        is_used = arena_new_array(&groups.memory, o->n_groups + 1, sizeof *is_used);
    if (!is_used) {
        param_groups_close(&groups);
        return graph_fail(g, WEFT_MEMORY, "minimize: out of memory");
    }
    for (const weft_variable *v = g->model->variables; v; v = v->next)
        if (is_candidate(v, pattern)) is_used[param_groups_find(&groups, v)] = true;
    /* one pattern matches what made its group used; of several, each is looked at (at most
     * MINIMIZE_MAX_WILD) */
    for (int i = 0; good && i < o->n_groups; i++)
        if (!is_used[i + 1] || strchr(pattern_of(&o->groups[i]), ','))
            good = patterns_match(g, o, pattern, i) &&
                   (first_of(g, pattern, &o->groups[i]) || no_such_kind(g, o, pattern, i));
    int first = 0; /* the first unused group */
    while (first < o->n_groups && is_used[first + 1]) first++;
    param_groups_close(&groups);
    return good && (first == o->n_groups || group_unused(g, o, pattern, first));
}

static bool groups_write(text *t, weft_graph *g, const weft_optimizer *o, const char *pattern,
                         double weight_decay) {
    if (o->n_groups < 0 || (o->n_groups > 0) != (o->groups != NULL))
        return graph_fail(g, WEFT_ARGUMENT, "minimize: n_groups=%d and groups %s: both or neither are needed",
                          o->n_groups, o->groups ? "are given" : "are NULL");
    for (int i = 0; i < o->n_groups; i++)
        if (!group_write(t, g, &o->groups[i], i, weight_decay)) return false;
    if (!o->n_groups) return true;
    /* The text of all groups, which param_groups reads again as a file's would be. */
    char *written = t->failed ? NULL : t->data;
    if (!written) return graph_fail(g, WEFT_MEMORY, "minimize: out of memory");
    return groups_are_used(g, o, pattern, written);
}

/* ---- schedules ---- */

/* Writes the parts with their defaults; nothing where there are none. */
static bool schedule_write_all(text *t, weft_graph *g, const weft_optimizer *o) {
    weft_schedule parts[WEFT_MAX_SCHEDULES];
    char why[SCHEDULE_WHY];
    memcpy(parts, o->schedule, sizeof parts);
    if (!schedules_fill(parts, why)) return graph_fail(g, WEFT_ARGUMENT, "minimize: %s", why);
    schedules_write(t, parts);
    return !t->failed || graph_fail(g, WEFT_MEMORY, "minimize: out of memory");
}

/* ---- the builder ---- */

/* Its words `reserved`, and those of its parts. */
static bool optimizer_reserved(const weft_value *loss, const weft_optimizer *o) {
    bool is_clear = value_reserved(loss, "weft_optimizer", o->reserved, sizeof o->reserved);
    for (int i = 0; i < WEFT_MAX_SCHEDULES && is_clear; i++)
        is_clear =
            value_reserved(loss, "weft_schedule", o->schedule[i].reserved, sizeof o->schedule[i].reserved);
    for (int i = 0; o->groups && i < o->n_groups && is_clear; i++)
        is_clear =
            value_reserved(loss, "weft_param_group", o->groups[i].reserved, sizeof o->groups[i].reserved);
    return is_clear;
}

weft_status weft_minimize(weft_value *loss, const char *pattern, const weft_optimizer *o) {
    if (!loss) return WEFT_ARGUMENT;
    weft_graph *g = loss->node->graph;
    weft_model *m = g->model;
    text groups = {0}, schedule = {0};
    char name[400];
    if (!o || !o->type) {
        model_fail(m, g, WEFT_ARGUMENT,
                   "minimize: an optimizer with a type is needed: &(weft_optimizer){.type = \"adam\"}");
        return m->error.status;
    }
    if (!optimizer_reserved(loss, o)) return m->error.status;
    if (!pattern) pattern = "";
    /* The default name: calls with one type and pattern share their optimizer. No name may have a ',' or
     * a space; a pattern with a space matches nothing, which is reported when it is compiled. */
    const optimizer_kind *kind = optimizer_spelt(m, o->type);
    const char *type = kind ? kind->type : o->type; /* an unknown type is left to the op's own check */
    snprintf(name, sizeof name, "%.40s:%.200s", type, *pattern ? pattern : "all");
    for (char *comma = name; (comma = strpbrk(comma, ", "));) *comma = '+';
    minimize_attrs a = {
        .pattern = pattern,
        .type = type,
        .name = o->name ? o->name : name,
#define FLAG(name) .name = o->name,
#include "graph/settings/minimize_list.h"
    };
    if (!kind || (settings_read(g, kind, o, &a) && groups_write(&groups, g, o, pattern, a.weight_decay) &&
                  schedule_write_all(&schedule, g, o) && own_record_shapes(m, kind, pattern))) {
        a.groups = text_detach(&groups);
        if (schedule.length) a.schedule = text_detach(&schedule);
        node_new(g, &weft_op_minimize, 1, &loss, &a);
    }
    free((void *)a.groups);
    free((void *)a.schedule);
    free(schedule.data);
    free(groups.data);
    return m->error.status;
}
