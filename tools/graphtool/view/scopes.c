/* scopes.c - the scopes of a graph in all its states, as a tree. */
#include "tools/graphtool/view/view.h"

#include <string.h>

static int scope_new(view_graph *g, const char *path, int parent) {
    char *copy = tool_need(arena_copy(&g->memory, path));
    int *number = view_new(&g->memory, 1, sizeof *number);
    g->scopes = view_grow(&g->memory, g->scopes, g->n_scopes, sizeof *g->scopes);
    *number = g->n_scopes;
    g->scopes[g->n_scopes++] = (view_scope){.path = view_text(g->of->texts, path),
                                            .name = view_text(g->of->texts, path_leaf(path)),
                                            .parent = parent,
                                            .same = *number,
                                            .depth = parent < 0 ? 0 : g->scopes[parent].depth + 1,
                                            .first_child = -1,
                                            .next = -1,
                                            .row = {-1, -1, -1},
                                            .column = {-1, -1, -1}};
    if (!table_add(&g->by_path, &g->memory, copy, number)) tool_fail("out of memory");
    return *number;
}

/* A parent has a smaller number than its children. */
int view_scope_of(view_graph *g, const char *path) {
    if (!g->n_scopes) scope_new(g, "", -1);
    const int *found = table_find(&g->by_path, path);
    int parent = 0;
    if (found) return *found;
    for (const char *at = path; (at = strchr(at, '/')); at++) {
        char *above = tool_need(arena_printf(&g->memory, "%.*s", (int)(at - path), path));
        found = table_find(&g->by_path, above);
        parent = found ? *found : scope_new(g, above, parent);
    }
    return scope_new(g, path, parent);
}

/* Children are linked in the order of their numbers, that of their first nodes. */
static void link_children(view_graph *g) {
    for (int i = g->n_scopes - 1; i > 0; i--) {
        view_scope *above = &g->scopes[g->scopes[i].parent];
        above->nodes += g->scopes[i].nodes;
        g->scopes[i].next = above->first_child;
        above->first_child = i;
    }
}

/* A scope's own nodes come first, then each child with all that is in it. Parents come before children. */
static void find_ranges(view_graph *g, const int *own) {
    g->scopes[0].end = g->n_nodes;
    for (int i = 0; i < g->n_scopes; i++) {
        int at = g->scopes[i].begin + own[i];
        for (int c = g->scopes[i].first_child; c >= 0; c = g->scopes[c].next) {
            g->scopes[c].begin = at;
            at = g->scopes[c].end = at + g->scopes[c].nodes;
        }
    }
}

void view_scopes_finish(view_graph *g) {
    view_scope_of(g, "");
    int *own = view_new(&g->memory, g->n_scopes, sizeof *own);
    int *next = view_new(&g->memory, g->n_scopes, sizeof *next);
    g->by_scope = view_new(&g->memory, g->n_nodes, sizeof *g->by_scope);
    g->place = view_new(&g->memory, g->n_nodes, sizeof *g->place);
    for (int i = 0; i < g->n_nodes; i++) own[g->nodes[i].scope]++;
    for (int i = 0; i < g->n_scopes; i++) g->scopes[i].nodes = own[i];
    link_children(g);
    find_ranges(g, own);
    for (int i = 0; i < g->n_nodes; i++) {
        int s = g->nodes[i].scope;
        g->place[i] = g->scopes[s].begin + next[s]++;
        g->by_scope[g->place[i]] = i;
    }
}
