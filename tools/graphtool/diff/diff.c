/* diff.c - see diff.h: the graphs of the two, and the list of changes. */
#include "tools/graphtool/diff/diff.h"

#include "tools/graphtool/output/end.h"

#include <stdlib.h>
#include <string.h>

const char *const diff_kinds[] = {"added", "removed", "changed"};
const char *const diff_whats[] = {"setting", "parameter", "graph", "scope", "output", "node"};

void diff_add(difference *d, diff_change c) {
    d->v = tool_need(mem_grow(NULL, d->v, &d->room, (size_t)d->n + 1, sizeof *d->v));
    d->v[d->n++] = c;
}

/* ---- the graphs ---- */

/* Programs of one graph are told apart by their phases, graphs of models by their names. */
static diff_graph *graph_like(difference *d, const diff_graph *it) {
    for (int i = 0; i < d->n_graphs; i++)
        if (strcmp(d->graphs[i].name, it->name) == 0 && d->graphs[i].phase == it->phase) return &d->graphs[i];
    return NULL;
}

static void add_graph(difference *d, int side, diff_graph it) {
    diff_graph *known = graph_like(d, &it);
    if (!known) {
        known = &d->graphs[d->n_graphs++];
        *known = (diff_graph){.name = it.name, .phase = it.phase};
    }
    known->g[side] = it.g[0];
    known->p[side] = it.p[0];
}

static const char *alone_text(const weft_graph *g) {
    return tool_text("%s, %d nodes", g->mode == WEFT_TRAIN ? "train" : "eval", graph_node_count(g));
}

static void add_alone(difference *d, int graph) {
    const diff_graph *g = &d->graphs[graph];
    diff_add(d, (diff_change){.kind = g->g[1] ? DIFF_ADDED : DIFF_REMOVED,
                              .what = DIFF_GRAPH,
                              .graph = graph,
                              .path = g->name,
                              .op = "",
                              .text = alone_text(g->g[1] ? g->g[1] : g->g[0])});
}

static void compare_modes(difference *d, int graph) {
    const diff_graph *g = &d->graphs[graph];
    if (g->g[0]->mode == g->g[1]->mode) return;
    diff_add(d, (diff_change){.kind = DIFF_CHANGED,
                              .what = DIFF_GRAPH,
                              .graph = graph,
                              .path = g->name,
                              .op = "",
                              .text = g->g[0]->mode == WEFT_TRAIN ? "train -> eval" : "eval -> train"});
}

/* ---- the whole ---- */

static void free_changes(void *d) {
    free(((difference *)d)->v);
}

static difference *difference_of(size_t most_graphs) {
    difference *d = tool_keep(tool_new(1, sizeof *d), free_changes);
    d->graphs = tool_new(most_graphs + 1, sizeof *d->graphs);
    return d;
}

static void compare_all(difference *d, const weft_model *const models[2], const weft_plan *const plans[2]) {
    for (int i = 0; i < d->n_graphs; i++) {
        diff_graph *g = &d->graphs[i];
        if (!g->g[0] || !g->g[1]) continue;
        graph_match *pair = tool_new(1, sizeof *pair);
        *pair = graph_match_of(g->g[0], g->g[1]);
        g->pair = pair;
    }
    diff_settings(d, plans);
    diff_variables(d, models);
    for (int i = 0; i < d->n_graphs; i++) {
        if (d->graphs[i].pair) {
            compare_modes(d, i);
            diff_graph_nodes(d, i);
        } else {
            add_alone(d, i);
        }
    }
}

const difference *diff_plans(const weft_plan *a, const weft_plan *b) {
    const weft_plan *const plans[2] = {a, b};
    const weft_model *const models[2] = {a->model, b->model};
    difference *d = difference_of((size_t)a->n_programs + (size_t)b->n_programs);
    for (int side = 0; side < 2; side++)
        for (int i = 0; i < plans[side]->n_programs; i++) {
            const program *p = &plans[side]->programs[i];
            add_graph(d, side, (diff_graph){.name = p->name, .phase = p->phase, .g = {p->graph}, .p = {p}});
        }
    compare_all(d, models, plans);
    return d;
}

static bool runs_graph(const weft_plan *plan, const char *name) {
    for (int i = 0; i < plan->n_programs; i++)
        if (strcmp(plan->programs[i].name, name) == 0) return true;
    return false;
}

const difference *diff_models(const weft_model *const models[2], const weft_plan *const plans[2]) {
    size_t n = 0;
    for (int side = 0; side < 2; side++)
        for (const weft_graph *g = models[side]->graphs; g; g = g->next) n++;
    difference *d = difference_of(n);
    for (int side = 0; side < 2; side++)
        for (const weft_graph *g = models[side]->graphs; g; g = g->next)
            if (runs_graph(plans[0], g->name) || runs_graph(plans[1], g->name))
                add_graph(d, side, (diff_graph){.name = g->name, .g = {g}});
    compare_all(d, models, plans);
    return d;
}
