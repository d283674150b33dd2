/* optimizers.c - each option becomes a text of weft_optimizer_text. */
#include "tools/graphtool/common/optimizers.h"

#include "tools/graphtool/common/checkpoints.h"
#include "tools/graphtool/common/weights.h"

#include "graph/settings/minimize.h"
#include "graph/settings/schedule.h"

#include <stdlib.h>
#include <string.h>

/* Functions, not macros: errors must not name a source line of this file. */
static bool change(weft_model *m, const char *name, size_t length, const char *settings) {
    char *own = strndup(name, length);
    bool good = own && (weft_optimizer_text)(m, own, settings) == WEFT_OK;
    free(own);
    return good;
}

static bool apply_fields(weft_model *m, const char *value) {
    const char *fields;
    size_t n = option_name_before(value, &fields);
    return change(m, value, n, fields);
}

/* [NAME=]NUMBER of one field. */
static bool apply_number(weft_model *m, const char *field, const char *value) {
    const char *number;
    size_t n = option_name_of(value, &number);
    text t = {0};
    text_add(&t, "%s=%s", field, number);
    char *settings = text_detach(&t);
    bool good = settings && change(m, value, n, settings);
    free(settings);
    return good;
}

static bool is_of_pass(size_t name_length, int pass) {
    return (name_length > 0) == (pass > 0);
}

static bool apply_numbers(weft_model *m, const char *field, const text_list *list, int pass) {
    bool good = true;
    const char *rest;
    for (int i = 0; good && i < list->n; i++)
        if (is_of_pass(option_name_of(list->v[i], &rest), pass)) good = apply_number(m, field, list->v[i]);
    return good;
}

/* What is for all optimizers comes before what is for one, whatever the order in which they were given. */
static bool apply_all(weft_model *m, const options *o) {
    bool good = true;
    const char *rest;
    for (int pass = 0; good && pass < 2; pass++) {
        for (int i = 0; good && i < o->optimizer.n; i++)
            if (is_of_pass(option_name_before(o->optimizer.v[i], &rest), pass))
                good = apply_fields(m, o->optimizer.v[i]);
        good = good && apply_numbers(m, "clip_norm", &o->clip_norm, pass) &&
               apply_numbers(m, "ema", &o->ema, pass);
    }
    return good;
}

/* ---- what is said twice ---- */

/* One field that an option gives. */
typedef struct setting {
    const char *option, *value; /* as given; value NULL: that of --lr */
    char *name;                 /* of the optimizer; "": all */
    const char *field;
    size_t length; /* of the field */
} setting;

enum { SETTINGS_ROOM = 256 };
typedef struct settings {
    int n;
    setting list[SETTINGS_ROOM];
} settings;

static int add(settings *all, const char *option, const char *value, size_t name, const char *field,
               size_t length) {
    if (all->n == SETTINGS_ROOM) return tool_fail("--%s=%s: too many settings", option, value);
    char *own = strndup(value ? value : "", name);
    if (!own) return tool_fail("out of memory");
    all->list[all->n++] = (setting){option, value, own, field, length};
    return -1;
}

/* The fields of NAME:FIELDS; a ',' in quotation marks divides none. */
static int add_fields(settings *all, const char *value) {
    const char *at;
    size_t name = option_name_before(value, &at);
    int status = -1;
    while (status < 0 && *(at += strspn(at, ", \t\n"))) {
        bool is_quoted = false;
        status = add(all, "optimizer", value, name, at, strcspn(at, "=, "));
        for (; *at && (is_quoted || *at != ','); at++) is_quoted ^= *at == '"';
    }
    return status;
}

static int add_named(settings *all, const char *option, const char *field, const text_list *list) {
    int status = -1;
    const char *rest;
    for (int i = 0; status < 0 && i < list->n; i++)
        status = add(all, option, list->v[i], option_name_of(list->v[i], &rest), field, strlen(field));
    return status;
}

static int gather_settings(settings *all, const options *o) {
    all->n = 0;
    int status = o->lr > 0 ? add(all, "lr", NULL, 0, "lr", 2) : -1;
    for (int i = 0; status < 0 && i < o->optimizer.n; i++) status = add_fields(all, o->optimizer.v[i]);
    if (status < 0) status = add_named(all, "clip-norm", "clip_norm", &o->clip_norm);
    if (status < 0) status = add_named(all, "ema", "ema", &o->ema);
    return status < 0 ? add_named(all, "schedule", "schedule", &o->schedule) : status;
}

