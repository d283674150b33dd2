/* draw.c - draws a diagram with cgraph: clusters for scopes, colours for kinds, shapes on edges, a legend.
 *
 * The forward pass goes down, and the backward pass beside it goes up, with each layer's gradient at the
 * height of the layer. So what the forward keeps for the backward is a short dotted line, and the page is as
 * high as the forward alone. A box has its title in a node of its own, because Graphviz routes edges around
 * nodes but through labels. */
#include "tools/graphtool/diagram/draw.h"
#include "tools/graphtool/diagram/draw_labels.h"

#include "ops/kit/ops.h"
#include "tools/graphtool/output/end.h"
#include "tools/graphtool/options/options.h"
#include "tools/graphtool/timeline/buckets.h"

#include <string.h>

/* ---- kinds ---- */

static const struct kind_look {
    const char *what, *fill, *shape;
} looks[KINDS] = {
    [KIND_INPUT] = {"input", "#bcd9f5", "ellipse"},
    [KIND_LAYER] = {"with parameters", "#ffcf96", "box"},
    [KIND_COMPUTE] = {"other ops", "#fff1a8", "box"},
    [KIND_POINTWISE] = {"pointwise", "#cdebb9", "box"},
    [KIND_SHAPE] = {"shape only", "#ececec", "box"},
    [KIND_RANDOM] = {"random", "#dccbf2", "box"},
    [KIND_SCALAR] = {"one number (loss)", "#ffbcb5", "box"},
    [KIND_STATE] = {"state", "#f3d9c9", "cylinder"},
    [KIND_BACKWARD] = {"backward", "#e3d7ff", "box"},
    [KIND_TRAINING] = {"training", "#9edbd3", "hexagon"},
    [KIND_OUTPUT] = {"output", "#ffffff", "ellipse"},
    [KIND_CLOSED] = {"closed scope", "#ffffff", "folder"},
};

/* A box has the colours of its subgraph. */
static const subgraph_look *look_of(const weft_model *m, const diagram_box *box) {
    return subgraph_look_of(m, box->path);
}

/* ---- drawing ---- */

enum { PHASES = DIAGRAM_UPDATE + 1 };
static const char *const phase_names[PHASES] = {"forward", "backward", "updates"};

typedef struct drawing {
    const diagram *s;
    const weft_model *m;
    Agraph_t *g, *side[PHASES]; /* the picture, and the part of it that a phase is drawn in */
    bool used[KINDS];
} drawing;

static void draw_below(const drawing *d, Agnode_t *above, Agnode_t *n) {
    paint(agedge(d->g, above, n, NULL, 1), "style=invis");
}

/* Puts phases side by side, each in a cluster without a border, so that Graphviz keeps them apart. Their
 * order is mostly that of their heads; cmd/dot.c looks again. One phase alone needs none. */
static void draw_sides(drawing *d) {
    bool has[PHASES] = {false};
    Agnode_t *last = NULL;
    for (const diagram_unit *u = d->s->units; u < d->s->units + d->s->n_units; u++)
        has[diagram_unit_phase(u)] = true;
    for (int p = 0; p < PHASES; p++) d->side[p] = d->g;
    if (has[0] + has[1] + has[2] < 2) return;
    Agraph_t *row = agsubg(d->g, "heads", 1);
    paint(row, "rank=min");
    for (int p = 0; p < PHASES; p++) {
        if (!has[p]) continue;
        d->side[p] = agsubg(d->g, tool_text("cluster_%s", phase_names[p]), 1);
        paint(d->side[p], "label= peripheries=0");
        Agnode_t *head = agnode(d->side[p], tool_text("head_%s", phase_names[p]), 1);
        agsubnode(row, head, 1);
        paint(head, "label=%s shape=plaintext style= fontsize=11 fontcolor=#666666", phase_names[p]);
        if (last) draw_below(d, last, head);
        last = head;
    }
}

