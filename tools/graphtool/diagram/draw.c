/* draw.c - draws a diagram with cgraph: clusters for scopes, colours for kinds, shapes on edges, a legend.
 *
 * The forward pass goes down, and the backward pass beside it goes up, with each layer's gradient at the
 * height of the layer. So what the forward keeps for the backward is a short dotted line, and the page is as
 * high as the forward alone. A box has its title in a node of its own, because Graphviz routes edges around
 * nodes but through labels. */
#include "tools/graphtool/diagram/draw.h"

#include "ops/kit/ops.h"
#include "tools/graphtool/output/end.h"
#include "tools/graphtool/options/options.h"
#include "tools/graphtool/timeline/buckets.h"

#include <string.h>

/* ---- kinds: derived from an op's flags, so that a new op needs no line here ---- */

typedef enum draw_kind {
    KIND_INPUT,
    KIND_LAYER,
    KIND_COMPUTE,
    KIND_POINTWISE,
    KIND_SHAPE,
    KIND_RANDOM,
    KIND_SCALAR,
    KIND_STATE,
    KIND_BACKWARD,
    KIND_TRAINING,
    KIND_OUTPUT,
    KIND_CLOSED,
    KINDS
} draw_kind;

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

static bool reads_parameter(const weft_node *n) {
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i] && n->in[i]->node->op == &weft_op_parameter) return true;
    return false;
}

static bool is_pointwise(const weft_node *n) {
    return n->op->flags & OP_POINTWISE || n->op == &weft_op_fused;
}

/* The first rule that fits decides; NULL is an output. */
static draw_kind kind_of(const weft_node *n) {
    if (!n) return KIND_OUTPUT;
    if (n->op == &weft_op_input) return KIND_INPUT;
    if (n->op->flags & OP_VARIABLE) return KIND_STATE;
    if (n->op == &weft_op_minimize || n->op == &weft_op_gradients || n->is_update) return KIND_TRAINING;
    if (n->is_backward) return KIND_BACKWARD;
    if (n->op->flags & OP_RANDOM) return KIND_RANDOM;
    if (reads_parameter(n)) return KIND_LAYER;
    if (n->n_out && type_elements(&n->out[0].type) == 1) return KIND_SCALAR;
    if (n->op->flags & OP_VIEW) return KIND_SHAPE;
    return is_pointwise(n) ? KIND_POINTWISE : KIND_COMPUTE;
}

/* A box has the colours of its subgraph. */
static const subgraph_look *look_of(const weft_model *m, const diagram_box *box) {
    return subgraph_look_of(m, box->path);
}

/* ---- labels ---- */

/* A value of a node: the k-th result or the k-th operand. */
typedef struct place {
    const diagram_item *item;
    int k;
    bool is_operand;
} place;

/* NULL: the node has none. */
static const weft_value *value_at(place p) {
    const weft_node *n = p.item->node;
    if (p.k >= (p.is_operand ? n->n_in : n->n_out)) return NULL;
    return p.is_operand ? n->in[p.k] : &n->out[p.k];
}

/* Writes an axis: "64...512" where it differs between the members of a collapse. */
static void axis_label(text *t, place p, int axis) {
    const tensor_type *type = &value_at(p)->type;
    int64_t low = type->shape[axis], high = low;
    while ((p.item = p.item->also)) {
        const weft_value *v = value_at(p);
        if (!v || v->type.ndim != type->ndim) continue;
        if (v->type.shape[axis] < low) low = v->type.shape[axis];
        if (v->type.shape[axis] > high) high = v->type.shape[axis];
    }
    range_text(t, low, high);
}

/* Writes a shape: "128x64x7x7", with the type unless it is f32. */
static void type_label(text *t, place p) {
    const tensor_type *type = &value_at(p)->type;
    if (type->dtype != WEFT_F32)
        text_add(t, "%s ", dtype_name(type->dtype));
    else if (!type->ndim)
        text_add(t, "1");
    for (int i = 0; i < type->ndim; i++) {
        if (i) text_add(t, "\xc3\x97");
        axis_label(t, p, i);
    }
}

/* Has the value the type of its node's first operand? Then it needs no label. */
static bool is_unchanged(const weft_value *v) {
    const weft_node *n = v->node;
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i] && n->in[i]->node->op != &weft_op_parameter)
            return type_equal(&n->in[i]->type, &v->type);
    return false;
}