static void settings_free(settings *all) {
    for (int i = 0; i < all->n; i++) free(all->list[i].name);
}

/* The optimizer that both are for; NULL: there is none, or only one of the two is for all. */
static const char *in_common(const weft_model *m, const char *a, const char *b) {
    if (!*a || !*b) return *a == *b ? "all optimizers" : NULL;
    for (const weft_graph *g = m->graphs; g; g = g->next)
        for (const weft_node *n = g->first; n; n = n->next) {
            const minimize_attrs *of = n->attrs;
            if (n->op == &weft_op_minimize && optimizer_is_meant(m, of->name, a) &&
                optimizer_is_meant(m, of->name, b))
                return of->name;
        }
    return NULL;
}

static int check_pair(const weft_model *m, const setting *a, const setting *b) {
    bool is_field = a->length == b->length && strncmp(a->field, b->field, a->length) == 0;
    const char *name = is_field ? in_common(m, a->name, b->name) : NULL;
    if (!name) return -1;
    return tool_fail("--%s=%s: %.*s of %s is given twice, in --%s%s%s too", b->option, SHOW(b->value),
                     (int)a->length, a->field, SHOW(name), a->option, a->value ? "=" : "",
                     a->value ? SHOW(a->value) : "");
}

static int check_twice(const weft_model *m, const options *o) {
    settings all;
    int status = gather_settings(&all, o);
    for (int i = 1; i < all.n; i++)
        for (int k = 0; status < 0 && k < i; k++) status = check_pair(m, &all.list[k], &all.list[i]);
    settings_free(&all);
    return status;
}

/* Reads [NAME=]PARTS; the caller frees the name. */
static int read_schedule(weft_model *m, const char *value, weft_schedule parts[WEFT_MAX_SCHEDULES],
                         char **name) {
    weft_error error = {0};
    const char *text;
    if (!(*name = strndup(value, option_name_of(value, &text)))) return tool_fail("out of memory");
    if (weft_schedule_text(text, parts, &error))
        return tool_fail("--schedule=%s: %s", SHOW(value), error.text);
    /* this changes nothing, and tells what is wrong with a name */
    return (weft_optimizer_text)(m, *name, "") ? tool_error(weft_model_error(m)) : -1;
}

static int check_schedules(weft_model *m, const options *o) {
    weft_schedule parts[WEFT_MAX_SCHEDULES];
    int status = -1;
    for (int i = 0; status < 0 && i < o->schedule.n; i++) {
        char *name;
        status = read_schedule(m, o->schedule.v[i], parts, &name);
        free(name);
    }
    return status;
}

int optimizers_apply(weft_model *m, const options *o) {
    int status = check_twice(m, o);
    if (status < 0) status = check_schedules(m, o);
    if (status >= 0 || apply_all(m, o)) return status;
    return weft_model_error(m)->status ? tool_error(weft_model_error(m)) : tool_fail("out of memory");
}

/* Which options give a field of an optimizer; bits. */
enum { GIVEN_TO_ALL = 1, GIVEN_TO_IT = 2, GIVEN_BY_LR = 4 /* of --lr, which is for all */ };

static int givers(const weft_model *m, const options *o, const char *optimizer, const char *field,
                  unsigned *by) {
    settings all;
    int status = gather_settings(&all, o);
    *by = 0;
    for (int i = 0; i < all.n; i++) {
        const setting *s = &all.list[i];
        bool is_field = s->length == strlen(field) && strncmp(s->field, field, s->length) == 0;
        if (!is_field || !optimizer_is_meant(m, optimizer, s->name)) continue;
        *by |= *s->name ? GIVEN_TO_IT : s->value ? GIVEN_TO_ALL : GIVEN_BY_LR;
    }
    settings_free(&all);
    return status;
}

bool optimizers_give(const weft_model *m, const options *o, const char *optimizer, const char *field) {
    unsigned by;
    return givers(m, o, optimizer, field, &by) < 0 && by;
}

/* Whether an option gives this field for the optimizer alone. */
static int has_own(const weft_model *m, const options *o, const char *optimizer, const char *field,
                   bool *has) {
    unsigned by;
    int status = givers(m, o, optimizer, field, &by);
    *has = by & GIVEN_TO_IT;
    return status;
}