static void draw_title(const drawing *d, diagram_box *b) {
    text label = {0};
    b->title = agnode(b->cluster, tool_text("t%d", (int)(b - d->s->boxes)), 1);
    box_label(&label, d->s, d->m, b, NULL);
    paint_text(b->title, "label", &label);
    paint(b->title,
          "shape=plaintext style= height=0 margin=0.02,0.0 fontname=Helvetica-Bold fontsize=%d fontcolor=%s",
          b->depth == 1 ? 14 : 12, look_of(d->m, b)->line);
    text_add(&label, "%s", b->path);
    paint_text(b->title, "tooltip", &label);
}

/* The cluster of a box, made at first use; for a box that is not open, that of its parent. */
static Agraph_t *cluster_of(const drawing *d, diagram_box *b) {
    if (!b->parent) return d->g;
    Agraph_t *around = b->cluster          ? b->cluster
                       : b->parent->parent ? cluster_of(d, b->parent)
                                           : d->side[b->phase];
    if (b->cluster || !diagram_box_is_open(b)) return around;
    b->cluster = agsubg(around, tool_text("cluster_%d", (int)(b - d->s->boxes)), 1);
    const subgraph_look *look = look_of(d->m, b);
    /* it differs from the box that it is in: a top-level scope, or a subgraph of weft_model_set_ddp's */
    bool is_other = b->depth == 1 || look != look_of(d->m, b->parent);
    paint(b->cluster, "label= peripheries=1 style=filled,rounded%s fillcolor=%s color=%s penwidth=%s",
          box_is_collapsed(b) ? ",bold" : "", is_other ? look->fill : "#ffffff80", look->line,
          is_other              ? "2.5"
          : box_is_collapsed(b) ? "3"
                                : "1");
    draw_title(d, b);
    return b->cluster;
}

static void paint_unit(drawing *d, const diagram_unit *u) {
    diagram_kind kind = diagram_unit_kind(u);
    const subgraph_look *look = u->box ? look_of(d->m, u->box) : NULL;
    d->used[kind] = true;
    paint(u->drawn, "shape=%s fillcolor=%s", looks[kind].shape, look ? look->fill : looks[kind].fill);
    if (look) paint(u->drawn, "color=%s penwidth=2", look->line);
    if (kind == KIND_OUTPUT) paint(u->drawn, "peripheries=2");
    if (kind == KIND_INPUT) paint(u->drawn, "margin=0.0,0.0");
}

static void place_range(text *t, int from, int to) {
    text_add(t, from == to ? "%s%d" : "%s%d-%d", t->length ? " " : "", from, to);
}

/* Says for programs which nodes or which output a unit stands for: "12-15 18" are places in the
 * graph's list of nodes, from 0. */
static void write_nodes(const drawing *d, const diagram_unit *u) {
    text t = {0};
    int from = -1, to = -1;
    for (const diagram_item *i = d->s->items; i < d->s->items + d->s->n_items; i++) {
        if (i->unit != u) continue;
        if (i->output) agsafeset(u->drawn, "output", (char *)i->output->name, "");
        if (!i->node) continue;
        if (from >= 0 && i->place != to + 1) place_range(&t, from, to);
        if (from < 0 || i->place != to + 1) from = i->place;
        to = i->place;
    }
    if (from >= 0) place_range(&t, from, to);
    if (t.length) paint_text(u->drawn, "nodes", &t);
}

/* Draws a node or a closed box, inside the cluster of its box. */
static void draw_unit(drawing *d, diagram_unit *u) {
    text label = {0}, tip = {0};
    diagram_box *box = diagram_box_of(u);
    Agraph_t *around = box->parent ? cluster_of(d, box) : d->side[diagram_unit_phase(u)];
    u->drawn = agnode(around, tool_text("n%d", (int)(u - d->s->units)), 1);
    unit_label(&label, d->s, d->m, u);
    unit_tip(&tip, u);
    paint_text(u->drawn, "label", &label);
    paint_text(u->drawn, "tooltip", &tip);
    write_nodes(d, u);
    paint_unit(d, u);
}