static void value_label(text *t, const diagram *s, const weft_value *v) {
    if (!is_unchanged(v)) type_label(t, (place){s->item_of[v->id], (int)(v - v->node->out), false});
}

/* Is an attribute worth showing? 1 is only for a padding; output channels and kernel size are in the weight's
 * shape. */
static bool is_telling(const char *name, int64_t number) {
    return !has_word("out kernel", name) && (number > 1 || (number == 1 && strcmp(name, "pad") == 0));
}

/* The number that stands for an attribute of integers: that of all of them, where they are the same; 0. */
static int64_t number_in(const op_attr *a, const void *at) {
    const attr_ints *ints = at;
    if (a->kind == ATTR_INT) return *(const int64_t *)at;
    if (a->kind != ATTR_INTS || !ints->n || a->max == INT64_MAX) return 0;
    for (int i = 1; i < ints->n; i++)
        if (ints->v[i] != ints->v[0]) return 0;
    return ints->v[0];
}

/* Up to three attributes that a reader looks for: "stride 2 pad 1". Shapes are on the edges already. */
static void attrs_label(text *t, const weft_node *n) {
    int shown = 0;
    for (const op_attr *a = n->op->attrs; a && a->name && shown < 3; a++) {
        const void *at = (const char *)n->attrs + a->offset;
        double real = a->kind == ATTR_REAL ? *(const double *)at : (double)number_in(a, at);
        bool is_shown = a->kind == ATTR_REAL ? real >= 1e-4 || real <= -1e-4 /* no epsilon */
                                             : is_telling(a->name, number_in(a, at));
        if (is_shown)
            text_add(t, a->kind == ATTR_REAL ? "%s%s %g" : "%s%s %.0f", shown++ ? " " : "\n", a->name, real);
    }
}

/* Names and shapes of the weights that a layer reads; biases (one axis) are left out. */
static void weights_label(text *t, const diagram_item *item) {
    const weft_node *n = item->node;
    for (int i = 0; i < n->n_in; i++) {
        const weft_value *v = n->in[i];
        if (!v || v->node->op != &weft_op_parameter || v->type.ndim < 2) continue;
        const char *path = v->variable ? v->variable->path : "weight", *slash = strrchr(path, '/');
        text_add(t, "\n%s ", slash ? slash + 1 : path);
        type_label(t, (place){item, i, true});
    }
}

/* A path below its box, on several lines, as long lines would make wide nodes. */
static void path_label(text *t, const diagram_box *b, const char *path) {
    size_t above = strlen(b->path);
    if (above && strncmp(path, b->path, above) == 0 && path[above] == '/') path += above + 1;
    for (const char *p = path; *p;) {
        size_t n = strcspn(p, "/");
        text_add(t, "\n%.*s%s", (int)n, p, p[n] ? "/" : "");
        p += n + (p[n] == '/');
    }
}

static int count_of(const diagram_item *item) {
    int n = 0;
    for (; item; item = item->also) n++;
    return n;
}

/* Length of the prefix that the variables of all represented items share, up to a separator:
 * "optimizer.adam:all/". */
static int common_length(const diagram_item *item) {
    const char *path = item->node->variable->path;
    int length = (int)strlen(path);
    while ((item = item->also)) {
        const weft_variable *v = item->node->variable;
        int same = 0;
        while (v && same < length && v->path[same] == path[same]) same++;
        length = same;
    }
    while (length > 0 && path[length] && !strchr("/.", path[length - 1])) length--;
    return length;
}

/* The variable that a node names; NULL: none. */
static const weft_variable *named_by(const weft_node *n) {
    return n->op->flags & OP_VARIABLE ? n->variable : NULL;
}

/* The label of updates or collectives that one represents: how many they are, and what they write. */
static void several_label(text *t, const diagram_item *item) {
    const weft_variable *v = named_by(item->node);
    int count = count_of(item);
    text_add(t, "%s", item->node->op->name);
    if (count > 1) text_add(t, "   \xc3\x97%d", count);
    if (v && count == 1)
        path_label(t, item->box, v->path);
    else if (v && common_length(item))
        text_add(t, "\n%.*s\xe2\x80\xa6", common_length(item), v->path);
}