/* What --optimizer gives is the model's by now. */
static int add_rate(const weft_model *m, const options *o, const minimize_attrs *a, weft_rate *into, int *n) {
    unsigned by;
    int status = givers(m, o, a->name, "lr", &by);
    const optimizer_kind *kind = optimizer_find(m, a->type);
    bool is_late = kind && kind->reads_lr_once && o->resume && checkpoints_there(o);
    if (status < 0 && by && !is_late)
        into[(*n)++] = (weft_rate){a->name, by & GIVEN_TO_IT || !(by & GIVEN_BY_LR) ? a->lr : o->lr};
    return status;
}

int optimizers_rates(const weft_model *m, const options *o, weft_rate **rates, int *n) {
    int room = 0, status = -1;
    *n = 0;
    for (const weft_graph *g = m->graphs; g; g = g->next)
        for (const weft_node *v = g->first; v; v = v->next) room += v->op == &weft_op_minimize;
    if (!(*rates = calloc((size_t)room + 1, sizeof **rates))) return tool_fail("out of memory");
    for (const weft_graph *g = m->graphs; g; g = g->next)
        for (const weft_node *v = g->first; v && status < 0; v = v->next)
            if (v->op == &weft_op_minimize) status = add_rate(m, o, v->attrs, *rates, n);
    return status;
}

/* Whether the store has this number of an optimizer, as it is given. */
static bool has_number(const weft_store *store, const char *optimizer, const char *field, double given) {
    char path[600];
    double now = 0;
    snprintf(path, sizeof path, "optimizer.%s/%s", optimizer, field);
    return weft_store_get(store, path, &now, sizeof now, NULL) == WEFT_OK && now == given;
}

/* Fields that are only read before the first update. */
static void tell_fields(const weft_model *m, const options *o, const minimize_attrs *a,
                        const weft_store *store) {
    const optimizer_kind *kind = optimizer_find(m, a->type);
    const struct {
        const char *name;
        double given;
        bool is_read;
    } fields[] = {{"initial_accumulator", a->initial_accumulator, true},
                  {"loss_scale", a->loss_scale, true},
                  {"lr", a->lr, kind && kind->reads_lr_once}};
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        if (fields[i].is_read && optimizers_give(m, o, a->name, fields[i].name) &&
            !has_number(store, a->name, fields[i].name, fields[i].given))
            tool_note("%s of %s is read at the start of a training: this one keeps its own", fields[i].name,
                      SHOW(a->name));
}

/* The first node that steps the optimizer of that name, which several graphs may have. */
static const weft_node *first_of(const weft_model *m, const char *name) {
    for (const weft_graph *g = m->graphs; g; g = g->next)
        for (const weft_node *v = g->first; v; v = v->next) {
            const minimize_attrs *a = v->attrs;
            if (v->op == &weft_op_minimize && strcmp(a->name, name) == 0) return v;
        }
    return NULL;
}

void optimizers_tell_begun(const weft_model *m, const options *o, const weft_store *store) {
    for (const weft_graph *g = m->graphs; g; g = g->next)
        for (const weft_node *v = g->first; v; v = v->next) {
            const minimize_attrs *a = v->attrs;
            if (v->op == &weft_op_minimize && first_of(m, a->name) == v) tell_fields(m, o, a, store);
        }
}

/* ---- schedules ---- */

/* A --schedule, and the run that it is for. */
typedef struct schedule {
    weft_model *m;
    const options *o;
    const weft_trainer_options *how;
    const char *value; /* as given */
    weft_schedule parts[WEFT_MAX_SCHEDULES];
} schedule;

/* The optimizer of `name` updates once in each run of each graph that has it. */
static int count_updates(const schedule *s, const char *name, int64_t *updates) {
    weft_error error = {0};
    *updates = 0;
    for (const weft_graph *g = s->m->graphs; g; g = g->next)
        for (const weft_node *n = g->first; n; n = n->next) {
            const minimize_attrs *a = n->attrs;
            int64_t runs;
            if (n->op != &weft_op_minimize || strcmp(a->name, name)) continue;
            if (weft_trainer_count(s->m, s->how, g->name, &runs, &error)) return tool_error(&error);
            *updates += runs;
            break;
        }
    return -1;
}

/* The epochs that the run begins, which its steps may cut; without data there is one. */
static int count_epochs(const schedule *s, int64_t *epochs) {
    weft_error error = {0};
    weft_trainer_options one = *s->how;
    int64_t all, each;
    *epochs = 1;
    if (!one.train.n) return -1;
    one.epochs = 1, one.iterations = 0;
    if (weft_trainer_count(s->m, s->how, NULL, &all, &error) ||
        weft_trainer_count(s->m, &one, NULL, &each, &error))
        return tool_error(&error);
    *epochs = each ? (all + each - 1) / each : 1;
    return -1;
}

