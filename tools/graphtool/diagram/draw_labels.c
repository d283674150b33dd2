/* draw_labels.c - the words of a picture: what a node, a box and an edge say, and the tooltips. */
#include "tools/graphtool/diagram/draw_labels.h"

#include "ops/kit/ops.h"
#include "tools/graphtool/options/options.h"
#include "tools/graphtool/output/end.h"
#include "tools/graphtool/timeline/buckets.h"
#include "tools/graphtool/output/output.h"

#include <string.h>

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

void value_label(text *t, const diagram *s, const weft_value *v) {
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
        const char *path = v->variable ? v->variable->path : "weight";
        text_add(t, "\n%s ", path_leaf(path));
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

/* The ops in a fused node. */
static void body_label(text *t, const weft_node *n) {
    for (int k = 0; k < n->n_body && k < 6; k++)
        text_add(t, k % 2 ? ", %s" : k ? ",\n%s" : ":\n%s", n->body[k]->op->name);
    if (n->n_body > 6) text_add(t, ", ...");
}

/* The label of updates, upkeep or collectives that one represents: how many they are, and what they write. */
static void several_label(text *t, const diagram_item *item) {
    const weft_variable *v = named_by(item->node);
    int count = count_of(item);
    text_add(t, "%s", item->node->op->name);
    if (count > 1) text_add(t, "   \xc3\x97%d", count);
    if (item->is_upkeep) {
        body_label(t, item->node);
        attrs_label(t, item->node);
    }
    if (v && count == 1)
        path_label(t, item->box, v->path);
    else if (v && common_length(item))
        text_add(t, "\n%.*s\xe2\x80\xa6", common_length(item), v->path);
}

/* The state of a layer, which is drawn as part of it: "state running_mean, running_var". */
static void hosted_label(text *t, const diagram *s, const diagram_item *host) {
    const char *before = "\nstate ";
    for (const diagram_item *i = s->items; i < s->items + s->n_items; i++) {
        if (i->host != host || i->node->op != &weft_op_state) continue;
        text_add(t, "%s%s", before, path_leaf(i->node->variable->path));
        before = ", ";
    }
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
        body_label(t, n);
        if (named_by(n)) path_label(t, i->box, n->variable->path);
        if (!n->is_backward) weights_label(t, i);
        attrs_label(t, n);
        hosted_label(t, s, i);
    }
}

/* Up to three ops of a merged unit, and how many it stands for. */
static void merged_label(text *t, const diagram *s, const diagram_unit *u) {
    const char *names[3];
    int n = 0, k;
    for (const diagram_item *i = s->items; i < s->items + s->n_items; i++) {
        if (i->unit != u || !i->node) continue;
        for (k = 0; k < n && strcmp(names[k], i->node->op->name); k++) {
        }
        if (k == n && n == 3) break;
        if (k == n) names[n++] = i->node->op->name;
    }
    for (k = 0; k < n; k++) text_add(t, "%s%s", names[k], k < n - 1 ? ",\n" : "");
    text_add(t, "\n%d ops", u->stands);
}

/* ---- tooltips ---- */

/* The tooltip of a node, an output or a closed box. */
void unit_tip(text *t, const diagram_unit *u) {
    if (u->box) {
        text_add(t, "%s, closed: %d ops", u->box->path, u->stands);
    } else if (u->item->node) {
        tip_node(t, u->item->node, count_of(u->item));
    } else {
        text_add(t, "output %s", u->item->output->name);
        tip_value(t, u->item->output->value);
    }
}

bool box_is_collapsed(const diagram_box *b) {
    for (; b; b = b->twin)
        if (b->members > 1) return true;
    return false;
}

/* "6", where it is inside a collapse the counts of each member, "2, 3, 5, 2", or "2...5" if these are many.
 * */
static void members_label(text *t, const diagram_box *b) {
    enum { LISTED = 6 };
    int low = b->members, high = low, n = 0;
    for (const diagram_box *i = b; i; i = i->twin, n++) {
        if (i->members < low) low = i->members;
        if (i->members > high) high = i->members;
    }
    text_add(t, "   \xc3\x97");
    if (low == high || n > LISTED)
        range_text(t, low, high);
    else
        for (const diagram_box *i = b; i; i = i->twin) text_add(t, i == b ? "%d" : ", %d", i->members);
}

/* The name of the last member of a collapse, of that which has the most. */
static const char *last_name(const diagram_box *b) {
    const diagram_box *most = b;
    for (; b; b = b->twin)
        if (b->members > most->members) most = b;
    return most->last_name;
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
        if (box_is_collapsed(b)) return 0; /* they would be those of one member only */
    for (const diagram_box *b = box; b < s->boxes + s->n_boxes; b++)
        if (b->represented_by == box) elements += parameters_below(m, b->path);
    return elements;
}

/* The title of a box: "blocks 0...47 x48" and, for closed boxes and top-level scopes, how much is inside. */
void box_label(text *t, const diagram *s, const weft_model *m, const diagram_box *b,
               const diagram_unit *closed) {
    text_add(t, "%s", b->name);
    if (box_is_collapsed(b) && !b->run) text_add(t, " \xe2\x80\xa6 %s", last_name(b));
    if (box_is_collapsed(b)) members_label(t, b);
    int64_t elements = parameters_in(s, m, b);
    if (closed) text_add(t, "\n%d ops", closed->stands);
    if (!elements || !(closed || b->depth == 1)) return;
    text_add(t, closed ? ", " : "  \xc2\xb7  ");
    number_text(t, (double)elements);
    text_add(t, " parameters");
}

void unit_label(text *t, const diagram *s, const weft_model *m, const diagram_unit *u) {
    if (u->box)
        box_label(t, s, m, u->box, u);
    else if (u->parts > 1)
        merged_label(t, s, u);
    else
        node_label(t, s, u->item);
}
