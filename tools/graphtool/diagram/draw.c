/* draw.c - draws a diagram with cgraph: clusters for scopes, colours for kinds, shapes on edges, a legend.
 *
 * The forward pass goes down, and the backward pass beside it goes up, with each layer's gradient at the
 * height of the layer. So what the forward keeps for the backward is a short dotted line, and the page is as
 * high as the forward alone. A box has its title in a node of its own, because Graphviz routes edges around
 * nodes but through labels. */
#include "tools/graphtool/diagram/draw.h"

#include "ops/kit/ops.h"
#include "tools/graphtool/common/end.h"
#include "tools/graphtool/timeline/buckets.h"

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
static const subgraph_look *look_of(const diagram *s, const weft_model *m, int box) {
    return subgraph_look_of(m, s->boxes[box].path);
}

/* Whether it differs from the box that it is in: a top-level scope, or a subgraph of weft_ddp's. */
static bool has_own_look(const diagram *s, const weft_model *m, int box) {
    return s->boxes[box].depth == 1 || look_of(s, m, box) != look_of(s, m, s->boxes[box].parent);
}

/* ---- labels ---- */

/* A value of a node: the k-th result or the k-th operand. */
typedef struct place {
    int item, k;
    bool is_operand;
} place;

static const weft_value *value_at(const diagram *s, int item, const place *p) {
    const weft_node *n = s->items[item].node;
    if (p->is_operand) return p->k < n->n_in ? n->in[p->k] : NULL;
    return p->k < n->n_out ? &n->out[p->k] : NULL;
}

/* Writes an axis: "64...512" where it differs between the members of a collapse. */
static void axis_label(text *t, const diagram *s, const place *p, const tensor_type *type, int axis) {
    int64_t low = type->shape[axis], high = low;
    for (int i = s->items[p->item].also; i >= 0; i = s->items[i].also) {
        const weft_value *v = value_at(s, i, p);
        if (!v || v->type.ndim != type->ndim) continue;
        if (v->type.shape[axis] < low) low = v->type.shape[axis];
        if (v->type.shape[axis] > high) high = v->type.shape[axis];
    }
    text_add(t, "%lld", (long long)low);
    if (low != high) text_add(t, "\xe2\x80\xa6%lld", (long long)high);
}