/* What a drawn node shows, by its kind. */
static void node_label(text *t, const diagram *s, const diagram_item *i) {
    const weft_node *n = i->node;
    if (!n) {
        text_add(t, "%s", i->output->name);
    } else if (n->op == &weft_op_input) {
        text_add(t, "%s\n", input_name(n));
        type_label(t, (place){i, 0, false});
    } else if (n->op == &weft_op_minimize) {
        const minimize_attrs *a = n->attrs;
        text_add(t, "minimize\n%s\n%s lr %g", a->pattern && *a->pattern ? a->pattern : "everything", a->type,
                 a->lr);
    } else if (diagram_collapses_by_op(s, i)) {
        several_label(t, i);
    } else {
        if (i->box->is_bare && strcmp(i->box->name, n->op->name)) text_add(t, "%s  ", i->box->name);
        text_add(t, "%s", n->op->name);
        for (int k = 0; k < n->n_body && k < 6; k++)
            text_add(t, k % 3 ? ", %s" : k ? ",\n%s" : ":\n%s", n->body[k]->op->name);
        if (n->n_body > 6) text_add(t, ", ...");
        if (named_by(n)) path_label(t, i->box, n->variable->path);
        if (!n->is_backward) weights_label(t, i);
        attrs_label(t, n);
    }
}

/* ---- tooltips ---- */

/* The tooltip of a node, an output or a closed box. */
static void unit_tip(text *t, const diagram_unit *u) {
    if (u->box) {
        text_add(t, "%s, closed: %d ops", u->box->path, u->stands);
    } else if (u->item->node) {
        tip_node(t, u->item->node, count_of(u->item));
    } else {
        text_add(t, "output %s", u->item->output->name);
        tip_value(t, u->item->output->value);
    }
}

static bool is_collapsed(const diagram_box *b) {
    return b->most_members > 1;
}

/* Elements of the parameters below a path. */
static int64_t parameters_below(const weft_model *m, const char *path) {
    int64_t elements = 0;
    size_t length = strlen(path);
    for (const weft_variable *v = m->variables; v; v = v->next)
        if (v->kind == VARIABLE_PARAMETER && strncmp(v->path, path, length) == 0 && v->path[length] == '/')
            elements += type_elements(&v->type);
    return elements;
}

/* Elements of the parameters in a box and in those that it represents; 0 where that would mislead. */
static int64_t parameters_in(const diagram *s, const weft_model *m, const diagram_box *box) {
    int64_t elements = 0;
    if (box->run || box->phase) return 0;
    for (const diagram_box *b = box->parent; b; b = b->parent)
        if (is_collapsed(b)) return 0; /* they would be those of one member only */
    for (const diagram_box *b = box; b < s->boxes + s->n_boxes; b++)
        if (b->represented_by == box) elements += parameters_below(m, b->path);
    return elements;
}

/* The title of a box: "blocks 0...47 x48" and, for closed boxes and top-level scopes, how much is inside. */
static void box_label(text *t, const diagram *s, const weft_model *m, const diagram_box *b,
                      const diagram_unit *closed) {
    text_add(t, "%s", b->name);
    if (is_collapsed(b) && !b->run) text_add(t, " \xe2\x80\xa6 %s", b->last_name);
    if (is_collapsed(b)) {
        text_add(t, "   \xc3\x97");
        range_text(t, b->members, b->most_members);
    }
    int64_t elements = parameters_in(s, m, b);
    if (closed) text_add(t, "\n%d ops", closed->stands);
    if (!elements || !(closed || b->depth == 1)) return;
    text_add(t, closed ? ", " : "  \xc2\xb7  ");
    number_text(t, (double)elements);
    text_add(t, " parameters");
}

/* ---- drawing ---- */

typedef struct drawing {
    const diagram *s;
    const weft_model *m;
    Agraph_t *g;
    bool used[KINDS];
} drawing;

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
    Agraph_t *around = b->cluster ? b->cluster : cluster_of(d, b->parent);
    if (b->cluster || !diagram_box_is_open(d->s, b)) return around;
    b->cluster = agsubg(around, tool_text("cluster_%d", (int)(b - d->s->boxes)), 1);
    const subgraph_look *look = look_of(d->m, b);
    /* it differs from the box that it is in: a top-level scope, or a subgraph of weft_model_set_ddp's */
    bool is_other = b->depth == 1 || look != look_of(d->m, b->parent);
    paint(b->cluster, "label= style=filled,rounded%s fillcolor=%s color=%s penwidth=%s",
          is_collapsed(b) ? ",bold" : "", is_other ? look->fill : "#ffffff80", look->line,
          is_other          ? "2.5"
          : is_collapsed(b) ? "3"
                            : "1");
    draw_title(d, b);
    return b->cluster;
}

