/* draw.c - draws a scene with cgraph: clusters by scope, colours by kind, shapes on edges, a legend. */
#include "tools/graphtool/diagram/draw.h"

#include "graph/core/minimize.h"
#include "tools/graphtool/timeline/buckets.h"
#include "tools/graphtool/diagram/paint.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- kinds: derived from what an op says of itself, so that a new op needs no line here ---- */

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

/* The look of a box is that of its top-level scope. */
static const subgraph_look *look_of(const scene *s, const weft_model *m, int box) {
    while (s->boxes[box].depth > 1) box = s->boxes[box].parent;
    return subgraph_look_of(m, s->boxes[box].path);
}

/* ---- labels ---- */

/* "128x64x7x7", with the type unless f32 */
static void type_label(text *t, const tensor_type *type) {
    if (type->dtype != WEFT_F32) text_add(t, "%s ", dtype_name(type->dtype));
    if (!type->ndim && type->dtype == WEFT_F32) text_add(t, "1");
    for (int i = 0; i < type->ndim; i++) text_add(t, i ? "\xc3\x97%lld" : "%lld", (long long)type->shape[i]);
}

/* Ones say nothing but for a padding; out channels and kernel stand in the weight's shape. */
static bool is_telling(const char *name, int64_t number) {
    if (strcmp(name, "out") == 0 || strcmp(name, "kernel") == 0) return false;
    return number > 1 || (number == 1 && strcmp(name, "pad") == 0);
}

/* The attributes a reader looks for: "stride 2 pad 1"; shapes stand on the edges already. */
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
            text_add(t, "%s%s %g", gap, a->name, real); /* no epsilons */
        else if (is_telling(a->name, number))
            text_add(t, "%s%s %lld", gap, a->name, (long long)number);
        else
            continue;
        shown++;
    }
}

static void weights_label(text *t, const weft_node *n) {
    for (int i = 0; i < n->n_in; i++) {
        const weft_value *v = n->in[i];
        if (!v || v->node->op != &weft_op_parameter || v->type.ndim < 2) continue;
        text_add(t, "\n%s ",
                 v->variable ? strrchr(v->variable->path, '/') ? strrchr(v->variable->path, '/') + 1
                                                               : v->variable->path
                             : "weight");
        type_label(t, &v->type);
    }
}

/* A path over several lines: long ones would make wide nodes. */
static void path_label(text *t, const char *path) {
    for (const char *p = path; *p;) {
        size_t n = strcspn(p, "/");
        text_add(t, "\n%.*s%s", (int)n, p, p[n] ? "/" : "");
        p += n + (p[n] == '/');
    }
}

static void node_label(text *t, const scene *s, const scene_item *i) {
    const weft_node *n = i->node;
    const scene_box *b = &s->boxes[i->box];
    if (!n) {
        text_add(t, "%s", i->output->name);
    } else if (n->op == &weft_op_input) {
        text_add(t, "%s\n", input_name(n));
        type_label(t, &n->out[0].type);
    } else if (n->op == &weft_op_minimize) {
        const minimize_attrs *a = n->attrs;
        text_add(t, "minimize\n%s\n%s lr %g", a->pattern && *a->pattern ? a->pattern : "everything", a->type,
                 a->lr);
    } else {
        if (b->is_bare && strcmp(b->name, n->op->name)) text_add(t, "%s\n", b->name);
        text_add(t, "%s", n->op->name);
        for (int k = 0; k < n->n_body && k < 6; k++)
            text_add(t, k % 3 ? ", %s" : k ? ",\n%s" : ":\n%s", n->body[k]->op->name);
        if (n->n_body > 6) text_add(t, ", ...");
        if (n->variable && n->op->flags & OP_VARIABLE) path_label(t, n->variable->path);
        if (!n->is_backward) weights_label(t, n);
        attrs_label(t, n);
    }
}

/* "blocks 0...47 x48" and, on closed boxes and subgraphs, how much is inside. */
static void box_label(text *t, const scene *s, const weft_model *m, int box, bool closed) {
    const scene_box *b = &s->boxes[box];
    text_add(t, "%s", b->name);
    if (b->members > 1) text_add(t, " \xe2\x80\xa6 %s   \xc3\x97%d", b->last_name, b->members);
    int64_t elements = 0;
    size_t length = strlen(b->path);
    for (const weft_variable *v = m->variables; v; v = v->next)
        if (v->kind == VARIABLE_PARAMETER && strncmp(v->path, b->path, length) == 0 && v->path[length] == '/')
            elements += type_elements(&v->type);
    if (closed) text_add(t, "\n%d ops", b->items);
    if (!elements || !(closed || b->depth == 1)) return;
    text_add(t, closed ? ", " : "  \xc2\xb7  ");
    number_text(t, (double)elements);
    text_add(t, closed && b->members > 1 ? " parameters each" : " parameters");
}