/* Where this run ends: after what the state in --weights has behind it, and what the run adds. */
static int find_end(const schedule *s, const char *name, bool by_epoch, int64_t *end) {
    int64_t before = 0;
    int status = by_epoch ? count_epochs(s, end) : count_updates(s, name, end);
    if (status < 0)
        status = weights_counter(s->o, name, by_epoch ? WEFT_STORED_EPOCH : WEFT_STORED_STEP, &before);
    *end += before;
    return status;
}

/* Gives the parts that need it an end: that of the run, in updates of this optimizer or in epochs. */
static int end_parts(const schedule *s, const char *name, weft_schedule parts[WEFT_MAX_SCHEDULES]) {
    memcpy(parts, s->parts, sizeof s->parts);
    for (int i = 0; i < schedule_count(parts); i++) {
        if (!schedule_needs_end(&parts[i])) continue;
        int status = find_end(s, name, parts[i].by_epoch, &parts[i].end);
        if (status >= 0) return status;
        if (parts[i].end <= parts[i].begin + parts[i].warmup)
            return tool_fail(
                "--schedule=%s: part %d ends with the run, and %s has %lld %s in it: give the part "
                "an end, as in 0-1000, or a longer run",
                s->value, i + 1, SHOW(name), (long long)parts[i].end,
                parts[i].by_epoch ? "epochs" : "updates");
    }
    return -1;
}

static int give_one(const schedule *s, const char *name) {
    weft_schedule parts[WEFT_MAX_SCHEDULES];
    int status = end_parts(s, name, parts);
    if (status >= 0) return status;
    text t = {0};
    text_add(&t, "schedule=\"");
    schedules_write(&t, parts);
    text_add(&t, "\"");
    char *settings = text_detach(&t);
    if (!settings) return tool_fail("out of memory");
    bool good = change(s->m, name, strlen(name), settings);
    free(settings);
    return good ? -1 : tool_error(weft_model_error(s->m));
}

/* Each optimizer that NAME means, which is at least one. */
static int give_all(const schedule *s, const char *name) {
    int status = -1;
    for (const weft_graph *g = s->m->graphs; g; g = g->next)
        for (const weft_node *n = g->first; n && status < 0; n = n->next) {
            const minimize_attrs *a = n->attrs;
            bool has = false;
            if (n->op != &weft_op_minimize || !optimizer_is_meant(s->m, a->name, name)) continue;
            if (!*name) status = has_own(s->m, s->o, a->name, "schedule", &has);
            if (status < 0 && !has) status = give_one(s, a->name);
        }
    return status;
}

/* By the first optimizer that updates in the flow's first iteration. */
int optimizers_behind(weft_model *m, const options *o, weft_trainer_options *how) {
    weft_trainer_options one = *how;
    schedule s = {.m = m, .o = o, .how = &one};
    int64_t updates = 0, before = 0;
    int status = -1;
    one.epochs = 0, one.iterations = 1;
    for (const weft_graph *g = o->weights ? m->graphs : NULL; g; g = g->next)
        for (const weft_node *n = g->first; n && status < 0 && !how->first_iteration; n = n->next) {
            const minimize_attrs *a = n->attrs;
            if (n->op != &weft_op_minimize) continue;
            status = weights_counter(o, a->name, WEFT_STORED_STEP, &before);
            if (status < 0 && before) status = count_updates(&s, a->name, &updates);
            if (status < 0 && before && updates) how->first_iteration = before / updates;
        }
    return status;
}

static int schedule_one(weft_model *m, const options *o, const weft_trainer_options *how, const char *value) {
    schedule s = {.m = m, .o = o, .how = how, .value = value};
    char *name;
    int status = read_schedule(m, value, s.parts, &name);
    if (status < 0) status = give_all(&s, name);
    free(name);
    return status;
}

int optimizers_schedule(weft_model *m, const options *o, const weft_trainer_options *how) {
    int status = -1;
    const char *rest;
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; status < 0 && i < o->schedule.n; i++)
            if (is_of_pass(option_name_of(o->schedule.v[i], &rest), pass))
                status = schedule_one(m, o, how, o->schedule.v[i]);
    return status;
}
