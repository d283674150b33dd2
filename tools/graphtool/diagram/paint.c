/* paint.c - see paint.h. Graphviz copies all names and values, so the casts to char * are safe. */
#include "tools/graphtool/diagram/paint.h"

#include "graph/core/kernel.h"
#include "graph/settings/ddp.h"
#include "tools/graphtool/model/tools.h"

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

/* cgraph orders clusters by their ids, and an id is the address of a name, so the same picture would have
 * several texts and layouts. Without an id for a name it counts, and keeps the name itself. */
static __typeof__(AgIdDisc.map(NULL, 0, NULL, NULL, 0)) count_ids(void *state, int kind, char *name,
                                                                  IDTYPE *id, int create) {
    return name ? 0 : AgIdDisc.map(state, kind, name, id, create);
}

Agraph_t *paint_new(const char *name) {
    static Agiddisc_t ids;
    static Agdisc_t how = {.id = &ids};
    ids = AgIdDisc;
    ids.map = count_ids;
    return tool_need(agopen((char *)name, Agdirected, &how));
}

/* Subgraphs are numbered by their first parameters, as those of a plan are. */
const subgraph_look *subgraph_look_of(const weft_model *m, const char *path) {
    static const subgraph_look none = {"#666666", "#f4f4f4"};
    enum { MOST = 64 }; /* any further ones look like the last */
    struct {
        const char *path;
        size_t length;
    } seen[MOST];
    int n = 0;
    const char *scope = tool_text("%s/", path);
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

/* The next NAME=VALUE of a text: NAME, and its value; NULL: there is no more. */
static char *next_attribute(const char **at, char name[WORD_ROOM]) {
    char *value = next_word(at, name) ? strchr(name, '=') : NULL;
    if (value) *value++ = 0;
    return value;
}

void paint(void *object, const char *format, ...) {
    char name[WORD_ROOM], *value;
    va_list args;
    va_start(args, format);
    const char *all = tool_vtext(format, args);
    va_end(args);
    while ((value = next_attribute(&all, name))) agsafeset(object, name, value, "");
}

void range_text(text *t, int64_t low, int64_t high) {
    text_add(t, low == high ? "%lld" : "%lld\xe2\x80\xa6%lld", (long long)low, (long long)high);
}

void paint_text(void *object, const char *name, text *t) {
    agsafeset(object, (char *)name, tool_take(t), "");
}

void paint_html(Agraph_t *g, void *object, text *t) {
    char *html = tool_need(agstrdup_html(g, tool_take(t)));
    agset(object, "label", html);
    agstrfree(g, html);
}

/* Labels are declared here because agset, unlike agsafeset, needs that. */
void paint_defaults(Agraph_t *g, const char *title) {
    static const struct {
        int kind;
        const char *all;
    } rows[] = {
        {AGRAPH, "fontname=Helvetica labelloc=t labeljust=l ranksep=0.18 nodesep=0.14 fontsize=12 label="},
        {AGNODE, "fontname=Helvetica fontsize=9.5 style=filled,rounded shape=box height=0.22 "
                 "margin=0.11,0.035 label= tooltip="},
        {AGEDGE, "fontname=Helvetica fontsize=9 arrowsize=0.6 color=#555555 fontcolor=#333333"}};
    char name[WORD_ROOM], *value;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (const char *at = rows[i].all; (value = next_attribute(&at, name));)
            agattr(g, rows[i].kind, name, value);
    agset(g, "label", (char *)title);
}

/* ---- tooltips: each part is on a line of its own ---- */

void tip_value(text *t, const weft_value *v) {
    text_add(t, "\n%%%d %s, %s", v->id, TYPE(&v->type), BYTES(type_bytes(&v->type)));
}

void tip_node(text *t, const weft_node *n, int count) {
    text_add(t, "%s", n->op->name);
    if (*n->scope) text_add(t, " in %s", n->scope);
    if (n->variable && n->op->flags & OP_VARIABLE) text_add(t, " of %s", n->variable->path);
    if (count > 1) text_add(t, ", the first of %d", count);
    for (int k = 0; k < n->n_out; k++) tip_value(t, &n->out[k]);
    if (n->kernel) text_add(t, "\nkernel: %s", n->kernel->name);
}