/* ---- drawing ---- */

typedef struct drawing {
    const scene *s;
    const weft_model *m;
    Agraph_t *g;
    Agraph_t **cluster; /* by box */
    bool used[KINDS];
} drawing;

static Agraph_t *cluster_of(drawing *d, int box) {
    if (box <= 0) return d->g;
    if (!scene_box_is_open(d->s, box)) return cluster_of(d, d->s->boxes[box].parent);
    if (d->cluster[box]) return d->cluster[box];
    char name[32];
    snprintf(name, sizeof name, "cluster_%d", box);
    Agraph_t *g = agsubg(cluster_of(d, d->s->boxes[box].parent), name, 1);
    const subgraph_look *look = look_of(d->s, d->m, box);
    text label = {0};
    box_label(&label, d->s, d->m, box, false);
    paint_text(g, "label", &label);
    bool top = d->s->boxes[box].depth == 1, fold = d->s->boxes[box].members > 1;
    paint_set(g, "style", fold ? "filled,rounded,bold" : "filled,rounded");
    paint_set(g, "fillcolor", top ? look->fill : "#ffffff80");
    paint_set(g, "color", look->line);
    paint_set(g, "fontcolor", look->line);
    paint_set(g, "penwidth", top ? "2.5" : fold ? "3" : "1");
    paint_set(g, "fontsize", top ? "20" : "14");
    paint_set(g, "fontname", "Helvetica-Bold");
    paint_set(g, "labeljust", "l");
    return d->cluster[box] = g;
}

static Agnode_t *unit_node(drawing *d, int unit) {
    char name[32];
    snprintf(name, sizeof name, "n%d", unit);
    return agnode(d->g, name, 0);
}

static void draw_unit(drawing *d, int unit) {
    const scene_unit *u = &d->s->units[unit];
    char name[32];
    snprintf(name, sizeof name, "n%d", unit);
    Agnode_t *n = agnode(cluster_of(d, scene_home(d->s, u)), name, 1);
    draw_kind kind = u->box >= 0 ? KIND_CLOSED : kind_of(d->s->items[u->item].node);
    d->used[kind] = true;
    text label = {0};
    if (u->box >= 0)
        box_label(&label, d->s, d->m, u->box, true);
    else
        node_label(&label, d->s, &d->s->items[u->item]);
    if (u->parts > 1) text_add(&label, "\n... %d parts", u->parts);
    paint_text(n, "label", &label);
    paint_set(n, "shape", looks[kind].shape);
    paint_set(n, "fillcolor", looks[kind].fill);
    if (kind == KIND_CLOSED) {
        paint_set(n, "fillcolor", look_of(d->s, d->m, u->box)->fill);
        paint_set(n, "color", look_of(d->s, d->m, u->box)->line);
        paint_set(n, "penwidth", "2");
    }
    if (kind == KIND_OUTPUT) paint_set(n, "peripheries", "2");
}

static void draw_edge(drawing *d, const scene_edge *e) {
    Agedge_t *edge = agedge(d->g, unit_node(d, e->from), unit_node(d, e->to), NULL, 1);
    if (e->repeats) { /* into the next member of a fold: a dashed way back that does not shape the layout */
        paint_set(edge, "style", "dashed");
        paint_set(edge, "constraint", "false");
        return;
    }
    text label = {0};
    if (e->value) type_label(&label, &e->value->type);
    if (e->more) text_add(&label, " +%d", e->more);
    paint_text(edge, "label", &label);
}

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
    text_add(&t, "%s<tr><td colspan=\"%d\">on edges: shapes, f32 unless said</td></tr></table>",
             shown ? "</tr>" : "", PER_ROW);
    Agnode_t *n = agnode(d->g, "legend", 1);
    paint_html(d->g, n, &t);
    paint_set(n, "shape", "none");
    paint_set(n, "style", "");
}

Agraph_t *draw_scene(const scene *s, const weft_model *m, const char *title) {
    drawing d = {.s = s, .m = m, .g = agopen("weft", Agdirected, NULL)};
    d.cluster = calloc((size_t)s->n_boxes, sizeof(Agraph_t *));
    if (!d.g || !d.cluster) {
        if (d.g) agclose(d.g);
        free(d.cluster);
        return NULL;
    }
    paint_defaults(d.g, title);
    for (int u = 0; u < s->n_units; u++) draw_unit(&d, u);
    for (int e = 0; e < s->n_edges; e++) draw_edge(&d, &s->edges[e]);
    draw_legend(&d);
    free(d.cluster);
    return d.g;
}