static diagram_phase unit_phase(const diagram_unit *u) {
    return u->box ? u->box->phase : diagram_phase_of(u->item->node);
}

static void paint_unit(drawing *d, const diagram_unit *u) {
    draw_kind kind = u->box ? KIND_CLOSED : kind_of(u->item->node);
    const subgraph_look *look = u->box ? look_of(d->m, u->box) : NULL;
    d->used[kind] = true;
    paint(u->drawn, "shape=%s fillcolor=%s", looks[kind].shape, look ? look->fill : looks[kind].fill);
    if (look) paint(u->drawn, "color=%s penwidth=2", look->line);
    if (kind == KIND_OUTPUT) paint(u->drawn, "peripheries=2");
}

/* Draws a node or a closed box, inside the cluster of its box. */
static void draw_unit(drawing *d, diagram_unit *u) {
    text label = {0}, tip = {0};
    u->drawn = agnode(cluster_of(d, diagram_box_of(u)), tool_text("n%d", (int)(u - d->s->units)), 1);
    if (u->box)
        box_label(&label, d->s, d->m, u->box, u);
    else
        node_label(&label, d->s, u->item);
    unit_tip(&tip, u);
    if (u->parts > 1) text_add(&label, "\n... %d parts", u->parts);
    paint_text(u->drawn, "label", &label);
    paint_text(u->drawn, "tooltip", &tip);
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

static void draw_below(const drawing *d, Agnode_t *above, Agnode_t *n) {
    paint(agedge(d->g, above, n, NULL, 1), "style=invis");
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

/* Backward edges are laid out upwards, with the arrow reversed, so that the backward pass rises beside the
 * forward. */
static void draw_edge(drawing *d, const diagram_edge *e) {
    diagram_phase from = unit_phase(e->from), to = unit_phase(e->to);
    if (e->repeats) return; /* each member of a collapse reads the one before it */
    if (from != to && to == DIAGRAM_UPDATE && is_told(d, e)) return;
    bool up = from == DIAGRAM_BACKWARD && to == DIAGRAM_BACKWARD;
    diagram_unit *above = up ? e->to : e->from, *below = up ? e->from : e->to;
    Agedge_t *edge = agedge(d->g, above->drawn, below->drawn, NULL, 1);
    if (from != to) {
        draw_aside(edge, e, from == DIAGRAM_FORWARD && to == DIAGRAM_BACKWARD);
        return;
    }
    if (up) paint(edge, "dir=back");
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

/* Only the kinds that the picture has. */
static void draw_legend(drawing *d) {
    enum { PER_ROW = 3 };
    text t = {0};
    int shown = 0;
    text_add(&t, "<table border=\"0\" cellborder=\"0\" cellspacing=\"3\">");
    for (int k = 0; k < KINDS; k++) {
        if (!d->used[k]) continue;
        text_add(&t, "%s", shown % PER_ROW ? "" : shown ? "</tr><tr>" : "<tr>");
        text_add(&t, "<td border=\"1\" bgcolor=\"%s\">%s</td>", looks[k].fill, looks[k].what);
        shown++;
    }
    text_add(&t, "%s<tr><td colspan=\"%d\">edges carry shapes, f32 unless stated</td></tr></table>",
             shown ? "</tr>" : "", PER_ROW);
    Agnode_t *n = agnode(d->g, "legend", 1);
    paint_html(d->g, n, &t);
    paint(n, "shape=none style=");
    const diagram_unit *last = d->s->units + d->s->n_units;
    do last--;
    while (last >= d->s->units && unit_phase(last) != DIAGRAM_UPDATE);
    if (last >= d->s->units) draw_below(d, last->drawn, n); /* there is free space */
}

Agraph_t *draw_diagram(const diagram *s, const weft_model *m, const char *title) {
    drawing d = {.s = s, .m = m, .g = paint_new("weft")};
    paint_defaults(d.g, title);
    paint(d.g, "newrank=true"); /* rows span all boxes, so that a gradient can be beside its layer */
    for (int u = 0; u < s->n_units; u++) draw_unit(&d, &s->units[u]);
    for (int e = 0; e < s->n_edges; e++) draw_edge(&d, &s->edges[e]);
    hang_titles(&d);
    draw_legend(&d);
    return d.g;
}