/* Is there a later edge from the same box to the same bucket? Of a box's gradients only the last one's edge
 * is drawn. */
static bool is_told(const drawing *d, const diagram_edge *e) {
    const diagram_box *box = diagram_box_of(e->from);
    for (const diagram_edge *f = e + 1; f < d->s->edges + d->s->n_edges; f++)
        if (f->to == e->to && diagram_box_of(f->from) == box) return true;
    return false;
}

/* Draws an edge between phases: what the forward keeps for the backward (dotted; it holds a layer and its
 * gradient at one height), or a gradient that an update reads. */
static void draw_aside(Agedge_t *edge, const diagram_edge *e, bool is_kept) {
    bool holds = is_kept && e->is_own;
    paint(edge, "%s style=%s color=%s", holds ? "minlen=0" : "constraint=false", is_kept ? "dotted" : "",
          holds     ? "#555555"
          : is_kept ? "#999999"
                    : "#3f9c90");
}

/* Notes that unit `above` is drawn above `below`. An edge into a box also puts its source above the box's
 * title, so that boxes are below each other and not side by side, unless the source is in the middle of the
 * box. */
static void note_order(const drawing *d, const diagram_unit *above, diagram_unit *below, bool up) {
    const diagram_box *from = diagram_box_of(above), *into = diagram_box_of(below);
    if (diagram_box_is_in(from, into)) {
        below->is_below = true;
        return;
    }
    while (!diagram_box_is_in(from, into->parent)) into = into->parent;
    if (!into->cluster) return;
    int first = above->box ? above->box->low : (int)(above->item - d->s->items);
    if (up ? first > into->high : first < into->low) draw_below(d, above->drawn, into->title);
}

/* Marks what edges lead to from a unit. */
static void mark_reached(const diagram *s, const diagram_unit *from, bool *reached) {
    reached[from - s->units] = true;
    for (bool grows = true; grows;) {
        grows = false;
        for (const diagram_edge *e = s->edges; e < s->edges + s->n_edges; e++) {
            bool *to = &reached[e->to - s->units];
            if (e->repeats || *to || !reached[e->from - s->units]) continue;
            *to = grows = true;
        }
    }
}

/* Does the edge lead back, to a unit that leads here and that another item has put before? A closed box may
 * read what reads it: it is where it begins, and in the backward pass, as that of its forward, where it
 * ends. */
static bool is_back(const diagram *s, const diagram_edge *e, bool up) {
    if (up ? e->from->last <= e->to->last : e->from->first <= e->to->first) return false;
    bool *reached = tool_new((size_t)s->n_units, sizeof *reached);
    mark_reached(s, e->to, reached);
    return reached[e->from - s->units];
}

/* Backward edges are laid out upwards, with the arrow reversed, so that the backward pass rises beside the
 * forward. */
static void draw_edge(drawing *d, const diagram_edge *e) {
    diagram_phase from = diagram_unit_phase(e->from), to = diagram_unit_phase(e->to);
    if (e->repeats) return; /* each member of a collapse reads the one before it */
    if (from != to && to == DIAGRAM_UPDATE && is_told(d, e)) return;
    bool up = from == DIAGRAM_BACKWARD && to == DIAGRAM_BACKWARD;
    diagram_unit *above = up ? e->to : e->from, *below = up ? e->from : e->to;
    Agedge_t *edge = agedge(d->g, above->drawn, below->drawn, NULL, 1);
    if (from != to && to != DIAGRAM_FORWARD) {
        draw_aside(edge, e, from == DIAGRAM_FORWARD && to == DIAGRAM_BACKWARD);
        return;
    }
    if (up) paint(edge, "dir=back");
    if (is_back(d->s, e, up)) { /* without a label, as Graphviz 7 frees one within a row twice */
        paint(edge, "constraint=false");
        return;
    }
    above->is_above = true;
    note_order(d, above, below, up);
    text label = {0};
    if (e->value && from != DIAGRAM_UPDATE) value_label(&label, d->s, e->value);
    if (e->more) text_add(&label, " +%d", e->more);
    paint_text(edge, "label", &label);
}

