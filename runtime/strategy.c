/* strategy.c - the strategy of a plan: finds it by its name, asks it once for data, and puts these where
 * the options of weft_compile and weft_model_set_ddp are. So the passes know options alone, and there is
 * one way to spread a training, however it was chosen. An option that contradicts the strategy is an error.
 * */
#define _GNU_SOURCE /* environ */
#include "runtime/strategy.h"

#include "graph/settings/ddp.h"
#include "graph/settings/strategy.h"
#include "runtime/options.h"
#include "runtime/plan/compile_fields.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* "compile: strategy zero: ..." in the plan's model. */
static bool fail(weft_plan *plan, weft_status status, const char *why) {
    return model_fail(plan->model, NULL, status, "compile: strategy %s: %s", SHOW(plan->strategy.text), why);
}

/* ---- by name ---- */

const char *weft_strategy_name(int index) {
    int count = 0;
    while (strategies[count].name) count++;
    return index >= 0 && index < count ? strategies[index].name : NULL;
}

static const weft_strategy *builtin(const char *name) {
    for (const weft_strategy *s = strategies; s->name; s++)
        if (strcmp(s->name, name) == 0) return s;
    return NULL;
}

static const weft_strategy *unknown_name(weft_plan *plan, const char *name, const weft_strategy *own) {
    enum { MOST = 16 };
    const char *names[MOST] = {0};
    char more[160] = "; one of your own is given as weft_compile_options.own_strategy";
    weft_error error = {0};
    for (int i = 0; i < MOST - 1; i++) names[i] = weft_strategy_name(i);
    if (own) snprintf(more, sizeof more, " and your own, %s", SHOW(own->name));
    compile_no_name("strategy", name, names, more, &error);
    return model_fail(plan->model, NULL, WEFT_NAME, "%s", error.text);
}

/* The strategy that the text names; NULL after an error. */
static const weft_strategy *find_strategy(weft_plan *plan, const char *name, const weft_strategy *own) {
    bool is_named = own && own->name && name_is_valid(own->name);
    if (own && (!is_named || builtin(own->name)))
        return model_fail(
            plan->model, NULL, WEFT_NAME,
            "compile: own_strategy '%s': its name must be letters, digits, '_', '-', '.', and not that of "
            "a strategy of Weft's",
            SHOW(own->name));
    const weft_strategy *found = own && strcmp(own->name, name) == 0 ? own : builtin(name);
    if (!found) return unknown_name(plan, name, own);
    if (!own || found == own) return found;
    return model_fail(
        plan->model, NULL, WEFT_ARGUMENT,
        "compile: own_strategy is %s, and the strategy that is chosen %s: leave one of them out", own->name,
        name);
}

static bool unknown_key(weft_plan *plan, const weft_strategy *s, const char *key) {
    text known = {0};
    for (const weft_field *f = s->fields; f && f->name; f++)
        text_add(&known, "%s%s", f == s->fields ? "it takes " : ", ", f->name);
    char *names = text_detach(&known);
    model_fail(plan->model, NULL, WEFT_ARGUMENT, "compile: strategy %s has no key '%s'; %s", s->name,
               SHOW(key), names && *names ? names : "it takes no keys");
    free(names);
    return false;
}

/* Of the structure that its fields are in: the row that ends them has it. */
static size_t options_bytes(const weft_strategy *s) {
    const weft_field *f = s->fields;
    while (f && f->name) f++;
    return f ? f->offset : 0;
}

/* Fills the structure of the strategy's options from its text. */
static bool read_keys(weft_plan *plan, const weft_strategy *s, const strategy_parts *parts, size_t bytes,
                      void *options) {
    weft_error error = {0};
    for (int i = 0; i < parts->n; i++) {
        const weft_field *f = weft_field_find(s->fields, parts->keys[i]);
        if (!f) return unknown_key(plan, s, parts->keys[i]);
        if (f->offset > bytes || field_width(f) > bytes - f->offset)
            return fail(
                plan, WEFT_ARGUMENT,
                "a field of it is not within its structure: the row that ends its fields has the size");
        if (!field_set(f, parts->values[i], options, NULL, &error))
            return fail(plan, error.status, error.text);
    }
    return true;
}

