/* scope.c - names and paths: the stack of open scopes of a graph, interned paths, patterns with '*', and the
 * keys of random streams, which depend on the path of the call. Names are short and plain ASCII, so that they
 * can be printed, used in file names and matched by patterns without escapes. */
#include "graph/core/graph.h"

#include <stdio.h>
#include <string.h>

/* The first n characters, all of them. */
static bool is_name(const char *name, size_t n) {
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.";
    return n > 0 && n <= 200 && strspn(name, plain) >= n;
}

bool name_is_valid(const char *name) {
    return is_name(name, strnlen(name, 201)); /* a huge string costs no more */
}

/* 1000 characters at most; no empty names, so no leading, trailing or doubled '/'. */
bool path_is_valid(const char *path) {
    if (strlen(path) > 1000) return false;
    for (;; path++) {
        size_t n = strcspn(path, "/");
        if (!is_name(path, n)) return false;
        path += n;
        if (!*path) return true;
    }
}

/* Matches '*' against any characters. On a mismatch only the last '*' takes one more character, so the worst
 * case is O(pattern x string), without recursion. */
static bool glob(const char *pattern, const char *end, const char *string) {
    const char *star = NULL, *retry = NULL;
    while (*string) {
        if (pattern < end && *pattern == '*') {
            star = pattern++;
            retry = string;
        } else if (pattern < end && *pattern == *string) {
            pattern++;
            string++;
        } else if (star) {
            pattern = star + 1;
            string = ++retry;
        } else {
            return false;
        }
    }
    while (pattern < end && *pattern == '*') pattern++;
    return pattern == end;
}

/* One pattern of n bytes. Without '*' it is a scope or a whole path: "net/fc" matches "net/fc/weight" but not
 * "net/fc2". */
static bool one_matches(const char *pattern, size_t n, const char *path) {
    if (memchr(pattern, '*', n)) return glob(pattern, pattern + n, path);
    return n && strncmp(pattern, path, n) == 0 && (path[n] == 0 || path[n] == '/');
}

bool path_matches(const char *pattern, const char *path) {
    if (!pattern || !*pattern) return true;
    for (;; pattern++) {
        size_t n = strcspn(pattern, ",");
        if (one_matches(pattern, n, path)) return true;
        pattern += n;
        if (!*pattern) return false;
    }
}

bool pattern_next(const char *patterns, size_t *at, char one[PATTERN_ROOM]) {
    size_t length = strlen(patterns);
    if (*at > length) return false;
    size_t n = strcspn(patterns + *at, ",");
    if (n == 0 && length)
        snprintf(one, PATTERN_ROOM, ",");
    else
        snprintf(one, PATTERN_ROOM, "%.*s", (int)(n < PATTERN_ROOM ? n : PATTERN_ROOM), patterns + *at);
    *at += n + 1;
    return true;
}

/* Never frees a path; a model has few. */
const char *scope_intern(weft_model *m, const char *path) {
    char *known = table_find(&m->scopes, path);
    if (known) return known;
    char *copy = arena_copy(&m->arena, path);
    if (!copy || !table_add(&m->scopes, &m->arena, copy, copy))
        return model_fail(m, NULL, WEFT_MEMORY, "scope %s: out of memory", SHOW(path));
    return copy;
}

weft_graph *weft_graph_scope_enter(weft_graph *g, const char *name) {
    if (!g || !model_ok(g->model)) return NULL;
    weft_model *m = g->model;
    if (!name)
        return model_fail(m, g, WEFT_NAME,
                          "a layer or a scope needs a name: 1 to 200 letters, digits, '_', '-', '.'");
    if (!name_is_valid(name))
        return model_fail(m, g, WEFT_NAME, "scope name '%s': 1 to 200 letters, digits, '_', '-', '.'",
                          SHOW(name));
    const char *above = g->scope->path;
    char path[1024];
    /* The format without a slash prints the empty path above, then the name. */
    int length = snprintf(path, sizeof path, *above ? "%s/%s" : "%s%s", above, name);
    if (length < 0 || length > 1000)
        return model_fail(m, g, WEFT_NAME, "scope %s: the path would be longer than 1000 characters", name);
    scope_entry *e = arena_new(&m->arena, sizeof *e);
    if (!e || !(e->path = scope_intern(m, path)))
        return model_fail(m, g, WEFT_MEMORY, "scope %s: out of memory", name);
    e->parent = g->scope;
    e->file = m->file;
    e->line = m->line;
    g->scope = e;
    return g;
}

/* The scope entry is in `b`, on the caller's stack, so build_end must come before the caller returns. */
void build_begin(build_place *b, weft_graph *g, const char *path, weft_node *after) {
    *b = (build_place){.g = g,
                       .here = {.path = path},
                       .scope = g->scope,
                       .cursor = g->cursor,
                       .file = g->model->file,
                       .line = g->model->line,
                       .backward = g->building_backward,
                       .update = g->building_update,
                       .f32 = g->building_f32};
    g->scope = &b->here;
    g->cursor = after;
}

void build_end(build_place *b) {
    b->g->scope = b->scope;
    b->g->cursor = b->cursor;
    b->g->model->file = b->file;
    b->g->model->line = b->line;
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
        return graph_fail(g, WEFT_ORDER, "graph %s: weft_scope_leave without a scope to leave", g->name);
    g->scope = g->scope->parent;
    return NULL;
}

/* For __attribute__((cleanup)): leaves the scope when WEFT_SCOPE's block ends, unless it never opened. */
void weft_scope_end(weft_graph **scope) {
    if (*scope) *scope = weft_scope_leave(*scope);
}

/* Runs before compiling and saving, where a scope left open would silently have renamed later parameters. */
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

/* Hashes the scope, the graph's name and the ordinal of the random call in the graph. The name is part of it
 * so that two graphs that call the same function (z in d_step and g_step) draw different numbers although
 * their step counters agree. */
uint64_t random_key(weft_graph *g) {
    uint64_t graph = hash_text(g->name, 0);
    return hash_text(g->scope->path, graph + (uint64_t)g->next_random++);
}
