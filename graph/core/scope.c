/* scope.c - paths: the scope stack of a graph, interned path strings, patterns, keys of random streams. */
#include "graph/core/graph.h"

#include <stdio.h>
#include <string.h>

bool name_is_valid(const char *name) {
    enum { LONGEST = 200 };
    size_t n = 0;
    for (; name[n]; n++) {
        char c = name[n];
        bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
                     c == '-' || c == '.';
        if (!plain || n >= LONGEST) return false;
    }
    return n > 0;
}

bool path_is_valid(const char *path) {
    enum { LONGEST = 1000 };
    if (strlen(path) > LONGEST) return false;
    char part[256];
    for (const char *p = path;;) {
        size_t n = strcspn(p, "/");
        if (n == 0 || n >= sizeof part) return false;
        memcpy(part, p, n);
        part[n] = 0;
        if (!name_is_valid(part)) return false;
        if (!p[n]) return true;
        p += n + 1;
    }
}

/* Linear in practice: on a mismatch only the last '*' is tried again. */
static bool glob(const char *pattern, const char *string) {
    const char *star = NULL, *retry = NULL;
    while (*string) {
        if (*pattern == '*') {
            star = pattern++;
            retry = string;
        } else if (*pattern == *string) {
            pattern++;
            string++;
        } else if (star) {
            pattern = star + 1;
            string = ++retry;
        } else {
            return false;
        }
    }
    while (*pattern == '*') pattern++;
    return !*pattern;
}

bool path_matches(const char *pattern, const char *path) {
    if (!pattern || !*pattern) return true;
    if (strchr(pattern, '*')) return glob(pattern, path);
    size_t n = strlen(pattern);
    return strncmp(pattern, path, n) == 0 && (path[n] == 0 || path[n] == '/');
}

const char *scope_intern(weft_model *m, const char *path) {
    char *known = table_find(&m->scopes, path);
    if (known) return known;
    char *copy = arena_copy(&m->arena, path);
    if (!copy || !table_add(&m->scopes, &m->arena, copy, copy))
        return model_fail(m, NULL, WEFT_MEMORY, "scope %s: memory could not be had", SHOW(path));
    return copy;
}

weft_graph *weft_graph_scope_enter(weft_graph *g, const char *name) {
    if (!g || !model_ok(g->model)) return NULL;
    weft_model *m = g->model;
    if (!name || !name_is_valid(name))
        return model_fail(m, g, WEFT_NAME, "scope name '%s': 1 to 200 letters, digits, '_', '-', '.'",
                          SHOW(name));
    const char *above = g->scope->path;
    char path[1024];
    int length = snprintf(path, sizeof path, *above ? "%s/%s" : "%s%s", above, name);
    if (length < 0 || length > 1000)
        return model_fail(m, g, WEFT_NAME, "scope %s: the path grows over 1000 characters", name);
    scope_entry *e = arena_new(&m->arena, sizeof *e);
    if (!e || !(e->path = scope_intern(m, path)))
        return model_fail(m, g, WEFT_MEMORY, "scope %s: memory could not be had", name);
    e->parent = g->scope;
    e->file = m->file;
    e->line = m->line;
    g->scope = e;
    return g;
}

void build_begin(build_place *b, weft_graph *g, const char *path, weft_node *after) {
    *b = (build_place){.g = g,
                       .here = {.path = path},
                       .scope = g->scope,
                       .cursor = g->cursor,
                       .backward = g->building_backward,
                       .update = g->building_update,
                       .f32 = g->building_f32};
    g->scope = &b->here;
    g->cursor = after;
}

void build_end(build_place *b) {
    b->g->scope = b->scope;
    b->g->cursor = b->cursor;
    b->g->building_backward = b->backward;
    b->g->building_update = b->update;
    b->g->building_f32 = b->f32;
}

weft_graph *weft_scope_enter(weft_value *value, const char *name) {
    return value ? weft_graph_scope_enter(value->node->graph, name) : NULL;
}

weft_graph *weft_scope_leave(weft_graph *g) {
    if (!g) return NULL;
    if (!g->scope->parent)
        return model_fail(g->model, g, WEFT_ORDER, "graph %s: weft_scope_leave without a scope to leave",
                          g->name);
    g->scope = g->scope->parent;
    return NULL;
}

void weft_scope_end(weft_graph **scope) {
    if (*scope) *scope = weft_scope_leave(*scope);
}

weft_status scopes_check(const weft_model *m, weft_error *error) {
    for (const weft_graph *g = m->graphs; g; g = g->next)
        if (g->scope->parent)
            return error_set(
                error, WEFT_ORDER,
                "%s%sgraph %s: scope '%s' is still open: weft_scope_leave is missing, or its WEFT_SCOPE was "
                "left by return or goto (which a compiler without GNU C cannot see)",
                show_place(g->scope->file, g->scope->line).text, g->scope->file ? ": " : "", g->name,
                SHOW(g->scope->path));
    return WEFT_OK;
}

/* The ordinal counts the random calls of the graph. The graph's name is in the key, so that two graphs that call the
 * same function (z in d_step and g_step) draw different numbers, though their step counters agree. */
uint64_t random_key(weft_graph *g) {
    uint64_t graph = hash_text(g->name, 0);
    return hash_text(g->scope->path, graph + (uint64_t)g->next_random++);
}
