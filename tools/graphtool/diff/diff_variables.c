/* diff_variables.c - parameters and state of two models, by their paths: with scopes that have another name
 * their parameters have another path, too, and that is one change. */
#include "tools/graphtool/diff/diff.h"

#include "tools/graphtool/output/end.h"

#include <string.h>

static bool is_compared(const weft_variable *v) {
    return v->kind == VARIABLE_PARAMETER || v->kind == VARIABLE_STATE;
}

/* The path in the other model, by the first graph in which a scope around it has another name. */
static const char *renamed_path(const difference *d, int side, const char *path) {
    const char *other = path;
    for (int i = 0; i < d->n_graphs && other == path; i++)
        if (d->graphs[i].pair) other = match_path(d->graphs[i].pair, side, path);
    return other;
}

static const char *init_text(const weft_variable *v) {
    text t = {0};
    text_add(&t, "%s", init_name(v->init.kind));
    if (v->init.a != 0 || v->init.b != 0) text_add(&t, " %g", v->init.a);
    if (v->init.b != 0) text_add(&t, " %g", v->init.b);
    return tool_take(&t);
}

static const char *variable_text(const weft_variable *v) {
    return tool_text("%s, %s%s", TYPE(&v->type), init_text(v), v->is_frozen ? ", frozen" : "");
}

static void add_variable(difference *d, diff_kind kind, const weft_variable *v) {
    diff_add(d, (diff_change){.kind = kind,
                              .what = DIFF_PARAMETER,
                              .graph = -1,
                              .path = v->path,
                              .op = variable_kind_name(v->kind),
                              .text = variable_text(v)});
}

/* Whether the initial values are of one kind, as far as the shapes decide their numbers. */
static bool init_follows(const weft_variable *a, const weft_variable *b, bool has_shape, unsigned char mark) {
    return a->init.kind == b->init.kind && (!has_shape || mark & DIFF_READ_WITH_OTHERS);
}

static void compare_variables(difference *d, const weft_variable *a, const weft_variable *b,
                              unsigned char mark) {
    text t = {0};
    const char *inits[2] = {init_text(a), init_text(b)};
    bool has_shape = type_equal(&a->type, &b->type), has_init = strcmp(inits[0], inits[1]) == 0;
    bool is_own = a->kind != b->kind || a->is_frozen != b->is_frozen;
    is_own |= !has_shape && !(mark & DIFF_SHAPE_FOLLOWS);
    is_own |= !has_init && !init_follows(a, b, has_shape, mark);
    if (a->kind != b->kind)
        text_add(&t, "; %s -> %s", variable_kind_name(a->kind), variable_kind_name(b->kind));
    if (!has_shape) text_add(&t, "; %s -> %s", TYPE(&a->type), TYPE(&b->type));
    if (!has_init) text_add(&t, "; initial values %s -> %s", inits[0], inits[1]);
    if (a->is_frozen != b->is_frozen)
        text_add(&t, a->is_frozen ? "; frozen -> trained" : "; trained -> frozen");
    if (!t.length && !t.failed) return;
    diff_add(d, (diff_change){.kind = DIFF_CHANGED,
                              .what = DIFF_PARAMETER,
                              .follows = !is_own,
                              .graph = -1,
                              .path = a->path,
                              .op = variable_kind_name(a->kind),
                              .text = tool_take(&t) + 2});
}

static weft_variable *listed_at(const weft_model *m, const char *path) {
    weft_variable *v = variable_find(m, path);
    return v && is_compared(v) ? v : NULL;
}

/* By index of one of the first: the one that it is. First those that both sides' scopes pair, then those of
 * one path: so it does not matter which of the two comes first. */
static const weft_variable **pair_variables(const difference *d, const weft_model *const models[2],
                                            bool *is_met) {
    const weft_variable **pair = tool_new((size_t)models[0]->n_variables + 1, sizeof *pair);
    for (int round = 0; round < 2; round++)
        for (const weft_variable *a = models[0]->variables; a; a = a->next) {
            if (!is_compared(a) || pair[a->index]) continue;
            const char *path = round ? a->path : renamed_path(d, 0, a->path);
            const weft_variable *b = listed_at(models[1], path);
            if (!b || is_met[b->index]) continue;
            if (!round && strcmp(renamed_path(d, 1, b->path), a->path)) continue;
            pair[a->index] = b;
            is_met[b->index] = true;
        }
    return pair;
}

void diff_variables(difference *d, const weft_model *const models[2]) {
    bool *is_met = tool_new((size_t)models[1]->n_variables + 1, sizeof *is_met);
    const weft_variable **pair = pair_variables(d, models, is_met);
    const unsigned char *marks = diff_explained(d, models[0], (const weft_variable *const *)pair);
    for (const weft_variable *a = models[0]->variables; a; a = a->next) {
        if (!is_compared(a)) continue;
        if (pair[a->index])
            compare_variables(d, a, pair[a->index], marks[a->index]);
        else
            add_variable(d, DIFF_REMOVED, a);
    }
    for (const weft_variable *b = models[1]->variables; b; b = b->next)
        if (is_compared(b) && !is_met[b->index]) add_variable(d, DIFF_ADDED, b);
}
