/* diagram.c - builds a diagram from a graph: items in boxes, units, and edges, with boxes closed until the
 * units are few. */
#include "tools/graphtool/diagram/diagram.h"
#include "ops/kit/ops.h"
#include "tools/graphtool/output/end.h"

#include <stdlib.h>
#include <string.h>

/* ---- items and boxes ---- */

/* Marks, with 0 in item_of, the values that outputs and training depend on. The forward view leaves out the
 * rest, nodes that only update state. */
static void mark_wanted(diagram *s) {
    for (const graph_output *o = s->graph->outputs; o; o = o->next) s->item_of[o->value->id] = 0;
    for (const weft_node *n = s->graph->last; n; n = n->prev) {
        bool wanted = n->op == &weft_op_minimize;
        for (int k = 0; k < n->n_out; k++) wanted = wanted || s->item_of[n->out[k].id] == 0;
        for (int i = 0; wanted && i < n->n_in; i++)
            if (n->in[i]) s->item_of[n->in[i]->id] = 0;
        if (wanted && n->n_out) s->item_of[n->out[0].id] = 0;
    }
}

/* Is the node worth drawing? Parameters appear in the labels of their readers; scalars and state would only
 * clutter the picture. */
static bool is_drawn(const diagram *s, const weft_node *n) {
    if (n->op == &weft_op_parameter) return false;
    if (n->op == &weft_op_constant && type_elements(&n->out[0].type) == 1) return false;
    if (s->how.all) return true;
    if (n->is_backward || n->is_update || n->op == &weft_op_state || n->op == &weft_op_assign) return false;
    return n->n_out == 0 || s->item_of[n->out[0].id] >= 0;
}

/* The child of that name, made if there is none. */
static int box_child(diagram *s, int parent, const char *name, const char *path) {
    for (int c = s->boxes[parent].first_child; c >= 0; c = s->boxes[c].next)
        if (strcmp(s->boxes[c].name, name) == 0) return c;
    return diagram_box_new(s, parent, name, path);
}

/* The box of a scope path. Backward and update nodes have top-level boxes of their own, and updates without a
 * scope share one. */
static int box_of(diagram *s, const char *path, diagram_phase phase) {
    static const char *const names[] = {"", "backward", "update"};
    const char *what = names[phase];
    int b = 0;
    if (!*path && phase == DIAGRAM_UPDATE) b = box_child(s, 0, what, what);
    for (const char *p = path; *p;) {
        size_t n = strcspn(p, "/");
        const char *tail = b == 0 ? what : "", *gap = *tail ? ", " : "";
        b = box_child(s, b, tool_text("%.*s%s%s", (int)n, p, gap, tail),
                      tool_text("%.*s", (int)(p + n - path), path));
        s->boxes[b].phase = phase;
        p += n + (p[n] == '/');
    }
    if (b) s->boxes[b].phase = phase;
    return b;
}

/* Appends an item, what it reads, and the values that it makes. */
static void item_new(diagram *s, int box, const weft_node *n, const graph_output *output) {
    int i = s->n_items++;
    s->items[i] = (diagram_item){.node = n, .output = output, .representative = i, .also = -1, .host = -1};
    diagram_add_item(s, box, i);
    weft_value *const *in = n ? n->in : &output->value;
    for (int k = 0; k < (n ? n->n_in : 1); k++)
        if (in[k] && s->item_of[in[k]->id] >= 0)
            s->reads[s->n_reads++] = (diagram_read){s->item_of[in[k]->id], i, in[k]};
    for (int k = 0; n && k < n->n_out; k++) s->item_of[n->out[k].id] = i;
}

