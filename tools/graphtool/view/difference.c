/* difference.c - what differs between two plans (diff/diff.h), as the page reads it:
 *
 *   {changes: [{kind, what, path, op, text, follows, graphs, nodes}], totals, memory: sums as
 *    `diff --json` has them, peaks: by graph, likewise, graphs: [{graphs, pairs}]}
 *
 * graphs and nodes: two numbers each, of the first plan and of the second; -1: it is not there. pairs: a
 * column; by node that runs in the first, the node of the second that it is. */
#include "tools/graphtool/view/view.h"

#include "tools/graphtool/diff/report.h"

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

static json_t *pairs_json(const diff_graph *g) {
    int n = g->pair ? graph_node_count(g->p[0]->graph) : 0;
    int *other = tool_new((size_t)n + 1, sizeof *other);
    if (n)
        for (const weft_node *at = g->p[0]->graph->first; at; at = at->next)
            other[at->order] = node_of(match_other(g->pair, 0, at));
    return view_column(other, n, sizeof *other, sizeof *other);
}

static json_t *graphs_json(const difference *d, const weft_plan *const plans[2]) {
    json_t *list = json_array();
    for (int i = 0; i < d->n_graphs; i++) {
        const diff_graph *g = &d->graphs[i];
        json_array_append_new(list, json_pack("{s:[i, i], s:o}", "graphs", graph_of(plans[0], g->p[0]),
                                              graph_of(plans[1], g->p[1]), "pairs", pairs_json(g)));
    }
    return list;
}

json_t *view_difference(const weft_plan *a, const weft_plan *b) {
    const weft_plan *const plans[2] = {a, b};
    const difference *d = diff_plans(a, b);
    json_t *list = json_array();
    for (int i = 0; i < d->n; i++) json_array_append_new(list, change_json(d, plans, &d->v[i]));
    return json_pack("{s:o, s:o, s:o, s:o, s:o}", "changes", list, "graphs", graphs_json(d, plans), "totals",
                     diff_sums_json(sums_of(plans)), "memory", diff_sums_json(sums_of_memory(plans)), "peaks",
                     diff_peaks_json(d));
}
