/* diagram.c - builds a diagram from a graph: items in boxes, units, and edges, with boxes closed until the
 * units are few. */
#include "tools/graphtool/diagram/diagram.h"
#include "ops/kit/ops.h"
#include "tools/graphtool/output/end.h"

#include <stdlib.h>
#include <string.h>

/* ---- items and boxes ---- */

/* What a node is for, by the id of its first result. */
enum { IS_WANTED = 1 /* for an output or a training */, IS_KEPT = 2 /* for an assignment */ };

/* Marks, by id, the values that outputs and training depend on, and those that assignments depend on. */
static unsigned char *mark_purposes(diagram *s) {
    unsigned char *purpose = diagram_new(s, s->graph->next_id + 1, sizeof *purpose);
    for (const graph_output *o = s->graph->outputs; o; o = o->next) purpose[o->value->id] = IS_WANTED;
    for (const weft_node *n = s->graph->last; n; n = n->prev) {
        bool trains = n->op == &weft_op_minimize || n->is_backward || n->is_update;
        unsigned own = trains ? IS_WANTED : n->op == &weft_op_assign ? IS_KEPT : 0;
        for (int k = 0; k < n->n_out; k++) own |= purpose[n->out[k].id];
        for (int i = 0; i < n->n_in; i++)
            if (n->in[i]) purpose[n->in[i]->id] |= (unsigned char)own;
        if (n->n_out) purpose[n->out[0].id] = (unsigned char)own;
    }
    return purpose;
}

static unsigned purpose_of(const weft_node *n, const unsigned char *purpose) {
    return n->n_out ? purpose[n->out[0].id] : IS_WANTED;
}

/* Is the variable assigned in the graph? */
static bool is_assigned(const weft_graph *g, const weft_variable *v) {
    for (const weft_node *n = g->first; n; n = n->next)
        if (n->op == &weft_op_assign && !n->is_update && n->variable == v) return true;
    return false;
}

/* Is the node worth drawing? Parameters appear in the labels of the layers that read them, unless they are
 * assigned, or read for an assignment alone. Scalars would only clutter the picture. */
static bool is_drawn(const diagram *s, const weft_node *n, const unsigned char *purpose) {
    if (n->op == &weft_op_parameter)
        return purpose_of(n, purpose) == IS_KEPT || is_assigned(s->graph, n->variable);
    if (n->op == &weft_op_constant && type_elements(&n->out[0].type) == 1) return false;
    return s->how.all || (!n->is_backward && !n->is_update && purpose_of(n, purpose));
}

/* The child of that name; made if it does not exist. */
static diagram_box *box_child(diagram *s, diagram_box *parent, const char *name, const char *path) {
    for (diagram_box *c = parent->first_child; c; c = c->next)
        if (strcmp(c->name, name) == 0) return c;
    return diagram_box_new(s, parent, name, path);
}

/* The box of a scope path. Backward and update nodes have top-level boxes of their own, and updates without a
 * scope share one. */
static diagram_box *box_of(diagram *s, const char *path, diagram_phase phase) {
    static const char *const names[] = {"", "backward", "update"};
    const char *what = names[phase];
    diagram_box *root = s->boxes, *b = root;
    if (!*path && phase == DIAGRAM_UPDATE) b = box_child(s, root, what, what);
    for (const char *p = path; *p;) {
        size_t n = strcspn(p, "/");
        const char *tail = b == root ? what : "", *gap = *tail ? ", " : "";
        b = box_child(s, b, tool_text("%.*s%s%s", (int)n, p, gap, tail), tool_cut(path, p + n));
        b->phase = phase;
        p += n + (p[n] == '/');
    }
    if (b != root) b->phase = phase;
    return b;
}

/* Appends an item, what it reads, and the values that it makes. */
static void item_new(diagram *s, diagram_box *box, const weft_node *n, const graph_output *output) {
    diagram_item *i = &s->items[s->n_items++];
    weft_value *const *in = n ? n->in : &output->value;
    *i = (diagram_item){.node = n, .output = output, .representative = i};
    diagram_add_item(s, box, i);
    for (int k = 0; k < (n ? n->n_in : 1); k++)
        if (in[k] && s->item_of[in[k]->id])
            s->reads[s->n_reads++] = (diagram_read){s->item_of[in[k]->id], i, in[k]};
    for (int k = 0; n && k < n->n_out; k++) s->item_of[n->out[k].id] = i;
}

