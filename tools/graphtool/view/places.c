/* places.c - where values lie in the arena of the program that runs, from which step until which their
 * buffers are needed, and the step at which most bytes are needed. */
#include "tools/graphtool/view/view.h"

#include "runtime/plan/value.h"

/* By id of a value: its number in the view. State 0 of view_collect has all values of the program first. */
static int *numbers_of(view_graph *g, const weft_graph *of) {
    int *number = view_new(&g->memory, of->next_id + 1, sizeof *number), i = 0;
    for (const weft_node *n = of->first; n; n = n->next)
        for (int k = 0; k < n->n_out; k++) number[n->out[k].id] = i++;
    return number;
}

static void note_use(view_value *root, int step) {
    if (root->from < 0 || step < root->from) root->from = step;
    if (step > root->until) root->until = step;
}

/* The buffer of each root is needed from the first write of what lies in it until the last read; of an output
 * until the end of the run. */
static void find_lives(view_graph *g, const weft_graph *of, const int *number) {
    for (const weft_node *n = of->first; n; n = n->next)
        for (int i = 0; i < n->n_in + n->n_out; i++) {
            const weft_value *v = node_value_at(n, i), *root = v ? value_root(v) : NULL;
            if (root && value_is_arenas(root)) note_use(&g->values[number[root->id]], n->order);
        }
    for (const graph_output *o = of->outputs; o; o = o->next) {
        const weft_value *root = value_root(o->value);
        if (value_is_arenas(root)) note_use(&g->values[number[root->id]], of->n_nodes);
    }
}

/* A value within another's buffer is there from its own node on. */
static void place_value(view_graph *g, const weft_value *v, const int *number) {
    view_value *at = &g->values[number[v->id]];
    const weft_value *root = value_root(v);
    if (root != v) at->base = number[root->id];
    if (!value_is_arenas(root) || root->arena_offset < 0) return;
    at->offset = root->arena_offset + value_offset(v);
    if (root != v) at->from = v->node->order, at->until = g->values[at->base].until;
}

static void add_workspace(view_graph *g, const weft_node *n) {
    if (!n->workspace_bytes) return;
    g->workspaces = view_grow(&g->memory, g->workspaces, g->n_workspaces, sizeof *g->workspaces);
    g->workspaces[g->n_workspaces++] =
        (view_workspace){n->order, n->workspace_offset, (int64_t)n->workspace_bytes};
}

/* The first step at which most bytes are needed; change[] is by step, with the end of the run. */
static int find_peak(const view_graph *g, int64_t *change, int steps) {
    int64_t now = 0, most = -1;
    int peak = -1;
    for (int i = 0; i < g->n_values; i++) {
        const view_value *v = &g->values[i];
        if (v->base >= 0 || v->offset < 0) continue;
        change[v->from] += v->bytes;
        change[v->until + 1] -= v->bytes;
    }
    for (int i = 0; i < g->n_workspaces; i++) {
        change[g->workspaces[i].node] += g->workspaces[i].bytes;
        change[g->workspaces[i].node + 1] -= g->workspaces[i].bytes;
    }
    for (int i = 0; i < steps; i++) {
        now += change[i];
        if (now > most) most = now, peak = i;
    }
    return peak;
}

void view_places(view_graph *g, const program *p) {
    const weft_graph *of = p->graph;
    const int *number = numbers_of(g, of);
    find_lives(g, of, number);
    for (const weft_node *n = of->first; n; n = n->next) {
        for (int k = 0; k < n->n_out; k++) place_value(g, &n->out[k], number);
        add_workspace(g, n);
    }
    g->peak_step = find_peak(g, view_new(&g->memory, of->n_nodes + 3, sizeof(int64_t)), of->n_nodes);
}