/* Makes all items and boxes. */
static void collect_items(diagram *s) {
    const weft_graph *g = s->graph;
    int nodes = 1, boxes = 2, reads = 1, ids = g->next_id + 1;
    for (const weft_node *n = g->first; n; n = n->next, nodes++) {
        for (const char *p = n->scope; p && *p; p++) boxes += *p == '/';
        reads += n->n_in;
    }
    /* an upper bound: each node opens at most its whole path and a round of a run */
    boxes += 4 * nodes;
    for (const graph_output *o = g->outputs; o; o = o->next) nodes++, reads++;
    s->items = diagram_new(s, nodes, sizeof *s->items);
    s->boxes = diagram_new(s, boxes, sizeof *s->boxes);
    s->reads = diagram_new(s, reads, sizeof *s->reads);
    s->units = diagram_new(s, nodes, sizeof *s->units);
    s->unit_of = diagram_new(s, nodes, sizeof *s->unit_of);
    s->item_of = diagram_new(s, ids, sizeof *s->item_of);
    for (int i = 0; i < ids; i++) s->item_of[i] = -1;
    mark_wanted(s);
    diagram_box_new(s, -1, "", "");
    for (const weft_node *n = g->first; n; n = n->next) {
        bool drawn = is_drawn(s, n);
        for (int k = 0; k < n->n_out; k++) s->item_of[n->out[k].id] = -1; /* the mark is no longer needed */
        if (drawn) item_new(s, box_of(s, n->scope, diagram_phase_of(n)), n, NULL);
    }
    for (const graph_output *o = g->outputs; o; o = o->next) item_new(s, 0, NULL, o);
}

/* A leaf is bare when none of its items reads another: a layer of one op, called once or several times. */
static void find_bare(diagram *s) {
    for (int b = 1; b < s->n_boxes; b++) s->boxes[b].is_bare = s->boxes[b].first_child < 0;
    for (int r = 0; r < s->n_reads; r++) {
        int box = s->items[s->reads[r].to].box;
        if (s->items[s->reads[r].from].box == box) s->boxes[box].is_bare = false;
    }
}

/* In pictures of all nodes, a view in the same box and phase as the node it views is drawn as part of
 * that. */
static void find_hosts(diagram *s) {
    for (int r = 0; r < s->n_reads; r++) {
        int from = s->reads[r].from;
        diagram_item *view = &s->items[s->reads[r].to];
        const weft_node *n = view->node;
        if (!n || !(n->op->flags & OP_VIEW) || s->reads[r].value != n->in[0]) continue;
        if (diagram_collapses_by_op(s, view) || s->items[from].box != view->box) continue;
        if (diagram_phase_of(s->items[from].node) == diagram_phase_of(n)) view->host = from;
    }
}

/* ---- units ---- */

/* The outermost closed box around an item; -1: all are open. */
static int closed_around(const diagram *s, int item) {
    int closed = -1, b = s->items[item].box;
    if (s->boxes[b].is_bare) b = s->boxes[b].parent;
    for (; b > 0; b = s->boxes[b].parent)
        if (s->boxes[b].depth > s->open_depth) closed = b;
    return closed;
}

/* Makes the units for the current open depth, in the graph's order. unit_of_box is scratch, [n_boxes]. */
static void cut_units(diagram *s, int *unit_of_box) {
    for (int b = 0; b < s->n_boxes; b++) unit_of_box[b] = -1;
    s->n_units = 0;
    for (int i = 0; i < s->n_items; i++) {
        if (s->items[i].representative != i) continue;
        int box = closed_around(s, i), host = s->items[i].host;
        if (box < 0 && host >= 0) {
            s->unit_of[i] = s->unit_of[s->items[host].representative];
            continue;
        }
        int *unit = box >= 0 ? &unit_of_box[box] : &s->unit_of[i];
        if (box < 0 || *unit < 0) {
            s->units[s->n_units] = (diagram_unit){.item = box < 0 ? i : -1, .box = box, .parts = 1};
            *unit = s->n_units++;
        }
        s->unit_of[i] = *unit;
    }
    for (int i = 0; i < s->n_items; i++) {
        s->unit_of[i] = s->unit_of[s->items[i].representative];
        s->units[s->unit_of[i]].stands++;
    }
}