/* ---- options of the whole plan ---- */

/* Options that a strategy may decide. */
static const struct decision {
    const char *name;
    size_t decided; /* the field of weft_distribution, of the same type as the option's */
} decisions[] = {
#define D(field)                                                                                             \
    { #field, offsetof(weft_distribution, field) }
    D(bucket_cap_mb), D(zero), D(shard), D(serial), D(reduce), D(check_equal),
#undef D
};

/* Whether the text of one of Weft's says it, so that a 0 is meant, too. */
static bool is_said(const weft_plan *plan, const char *name) {
    const strategy_parts *parts = plan->strategy.parts;
    bool is_there = false;
    for (int i = 0; i < parts->n; i++) is_there |= strcmp(parts->keys[i], name) == 0;
    return is_there && builtin(parts->name);
}

/* An option says one thing, and the strategy another. */
static bool contradicts(weft_plan *plan, const weft_field *option, const weft_compile_options *o,
                        const weft_field *decided, const weft_distribution *by) {
    text why = {0};
    text_add(&why, "it sets %s=", option->name);
    field_write(&why, decided, by);
    text_add(&why, ", and the options ");
    field_write(&why, option, o);
    text_add(&why, ": leave one of them out");
    char *all = text_detach(&why);
    if (all) fail(plan, WEFT_ARGUMENT, all);
    free(all);
    return false;
}

/* Copies what the strategy decides into the options. */
static bool decide(weft_plan *plan, const struct decision *d, weft_compile_options *o,
                   const weft_distribution *by) {
    const weft_field *option = weft_field_find(compile_fields, d->name);
    weft_field decided[] = {*option, {0}};
    weft_error error = {0};
    decided->offset = d->decided;
    if (weft_fields_check(decided, by, "compile", &error)) return fail(plan, error.status, error.text);
    void *to = (char *)o + option->offset;
    const void *from = (const char *)by + d->decided;
    size_t width = field_width(option);
    bool says = weft_field_is_set(decided, by) || is_said(plan, d->name);
    if (!says || memcmp(to, from, width) == 0) return true;
    if (weft_field_is_set(option, o)) return contradicts(plan, option, o, decided, by);
    memcpy(to, from, width);
    return true;
}

static bool decide_all(weft_plan *plan, const weft_compile_options *given, const weft_distribution *by) {
    weft_compile_options o = *given;
    for (size_t i = 0; i < sizeof decisions / sizeof *decisions; i++)
        if (!decide(plan, &decisions[i], &o, by)) return false;
    plan->options = compile_options_filled(plan->source, &o);
    return true;
}

/* ---- subgraphs ---- */

/* Merges one field of the strategy's options into those that weft_model_set_ddp has set for the path. */
static bool merge_field(weft_plan *plan, const char *path, const op_attr *f, const ddp_attrs *by,
                        ddp_attrs *into) {
    const op_attr fields[] = {*f, {0}};
    const weft_op one = {.name = "ddp", .attrs = fields, .attrs_bytes = sizeof *by};
    const ddp_attrs none = {0};
    char why[200];
    if (attrs_equal(&one, by, &none) || attrs_equal(&one, by, into)) return true;
    if (!attrs_equal(&one, into, &none)) {
        snprintf(
            why, sizeof why,
            "it sets %s of subgraph %.80s, and weft_model_set_ddp to another value: leave one of them out",
            f->name, *path ? path : "/");
        return fail(plan, WEFT_ARGUMENT, why);
    }
    memcpy((char *)into + f->offset, (const char *)by + f->offset, attr_width(f));
    return true;
}

static bool set_subgraph(weft_plan *plan, const char *path, const weft_ddp_options *options) {
    const ddp_entry *said = ddp_at(plan->source, path);
    ddp_attrs by = ddp_attrs_of(options), all = said ? said->attrs : (ddp_attrs){0};
    if (options->wire != WEFT_F32 && options->wire != WEFT_BF16)
        return fail(plan, WEFT_ARGUMENT, "the wire of a subgraph must be WEFT_BF16 or 0");
    for (const op_attr *f = ddp_attr_table; f->name; f++)
        if (!merge_field(plan, path, f, &by, &all)) return false;
    return ddp_set(plan->model, path, &all);
}

static bool is_listed(const weft_distribution *by, const char *path) {
    for (int i = 0; i < by->n_subgraphs; i++)
        if (strcmp(by->subgraphs[i].path, path) == 0) return true;
    return false;
}

/* A subgraph of the strategy is whole: weft_model_set_ddp takes no part of it out. */
static bool check_whole(weft_plan *plan, const char *path, const weft_distribution *by) {
    size_t n = strlen(path);
    char why[240];
    for (const ddp_entry *e = plan->source->ddps; e; e = e->next) {
        bool is_within = !n || (strncmp(e->path, path, n) == 0 && e->path[n] == '/');
        if (!is_within || strcmp(e->path, path) == 0 || is_listed(by, e->path)) continue;
        snprintf(
            why, sizeof why,
            "%.80s is one subgraph of it, and weft_model_set_ddp makes %.80s another: leave one of them out",
            n ? path : "the model", e->path);
        return fail(plan, WEFT_ARGUMENT, why);
    }
    return true;
}

/* "*": every top-level scope; "" for parameters outside any. */
static bool set_scopes(weft_plan *plan, const weft_ddp_options *options) {
    for (const weft_variable *v = plan->model->variables; v; v = v->next) {
        size_t top = strcspn(v->path, "/");
        char path[256];
        if (v->kind != VARIABLE_PARAMETER) continue;
        snprintf(path, sizeof path, "%.*s", (int)(v->path[top] ? top : 0), v->path);
        if (!set_subgraph(plan, path, options)) return false;
    }
    return true;
}

static bool is_of_today(weft_plan *plan, const uint64_t *reserved, size_t bytes, const char *what) {
    weft_error error;
    return !reserved_check(reserved, bytes, what, &error) || fail(plan, error.status, error.text);
}

static bool set_subgraphs(weft_plan *plan, const weft_distribution *by) {
    if (by->n_subgraphs < 0 || (by->n_subgraphs && !by->subgraphs))
        return fail(plan, WEFT_ARGUMENT, "it says a number of subgraphs, and has no list of them");
    for (int i = 0; i < by->n_subgraphs; i++) {
        const weft_strategy_subgraph *s = &by->subgraphs[i];
        if (!s->path) return fail(plan, WEFT_ARGUMENT, "a subgraph of it has no path");
        if (!is_of_today(plan, s->reserved, sizeof s->reserved, "weft_strategy_subgraph") ||
            !is_of_today(plan, s->options.reserved, sizeof s->options.reserved, "weft_ddp_options"))
            return false;
    }
    for (int i = 0; i < by->n_subgraphs; i++) {
        const weft_strategy_subgraph *s = &by->subgraphs[i];
        const char *path = strcmp(s->path, "/") ? s->path : "";
        if (strcmp(path, "*") == 0) {
            if (!set_scopes(plan, &s->options)) return false;
        } else if (!check_whole(plan, path, by) || !set_subgraph(plan, path, &s->options)) {
            return false;
        }
    }
    return true;
}

static bool set_cuts(weft_plan *plan, const weft_distribution *by) {
    char why[160];
    if (by->n_cuts < 0 || (by->n_cuts && !by->cuts))
        return fail(plan, WEFT_ARGUMENT, "it says a number of cuts, and has no list of them");
    for (int i = 0; i < by->n_cuts; i++) {
        weft_variable *v = by->cuts[i] ? variable_find(plan->model, by->cuts[i]) : NULL;
        snprintf(why, sizeof why, "it cuts at '%s', and the model has no such parameter", SHOW(by->cuts[i]));
        if (!v || v->kind != VARIABLE_PARAMETER) return fail(plan, WEFT_NAME, why);
        v->is_cut = true;
    }
    return true;
}

/* ---- the whole ---- */

static bool ask(weft_plan *plan, const weft_strategy *s, const strategy_parts *parts, weft_distribution *by) {
    arena *memory = &plan->model->arena;
    weft_strategy_call *call = arena_new(memory, sizeof *call);
    size_t bytes = options_bytes(s);
    void *options = s->fields ? arena_new(memory, bytes) : NULL;
    weft_error error = {0};
    if (!call || (s->fields && !options) || !read_keys(plan, s, parts, bytes, options)) return false;
    *call = (weft_strategy_call){.name = s->name,
                                 .model = plan->source,
                                 .world = plan->options.world,
                                 .rank = plan->options.rank,
                                 .options = options,
                                 .context = s->context,
                                 .memory = memory};
    plan->strategy.call = call;
    plan->strategy.parts = parts;
    weft_status status = s->distribute ? s->distribute(call, by, &error) : WEFT_OK;
    if (!status) return true;
    return fail(plan, status, *error.text ? error.text : "it refuses, and does not say why");
}

bool strategy_choose(weft_plan *plan, const weft_compile_options *o) {
    plan_strategy *into = &plan->strategy;
    const weft_strategy *own = o->own_strategy;
    const char *text = o->strategy ? o->strategy : plan->source->strategy;
    strategy_parts *parts = arena_new(&plan->model->arena, sizeof *parts);
    weft_distribution by = {0};
    char why[STRATEGY_WHY];
    *into = (plan_strategy){.text = "separate_ddp"};
    if (!parts) return false;
    if (!text && own) text = own->name ? own->name : "";
    if (!text) return true;
    into->is_chosen = true;
    if (!(into->text = arena_copy(&plan->model->arena, text))) return false;
    if (!strategy_parse(text, &plan->model->arena, parts, why)) return *why && fail(plan, WEFT_ARGUMENT, why);
    const weft_strategy *s = find_strategy(plan, parts->name, own);
    if (!s || !is_of_today(plan, s->reserved, sizeof s->reserved, "weft_strategy") ||
        !ask(plan, s, parts, &by) ||
        !is_of_today(plan, by.reserved, sizeof by.reserved, "weft_distribution") ||
        !decide_all(plan, o, &by) || !set_subgraphs(plan, &by) || !set_cuts(plan, &by))
        return false;
    into->gradient = by.gradient;
    if (s != own) return true;
    into->runs = *own;
    into->runs.name = parts->name; /* the plan's own copy */
    return true;
}

const char *weft_plan_strategy(const weft_plan *plan) {
    return plan ? plan->strategy.text : NULL;
}

/* ---- connecting ---- */

weft_comm *weft_strategy_connect(const weft_strategy *s, const weft_launch *launch,
                                 const weft_comm_options *options, weft_error *error) {
    weft_launch found;
    if (!launch && weft_launch_read(NULL, environ, &found, error)) return NULL;
    if (!launch) launch = &found;
    if (reserved_check(launch->reserved, sizeof launch->reserved, "weft_launch", error)) return NULL;
    if (s && s->connect) return s->connect(launch, options, error);
    if (launch->world <= 1) return weft_comm_self(options, error);
    error_set(error, WEFT_ARGUMENT,
              "strategy %s: a world of %d ranks needs weft_strategy.connect, such as weft_comm_mpi",
              s && s->name ? SHOW(s->name) : "separate_ddp", launch->world);
    return NULL;
}
