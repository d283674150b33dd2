/* paint.c - see paint.h. Graphviz copies all names and values, so the casts to char * are safe. */
#include "tools/graphtool/diagram/paint.h"

#include "graph/settings/ddp.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const subgraph_look looks[] = {{"#2f6db3", "#e9f1fb"}, {"#b3541e", "#fdf0e6"}, {"#3f8f3a", "#ecf6ea"},
                                      {"#8344a8", "#f5ecfa"}, {"#a88a00", "#faf6e0"}, {"#b02a5b", "#fbe9f0"}};
enum { LOOKS = sizeof looks / sizeof *looks };

/* Whether a parameter lies in the top-level scope of `path`. */
static bool has_parameters(const weft_model *m, const char *path) {
    size_t n = strcspn(path, "/");
    for (const weft_variable *v = m->variables; v; v = v->next)
        if (v->kind == VARIABLE_PARAMETER && strncmp(v->path, path, n) == 0 && v->path[n] == '/') return true;
    return false;
}

/* Subgraphs are numbered by their first parameters, as those of a plan are. */
const subgraph_look *subgraph_look_of(const weft_model *m, const char *path) {
    static const subgraph_look none = {"#666666", "#f4f4f4"};
    enum { MOST = 64 }; /* any further ones look like the last */
    struct {
        const char *path;
        size_t length;
    } seen[MOST];
    char scope[PATTERN_ROOM];
    int n = 0;
    snprintf(scope, sizeof scope, "%s/", path);
    size_t wanted = ddp_subgraph(m, scope);
    for (const weft_variable *v = has_parameters(m, path) ? m->variables : NULL; v; v = v->next) {
        if (v->kind != VARIABLE_PARAMETER) continue;
        size_t length = ddp_subgraph(m, v->path);
        int i = 0;
        while (i < n && !(seen[i].length == length && memcmp(seen[i].path, v->path, length) == 0)) i++;
        if (length == wanted && memcmp(v->path, scope, length) == 0) return &looks[i % LOOKS];
        if (i == n && n < MOST - 1) seen[n].path = v->path, seen[n++].length = length;
    }
    return &none;
}

const subgraph_look *subgraph_look_at(int place) {
    return &looks[place % LOOKS];
}

void paint_set(void *object, const char *name, const char *value) {
    agsafeset(object, (char *)name, (char *)value, "");
}

void paint_text(void *object, const char *name, text *t) {
    paint_set(object, name, t->data ? t->data : "");
    free(t->data);
    *t = (text){0};
}

void paint_html(Agraph_t *g, void *object, text *t) {
    char *html = t->data && !t->failed ? agstrdup_html(g, t->data) : NULL;
    free(t->data);
    *t = (text){0};
    if (!html) return;
    agset(object, "label", html);
    agstrfree(g, html);
}

/* Defaults of attributes; labels are declared here because agset, unlike agsafeset, needs that. */
void paint_defaults(Agraph_t *g, const char *title) {
    static const char *const rows[][3] = {
        {"G", "fontname", "Helvetica"}, {"G", "labelloc", "t"},       {"G", "labeljust", "l"},
        {"G", "ranksep", "0.18"},       {"G", "nodesep", "0.14"},     {"G", "fontsize", "12"},
        {"N", "fontname", "Helvetica"}, {"N", "fontsize", "9.5"},     {"N", "style", "filled,rounded"},
        {"N", "shape", "box"},          {"N", "height", "0.22"},      {"N", "margin", "0.11,0.035"},
        {"E", "fontname", "Helvetica"}, {"E", "fontsize", "9"},       {"E", "arrowsize", "0.6"},
        {"E", "color", "#555555"},      {"E", "fontcolor", "#333333"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        agattr(g,
               *rows[i][0] == 'G'   ? AGRAPH
               : *rows[i][0] == 'N' ? AGNODE
                                    : AGEDGE,
               (char *)rows[i][1], (char *)rows[i][2]);
    agattr(g, AGNODE, "label", "");
    agattr(g, AGNODE, "tooltip", "");
    agattr(g, AGRAPH, "label", "");
    agset(g, "label", (char *)title);
}