/* Puts titles above the units that have no other node of their box above them. */
static void hang_titles(const drawing *d) {
    for (const diagram_box *b = d->s->boxes + 1; b < d->s->boxes + d->s->n_boxes; b++)
        if (b->cluster && b->parent->cluster) draw_below(d, b->parent->title, b->title);
    for (const diagram_unit *u = d->s->units; u < d->s->units + d->s->n_units; u++) {
        const diagram_box *box = diagram_box_of(u);
        while (box->parent && !box->cluster) box = box->parent;
        if (box->cluster && !u->is_below) draw_below(d, box->title, u->drawn);
    }
}

static bool is_loss(const diagram_unit *u) {
    return u->item && u->item->output && type_elements(&u->item->output->value->type) == 1;
}

/* Is it a loss, or its minimize? */
static bool is_end(const diagram_unit *u) {
    return is_loss(u) || (u->item && u->item->node && u->item->node->op == &weft_op_minimize);
}

/* Puts outputs of one number, the losses, below all of the forward pass: below what nothing else is below. */
static void sink_losses(const drawing *d) {
    const diagram_unit *end = d->s->units + d->s->n_units;
    for (const diagram_unit *loss = d->s->units; loss < end; loss++)
        for (const diagram_unit *u = d->s->units; is_loss(loss) && u < end; u++)
            if (!u->is_above && !is_end(u) && diagram_unit_phase(u) == DIAGRAM_FORWARD)
                paint(agedge(d->g, u->drawn, loss->drawn, NULL, 1), "style=invis weight=0");
}

/* Only the kinds that the picture has. */
static void draw_legend(drawing *d) {
    enum { PER_ROW = 2 };
    text t = {0};
    int shown = 0;
    text_add(&t, "<table border=\"0\" cellborder=\"0\" cellspacing=\"3\">");
    for (int k = 0; k < KINDS; k++) {
        if (!d->used[k]) continue;
        text_add(&t, "%s", shown % PER_ROW ? "" : shown ? "</tr><tr>" : "<tr>");
        text_add(&t, "<td border=\"1\" bgcolor=\"%s\">%s</td>", looks[k].fill, looks[k].what);
        shown++;
    }
    text_add(&t, "%s<tr><td colspan=\"%d\">edges carry shapes,<br/>f32 unless stated</td></tr></table>",
             shown ? "</tr>" : "", PER_ROW);
    Agnode_t *n = agnode(d->side[DIAGRAM_UPDATE], "legend", 1);
    paint_html(d->g, n, &t);
    paint(n, "shape=none style=");
    const diagram_unit *last = d->s->units + d->s->n_units;
    do last--;
    while (last >= d->s->units && diagram_unit_phase(last) != DIAGRAM_UPDATE);
    if (last >= d->s->units) draw_below(d, last->drawn, n); /* there is free space */
}

Agraph_t *draw_diagram(const diagram *s, const weft_model *m, const char *title) {
    drawing d = {.s = s, .m = m, .g = paint_new("weft")};
    paint_defaults(d.g, title);
    paint(d.g, "newrank=true"); /* rows span all boxes, so that a gradient can be beside its layer */
    draw_sides(&d);
    for (int u = 0; u < s->n_units; u++) draw_unit(&d, &s->units[u]);
    for (int e = 0; e < s->n_edges; e++) draw_edge(&d, &s->edges[e]);
    hang_titles(&d);
    sink_losses(&d);
    draw_legend(&d);
    return d.g;
}
