/* precision_of.c - weft_model_set_precision, and which of its entries applies to a node: the most specific
 * one, where a scope is more specific than a graph and a longer path than a shorter one.
 *
 * Programs, files and dumps all set entries through precision_set, so an entry has one of three types and a
 * well-formed path. Whether a path names a graph or a scope is known only when the model is complete:
 * precision_astray checks it. */
#include "graph/settings/precision.h"

#include <string.h>

const char *path_plain(const char *path) {
    return !path || strcmp(path, "/") == 0 ? "" : path;
}

const char *path_full(const char *path) {
    return *path ? path : "/";
}

const precision_entry *precision_at(const weft_model *m, const char *path) {
    for (const precision_entry *e = m->precisions; e; e = e->next)
        if (strcmp(e->path, path_plain(path)) == 0) return e;
    return NULL;
}

bool precision_set(weft_model *m, const char *path, weft_dtype dtype) {
    path = path_plain(path);
    if (!model_ok(m)) return false;
    if (*path && !path_is_valid(path))
        return model_fail(m, NULL, WEFT_NAME,
                          "precision: '%s' cannot be the name of a graph or the path of a scope", SHOW(path));
    if (dtype != WEFT_F32 && !dtype_is_reduced(dtype))
        return model_fail(m, NULL, WEFT_ARGUMENT, "precision %s: %s: it must be f32, bf16 or f16",
                          SHOW(path_full(path)), dtype_name(dtype));
    /* The model owns its entries; const is for other callers. */
    precision_entry *e = (precision_entry *)precision_at(m, path);
    if (!e) {
        e = arena_new(&m->arena, sizeof *e);
        if (!e || !(e->path = scope_intern(m, path)))
            return model_fail(m, NULL, WEFT_MEMORY, "precision %s: out of memory", SHOW(path_full(path)));
        *m->precisions_end = e;
        m->precisions_end = &e->next;
    }
    e->dtype = dtype;
    return true;
}

weft_status weft_model_set_precision(weft_model *m, const char *path, weft_dtype dtype) {
    if (!m) return WEFT_ARGUMENT;
    precision_set(m, path, dtype);
    return m->error.status;
}

void precision_write(text *t, const precision_entry *e) {
    text_add(t, "precision %s %s\n", path_full(e->path), dtype_name(e->dtype));
}

/* ---- which entry applies to a node ---- */

/* Whether `path` is the scope or inside it. */
static bool lies_under(const char *path, const char *scope) {
    size_t n = strlen(path);
    return strncmp(path, scope, n) == 0 && (scope[n] == 0 || scope[n] == '/');
}

/* How specific an entry is for a scope of a graph: 0 does not apply, 1 the whole model, 2 the graph, above
 * that scopes by the length of their path, which may begin with the graph's name. */
static size_t fit(const char *path, const char *graph, const char *scope) {
    size_t n = strlen(graph);
    if (!*path) return 1;
    if (strncmp(path, graph, n) == 0 && path[n] == '/' && lies_under(path + n + 1, scope))
        return 2 + strlen(path);
    if (lies_under(path, scope)) return 2 + strlen(path);
    return strcmp(path, graph) == 0 ? 2 : 0;
}

weft_dtype precision_of(const weft_model *m, const char *graph, const char *scope, weft_dtype otherwise) {
    size_t best = 0;
    for (const precision_entry *e = m->precisions; e; e = e->next) {
        size_t fits = fit(e->path, graph, scope);
        /* Of equal fits ("g/a" and "a/b" for scope a/b of graph g) the first entry counts. */
        if (fits <= best) continue;
        best = fits;
        otherwise = e->dtype;
    }
    return otherwise;
}

bool precision_reaches(const weft_graph *g, weft_dtype dtype, weft_dtype otherwise) {
    for (const weft_node *n = g->first; n; n = n->next)
        if (precision_of(g->model, g->name, n->scope, otherwise) == dtype) return true;
    return false;
}

/* Costs the nodes of the whole model for each entry, and runs once per compile. */
static bool names_something(const weft_model *m, const char *path) {
    for (const weft_graph *g = m->graphs; g; g = g->next) {
        if (fit(path, g->name, "")) return true;
        for (const weft_node *n = g->first; n; n = n->next)
            if (fit(path, g->name, n->scope)) return true;
    }
    return false;
}

const precision_entry *precision_astray(const weft_model *m) {
    for (const precision_entry *e = m->precisions; e; e = e->next)
        if (!names_something(m, e->path)) return e;
    return NULL;
}