/* Makes all items and boxes. */
static void collect_items(diagram *s) {
    const weft_graph *g = s->graph;
    int nodes = 1, boxes = 2, reads = 1;
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
    s->item_of = diagram_new(s, g->next_id + 1, sizeof *s->item_of);
    s->unit_of_box = diagram_new(s, boxes, sizeof *s->unit_of_box);
    s->unit_of_item = diagram_new(s, nodes, sizeof *s->unit_of_item);
    const unsigned char *purpose = mark_purposes(s);
    const bool *is_near = s->how.focus ? diagram_focus(s) : NULL;
    diagram_box_new(s, NULL, "", "");
    int place = 0;
    for (const weft_node *n = g->first; n; n = n->next, place++) {
        if (!is_drawn(s, n, purpose) || (is_near && !is_near[place])) continue;
        item_new(s, box_of(s, n->scope, diagram_phase_of(n)), n, NULL);
        s->items[s->n_items - 1].is_upkeep = purpose_of(n, purpose) == IS_KEPT;
        s->items[s->n_items - 1].place = place;
    }
    for (const graph_output *o = g->outputs; o; o = o->next)
        if (!is_near || s->item_of[o->value->id]) item_new(s, s->boxes, NULL, o);
}

/* A leaf is bare when none of its items reads another: a layer of one op, called once or several times. */
static void find_bare(diagram *s) {
    for (int b = 1; b < s->n_boxes; b++) s->boxes[b].is_bare = !s->boxes[b].first_child;
    for (const diagram_read *r = s->reads; r < s->reads + s->n_reads; r++)
        if (r->from->box == r->to->box && !r->from->host && !r->to->host) r->to->box->is_bare = false;
}

/* ---- units ---- */

/* The outermost closed box around an item; NULL: all are open. */
static diagram_box *closed_around(const diagram_item *i) {
    diagram_box *closed = NULL;
    for (diagram_box *b = i->box->is_bare ? i->box->parent : i->box; b; b = b->parent)
        if (b->is_closed) closed = b;
    return closed;
}

/* The item that is drawn for a representative: itself, or its host. */
static diagram_item *drawn_for(diagram_item *i) {
    while (i->host) i = i->host->representative;
    return i;
}

/* Makes the units for the boxes that are open, in the graph's order. */
void diagram_cut_units(diagram *s) {
    memset(s->unit_of_box, 0, (size_t)s->n_boxes * sizeof *s->unit_of_box);
    memset(s->unit_of_item, 0, (size_t)s->n_items * sizeof *s->unit_of_item);
    s->n_units = 0;
    for (diagram_item *i = s->items; i < s->items + s->n_items; i++) {
        if (i->representative != i) continue;
        diagram_box *box = closed_around(i);
        diagram_item *drawn = drawn_for(i);
        diagram_unit **unit = box ? &s->unit_of_box[box - s->boxes] : &s->unit_of_item[drawn - s->items];
        if (!*unit) {
            *unit = &s->units[s->n_units++];
            int first = (int)((box ? i : drawn) - s->items);
            **unit = (diagram_unit){
                .item = box ? NULL : drawn, .box = box, .parts = 1, .first = first, .last = first};
        }
        i->unit = *unit;
        if (box) i->unit->last = (int)(i - s->items);
    }
    for (diagram_item *i = s->items; i < s->items + s->n_items; i++) {
        i->unit = i->representative->unit;
        i->unit->stands++;
    }
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

/* The value that represents what is read: the same result of the representative of its node. */
static const weft_value *drawn_value(const diagram_read *r) {
    const weft_node *representative = r->from->representative->node;
    int k = (int)(r->value - r->value->node->out);
    return k < representative->n_out ? &representative->out[k] : r->value;
}

/* Makes the edges between units from what items read. */
static void join_units(diagram *s) {
    s->edges = diagram_new(s, s->n_reads + 1, sizeof *s->edges);
    for (const diagram_read *r = s->reads; r < s->reads + s->n_reads; r++)
        if (r->from->unit != r->to->unit)
            s->edges[s->n_edges++] = (diagram_edge){.from = r->from->unit,
                                                    .to = r->to->unit,
                                                    .value = drawn_value(r),
                                                    .repeats = diagram_repeats(r->from, r->to),
                                                    .is_own = is_of_one_scope(r->from->node, r->to->node)};
    merge_edges(s);
}

/* Notes the boxes of a scope and those around them. */
static void expand(diagram *s, const char *path) {
    bool found = false;
    for (diagram_box *b = s->boxes + 1; b < s->boxes + s->n_boxes; b++) {
        b->is_expanded |= diagram_is_below(path, b->path);
        found |= strcmp(b->path, path) == 0;
    }
    if (!found) diagram_no_scope(s->graph, "--expand", path, false);
}

void diagram_build(diagram *s, const weft_graph *g, const diagram_how *how) {
    *s = (diagram){.graph = g, .how = *how};
    collect_items(s);
    if (!how->all || how->is_brief) diagram_host_state(s);
    find_bare(s);
    for (int i = 0; how->expand && i < how->expand->n; i++) expand(s, how->expand->v[i]);
    diagram_sign_items(s);
    if (how->collapsing == COLLAPSE_RUNS) diagram_find_runs(s);
    diagram_collapse(s);
    if (how->all && how->is_brief) diagram_host_views(s);
    diagram_open(s);
    if (s->n_units > how->max_nodes) diagram_merge(s);
    join_units(s);
}

void diagram_free(diagram *s) {
    arena_free(&s->arena);
}