/* Writes a shape: "128x64x7x7", with the type unless it is f32. */
static void type_label(text *t, const diagram *s, place p) {
    const weft_value *v = value_at(s, p.item, &p);
    const tensor_type *type = &v->type;
    if (type->dtype != WEFT_F32) text_add(t, "%s ", dtype_name(type->dtype));
    if (!type->ndim && type->dtype == WEFT_F32) text_add(t, "1");
    for (int i = 0; i < type->ndim; i++) {
        if (i) text_add(t, "\xc3\x97");
        axis_label(t, s, &p, type, i);
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
    if (is_unchanged(v)) return;
    type_label(t, s, (place){s->item_of[v->id], (int)(v - v->node->out), false});
}

/* Is an attribute worth showing? 1 is only for a padding; output channels and kernel size are in the weight's
 * shape. */
static bool is_telling(const char *name, int64_t number) {
    if (strcmp(name, "out") == 0 || strcmp(name, "kernel") == 0) return false;
    return number > 1 || (number == 1 && strcmp(name, "pad") == 0);
}

/* Up to three attributes that a reader looks for: "stride 2 pad 1". Shapes are on the edges already. */
static void attrs_label(text *t, const weft_node *n) {
    int shown = 0;
    for (const op_attr *a = n->op->attrs; a && a->name && shown < 3; a++) {
        const char *at = (const char *)n->attrs + a->offset;
        const attr_ints *ints = (const attr_ints *)at;
        const char *gap = shown ? " " : "\n";
        bool same = a->kind == ATTR_INTS && ints->n && a->max != INT64_MAX;
        for (int i = 1; same && i < ints->n; i++) same = ints->v[i] == ints->v[0];
        double real = a->kind == ATTR_REAL ? *(const double *)at : 0;
        int64_t number = a->kind == ATTR_INT ? *(const int64_t *)at : same ? ints->v[0] : 0;
        if (real >= 1e-4 || real <= -1e-4)
            text_add(t, "%s%s %g", gap, a->name, real); /* leaves out epsilons */
        else if (is_telling(a->name, number))
            text_add(t, "%s%s %lld", gap, a->name, (long long)number);
        else
            continue;
        shown++;
    }
}

/* Names and shapes of the weights that a layer reads; biases (one axis) are left out. */
static void weights_label(text *t, const diagram *s, int item) {
    const weft_node *n = s->items[item].node;
    for (int i = 0; i < n->n_in; i++) {
        const weft_value *v = n->in[i];
        if (!v || v->node->op != &weft_op_parameter || v->type.ndim < 2) continue;
        const char *path = v->variable ? v->variable->path : "weight", *slash = strrchr(path, '/');
        text_add(t, "\n%s ", slash ? slash + 1 : path);
        type_label(t, s, (place){item, i, true});
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

static int count_of(const diagram *s, int item) {
    int n = 1;
    while ((item = s->items[item].also) >= 0) n++;
    return n;
}

/* Length of the prefix that the variables of all represented items share, up to a separator:
 * "optimizer.adam:all/". */
static int common_length(const diagram *s, int item) {
    const char *path = s->items[item].node->variable->path;
    int length = (int)strlen(path);
    for (int i = s->items[item].also; i >= 0; i = s->items[i].also) {
        const weft_variable *v = s->items[i].node->variable;
        int same = 0;
        while (v && same < length && v->path[same] == path[same]) same++;
        length = same;
    }
    while (length > 0 && path[length] && !strchr("/.", path[length - 1])) length--;
    return length;
}

/* The label of updates or collectives that one represents: how many they are, and what they write. */
static void several_label(text *t, const diagram *s, int item) {
    const weft_node *n = s->items[item].node;
    int count = count_of(s, item);
    text_add(t, "%s", n->op->name);
    if (count > 1) text_add(t, "   \xc3\x97%d", count);
    if (!n->variable || !(n->op->flags & OP_VARIABLE)) return;
    if (count == 1)
        path_label(t, &s->boxes[s->items[item].box], n->variable->path);
    else if (common_length(s, item))
        text_add(t, "\n%.*s\xe2\x80\xa6", common_length(s, item), n->variable->path);
}

/* What a drawn node shows, by its kind. */
static void node_label(text *t, const diagram *s, int item) {
    const diagram_item *i = &s->items[item];
    const weft_node *n = i->node;
    const diagram_box *b = &s->boxes[i->box];
    if (!n) {
        text_add(t, "%s", i->output->name);
    } else if (n->op == &weft_op_input) {
        text_add(t, "%s\n", input_name(n));
        type_label(t, s, (place){item, 0, false});
    } else if (n->op == &weft_op_minimize) {
        const minimize_attrs *a = n->attrs;
        text_add(t, "minimize\n%s\n%s lr %g", a->pattern && *a->pattern ? a->pattern : "everything", a->type,
                 a->lr);
    } else if (diagram_collapses_by_op(s, i)) {
        several_label(t, s, item);
    } else {
        if (b->is_bare && strcmp(b->name, n->op->name)) text_add(t, "%s  ", b->name);
        text_add(t, "%s", n->op->name);
        for (int k = 0; k < n->n_body && k < 6; k++)
            text_add(t, k % 3 ? ", %s" : k ? ",\n%s" : ":\n%s", n->body[k]->op->name);
        if (n->n_body > 6) text_add(t, ", ...");
        if (n->variable && n->op->flags & OP_VARIABLE)
            path_label(t, &s->boxes[s->items[item].box], n->variable->path);
        if (!n->is_backward) weights_label(t, s, item);
        attrs_label(t, n);
    }
}

/* ---- tooltips ---- */

/* The tooltip of a node, an output or a closed box. */
static void unit_tip(text *t, const diagram *s, const diagram_unit *u) {
    const diagram_item *i = u->box < 0 ? &s->items[u->item] : NULL;
    if (!i) {
        text_add(t, "%s, closed: %d ops", s->boxes[u->box].path, u->stands);
    } else if (i->node) {
        tip_node(t, i->node, count_of(s, u->item));
    } else {
        text_add(t, "output %s", i->output->name);
        tip_value(t, i->output->value);
    }
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

static bool is_collapsed(const diagram_box *b) {
    return b->most_members > 1;
}

/* Elements of the parameters in a box and in those that it represents; 0 where that would mislead. */
static int64_t parameters_in(const diagram *s, const weft_model *m, int box) {
    int64_t elements = 0;
    if (s->boxes[box].run || s->boxes[box].phase) return 0;
    for (int b = s->boxes[box].parent; b > 0; b = s->boxes[b].parent)
        if (is_collapsed(&s->boxes[b])) return 0; /* they would be those of one member only */
    for (int b = box; b < s->n_boxes; b++)
        if (s->boxes[b].represented_by == box) elements += parameters_below(m, s->boxes[b].path);
    return elements;
}

/* The title of a box: "blocks 0...47 x48" and, for closed boxes and top-level scopes, how much is inside. */
static void box_label(text *t, const diagram *s, const weft_model *m, int box, const diagram_unit *closed) {
    const diagram_box *b = &s->boxes[box];
    text_add(t, "%s", b->name);
    if (is_collapsed(b) && !b->run) text_add(t, " \xe2\x80\xa6 %s", b->last_name);
    if (is_collapsed(b)) text_add(t, "   \xc3\x97%d", b->members);
    if (b->most_members > b->members) text_add(t, "\xe2\x80\xa6%d", b->most_members);
    int64_t elements = parameters_in(s, m, box);
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
    Agraph_t **cluster; /* by box */
    bool *is_below;     /* by unit: a node of its box is above it */
    bool used[KINDS];
} drawing;

/* The node with the title of an open box; NULL: not drawn (yet). */
static Agnode_t *title_node(const drawing *d, int box, bool make) {
    return agnode(make ? d->cluster[box] : d->g, tool_text("t%d", box), make);
}

static void draw_title(const drawing *d, int box) {
    text label = {0};
    box_label(&label, d->s, d->m, box, NULL);
    Agnode_t *n = title_node(d, box, true);
    paint_text(n, "label", &label);
    paint(n,
          "shape=plaintext style= height=0 margin=0.02,0.0 fontname=Helvetica-Bold fontsize=%d fontcolor=%s",
          d->s->boxes[box].depth == 1 ? 14 : 12, look_of(d->s, d->m, box)->line);
    text_add(&label, "%s", d->s->boxes[box].path);
    paint_text(n, "tooltip", &label);
}

/* The cluster of a box, made at first use; for a box that is not open, that of its parent. */
static Agraph_t *cluster_of(drawing *d, int box) {
    if (box <= 0) return d->g;
    if (!diagram_box_is_open(d->s, box)) return cluster_of(d, d->s->boxes[box].parent);
    if (d->cluster[box]) return d->cluster[box];
    Agraph_t *g = agsubg(cluster_of(d, d->s->boxes[box].parent), tool_text("cluster_%d", box), 1);
    const subgraph_look *look = look_of(d->s, d->m, box);
    bool top = has_own_look(d->s, d->m, box), collapse = is_collapsed(&d->s->boxes[box]);
    paint(g, "label= style=filled,rounded%s fillcolor=%s color=%s penwidth=%s", collapse ? ",bold" : "",
          top ? look->fill : "#ffffff80", look->line,
          top        ? "2.5"
          : collapse ? "3"
                     : "1");
    d->cluster[box] = g;
    draw_title(d, box);
    return g;
}

static Agnode_t *unit_node(drawing *d, int unit) {
    return agnode(d->g, tool_text("n%d", unit), 0);
}

static diagram_phase unit_phase(const diagram *s, const diagram_unit *u) {
    return u->box >= 0 ? s->boxes[u->box].phase : diagram_phase_of(&s->items[u->item]);
}

static void paint_unit(drawing *d, const diagram_unit *u, Agnode_t *n) {
    draw_kind kind = u->box >= 0 ? KIND_CLOSED : kind_of(d->s->items[u->item].node);
    const subgraph_look *look = kind == KIND_CLOSED ? look_of(d->s, d->m, u->box) : NULL;
    d->used[kind] = true;
    paint(n, "shape=%s fillcolor=%s", looks[kind].shape, look ? look->fill : looks[kind].fill);
    if (look) paint(n, "color=%s penwidth=2", look->line);
    if (kind == KIND_OUTPUT) paint(n, "peripheries=2");
}

/* Draws a node or a closed box, inside the cluster of its box. */
static void draw_unit(drawing *d, int unit) {
    const diagram_unit *u = &d->s->units[unit];
    Agnode_t *n = agnode(cluster_of(d, diagram_box_of(d->s, u)), tool_text("n%d", unit), 1);
    text label = {0}, tip = {0};
    if (u->box >= 0)
        box_label(&label, d->s, d->m, u->box, u);
    else
        node_label(&label, d->s, u->item);
    unit_tip(&tip, d->s, u);
    if (u->parts > 1) text_add(&label, "\n... %d parts", u->parts);
    paint_text(n, "label", &label);
    paint_text(n, "tooltip", &tip);
    paint_unit(d, u, n);
}

/* Is there a later edge from the same box to the same bucket? Of a box's gradients only the last one's edge
 * is drawn. */
static bool is_told(const drawing *d, const diagram_edge *e) {
    int box = diagram_box_of(d->s, &d->s->units[e->from]);
    for (const diagram_edge *f = e + 1; f < d->s->edges + d->s->n_edges; f++)
        if (f->to == e->to && diagram_box_of(d->s, &d->s->units[f->from]) == box) return true;
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
static void note_order(drawing *d, int above, int below, bool up) {
    const diagram *s = d->s;
    int from = diagram_box_of(s, &s->units[above]), into = diagram_box_of(s, &s->units[below]);
    if (diagram_box_is_in(s, from, into)) d->is_below[below] = true;
    while (into > 0 && !diagram_box_is_in(s, from, s->boxes[into].parent)) into = s->boxes[into].parent;
    if (into <= 0 || diagram_box_is_in(s, from, into) || !d->cluster[into]) return;
    const diagram_unit *u = &s->units[above];
    int first = u->box >= 0 ? s->boxes[u->box].low : u->item;
    bool is_outside = up ? first > s->boxes[into].high : first < s->boxes[into].low;
    if (is_outside) draw_below(d, unit_node(d, above), title_node(d, into, false));
}

/* Backward edges are laid out upwards, with the arrow reversed, so that the backward pass rises beside the
 * forward. */
static void draw_edge(drawing *d, const diagram_edge *e) {
    diagram_phase from = unit_phase(d->s, &d->s->units[e->from]), to = unit_phase(d->s, &d->s->units[e->to]);
    if (e->repeats) return; /* each member of a collapse reads the one before it */
    if (from != to && to == DIAGRAM_UPDATE && is_told(d, e)) return;
    bool up = from == DIAGRAM_BACKWARD && to == DIAGRAM_BACKWARD;
    Agnode_t *a = unit_node(d, e->from), *b = unit_node(d, e->to);
    Agedge_t *edge = agedge(d->g, up ? b : a, up ? a : b, NULL, 1);
    if (from != to) {
        draw_aside(edge, e, from == DIAGRAM_FORWARD && to == DIAGRAM_BACKWARD);
        return;
    }
    if (up) paint(edge, "dir=back");
    note_order(d, up ? e->to : e->from, up ? e->from : e->to, up);
    text label = {0};
    if (e->value && from != DIAGRAM_UPDATE) value_label(&label, d->s, e->value);
    if (e->more) text_add(&label, " +%d", e->more);
    paint_text(edge, "label", &label);
}

/* Puts titles above the units that have no other node of their box above them. */
static void hang_titles(drawing *d) {
    for (int b = 1; b < d->s->n_boxes; b++) {
        if (!d->cluster[b]) continue;
        int above = d->s->boxes[b].parent;
        if (above > 0 && d->cluster[above])
            draw_below(d, title_node(d, above, false), title_node(d, b, false));
    }
    for (int u = 0; u < d->s->n_units; u++) {
        int box = diagram_box_of(d->s, &d->s->units[u]);
        while (box > 0 && !d->cluster[box]) box = d->s->boxes[box].parent;
        if (box > 0 && !d->is_below[u]) draw_below(d, title_node(d, box, false), unit_node(d, u));
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
    int last = d->s->n_units - 1;
    while (last >= 0 && unit_phase(d->s, &d->s->units[last]) != DIAGRAM_UPDATE) last--;
    if (last >= 0) draw_below(d, unit_node(d, last), n); /* there is free space */
}

Agraph_t *draw_diagram(diagram *s, const weft_model *m, const char *title) {
    drawing d = {.s = s, .m = m, .g = paint_new("weft")};
    d.cluster = diagram_new(s, s->n_boxes, sizeof *d.cluster);
    d.is_below = diagram_new(s, s->n_units + 1, sizeof *d.is_below);
    paint_defaults(d.g, title);
    paint(d.g, "newrank=true"); /* rows span all boxes, so that a gradient can be beside its layer */
    for (int u = 0; u < s->n_units; u++) draw_unit(&d, u);
    for (int e = 0; e < s->n_edges; e++) draw_edge(&d, &s->edges[e]);
    hang_titles(&d);
    draw_legend(&d);
    return d.g;
}