/* The last resort of I1: merges runs of units into max_nodes. */
static void merge_units(diagram *s, int max_nodes) {
    int n = s->n_units;
    for (int i = 0; i < s->n_items; i++) s->unit_of[i] = (int)((int64_t)s->unit_of[i] * max_nodes / n);
    int last = -1;
    for (int u = 0; u < n; u++) {
        int into = (int)((int64_t)u * max_nodes / n);
        if (into == last) {
            s->units[into].parts++;
            s->units[into].stands += s->units[u].stands;
        } else {
            s->units[into] = s->units[u];
        }
        last = into;
    }
    s->n_units = last + 1;
}

/* Closes one level of boxes after another until I1 holds. */
static void close_until_few(diagram *s) {
    int depth = s->how.depth, max_nodes = s->how.max_nodes;
    int deepest = 0, *scratch = diagram_new(s, s->n_boxes, sizeof *scratch);
    for (int b = 0; b < s->n_boxes; b++)
        if (s->boxes[b].depth > deepest) deepest = s->boxes[b].depth;
    s->open_depth = depth >= 0 && depth < deepest ? depth : deepest;
    cut_units(s, scratch);
    s->is_cut = s->n_units > max_nodes;
    while (s->n_units > max_nodes && s->open_depth > 0) {
        s->open_depth--;
        cut_units(s, scratch);
    }
    if (s->n_units > max_nodes) merge_units(s, max_nodes);
}

/* ---- edges between units ---- */

static int edge_order(const void *a, const void *b) {
    const diagram_edge *x = a, *y = b;
    if (x->from != y->from) return x->from < y->from ? -1 : 1;
    if (x->to != y->to) return x->to < y->to ? -1 : 1;
    if (x->repeats != y->repeats) return x->repeats ? 1 : -1;
    int p = x->value ? x->value->id : 0, q = y->value ? y->value->id : 0;
    return (p > q) - (p < q);
}

/* Merges the edges between two units into one; further types are counted in `more`. */
static void merge_edges(diagram *s) {
    int kept = 0;
    qsort(s->edges, (size_t)s->n_edges, sizeof *s->edges, edge_order);
    for (int i = 0; i < s->n_edges; i++) {
        diagram_edge *e = &s->edges[i], *last = kept ? &s->edges[kept - 1] : NULL;
        if (!last || last->from != e->from || last->to != e->to)
            s->edges[kept++] = *e;
        else if (!e->repeats && !type_equal(&last->value->type, &e->value->type))
            last->more++;
        s->edges[kept - 1].is_own |= e->is_own;
    }
    s->n_edges = kept;
}

static bool is_of_one_scope(const weft_node *a, const weft_node *b) {
    return a && b && strcmp(a->scope, b->scope) == 0;
}

/* The value that represents v: the same result of the representative of its node. */
static const weft_value *drawn_value(const diagram *s, const weft_value *v, int from) {
    const weft_node *representative = s->items[s->items[from].representative].node;
    int k = (int)(v - v->node->out);
    return k < representative->n_out ? &representative->out[k] : v;
}

/* Makes the edges between units from what items read. */
static void join_units(diagram *s) {
    s->edges = diagram_new(s, s->n_reads + 1, sizeof *s->edges);
    for (int r = 0; r < s->n_reads; r++) {
        const diagram_read *read = &s->reads[r];
        int a = s->unit_of[read->from], b = s->unit_of[read->to];
        if (a == b) continue;
        s->edges[s->n_edges++] =
            (diagram_edge){.from = a,
                           .to = b,
                           .value = drawn_value(s, read->value, read->from),
                           .repeats = diagram_edge_repeats(s, read->from, read->to),
                           .is_own = is_of_one_scope(s->items[read->from].node, s->items[read->to].node)};
    }
    merge_edges(s);
}

void diagram_build(diagram *s, const weft_graph *g, const diagram_how *how) {
    *s = (diagram){.graph = g, .how = *how};
    collect_items(s);
    find_bare(s);
    diagram_sign_items(s);
    if (how->collapsing == COLLAPSE_RUNS) diagram_find_runs(s);
    diagram_collapse(s);
    if (how->all && how->collapsing > COLLAPSE_EQUAL) find_hosts(s);
    close_until_few(s);
    join_units(s);
}

void diagram_free(diagram *s) {
    arena_free(&s->arena);
}
