/* difference.c - what differs between two plans (diff/diff.h), as the page reads it: {changes: [{kind, what,
 * path, op, text, follows, graphs, nodes}]}. graphs and nodes: two numbers each, of the first plan and of
 * the second; -1: it is not there. */
#include "tools/graphtool/view/view.h"

#include "tools/graphtool/diff/diff.h"

/* The place of a program in its plan. */
static int graph_of(const weft_plan *plan, const program *p) {
    return p ? (int)(p - plan->programs) : -1;
}

/* A node that runs has the number of its step. */
static int node_of(const weft_node *n) {
    return n ? n->order : -1;
}

static json_t *change_json(const difference *d, const weft_plan *const plans[2], const diff_change *c) {
    const diff_graph *g = c->graph < 0 ? NULL : &d->graphs[c->graph];
    return json_pack("{s:s, s:s, s:o, s:s, s:o, s:b, s:[i, i], s:[i, i]}", "kind", diff_kinds[c->kind],
                     "what", diff_whats[c->what], "path", view_string(c->path), "op", c->op, "text",
                     view_string(c->text), "follows", c->follows, "graphs",
                     graph_of(plans[0], g ? g->p[0] : NULL), graph_of(plans[1], g ? g->p[1] : NULL), "nodes",
                     node_of(c->node[0]), node_of(c->node[1]));
}

json_t *view_difference(const weft_plan *a, const weft_plan *b) {
    const weft_plan *const plans[2] = {a, b};
    const difference *d = diff_plans(a, b);
    json_t *list = json_array();
    for (int i = 0; i < d->n; i++) json_array_append_new(list, change_json(d, plans, &d->v[i]));
    return json_pack("{s:o}", "changes", list);
}
