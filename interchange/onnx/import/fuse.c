/* fuse.c - what exporters take apart becomes one node again, so that the kernels of Weft run: attention
 * and RMSNorm. Nodes of a graph are replaced before they are built, by nodes of the domain "weft"
 * (operators/fused.c); a part whose value is read elsewhere, too, keeps the whole as it is. */
#include "interchange/onnx/import/import.h"

#include <math.h>

typedef struct fuser {
    importer *in;
    onnx_uses *uses;
    onnx_graph *graph;
    bool *gone; /* by node */
} fuser;

/* ---- makers and uses ---- */

/* The node that makes a value, of this operator (ONNX's own); NULL: another one does. */
static const onnx_node *made_by(fuser *f, const char *name, const char *op) {
    const onnx_use *v = *name ? onnx_use_of(f->uses, name) : NULL;
    const onnx_node *n = v && v->maker >= 0 && !f->gone[v->maker] ? &f->graph->nodes[v->maker] : NULL;
    return n && !*n->domain && !strcmp(n->op, op) ? n : NULL;
}

/* The same where nothing else reads the value. */
static const onnx_node *made_only_by(fuser *f, const char *name, const char *op) {
    const onnx_use *v = *name ? onnx_use_of(f->uses, name) : NULL;
    return v && v->uses == 1 && !v->is_output ? made_by(f, name, op) : NULL;
}

/* ---- constants ---- */

static const onnx_tensor *constant_named(fuser *f, const char *name) {
    const onnx_use *v = onnx_use_of(f->uses, name);
    const onnx_node *n = made_by(f, name, "Constant");
    if (v && v->initializer) return v->initializer;
    return n && n->n_attributes == 1 ? n->attributes[0].tensor : NULL;
}

/* One number of f32 that the file has. With more axes it would give what it is joined with more, too. */
static bool is_number(fuser *f, const char *name, float *number) {
    const onnx_tensor *t = constant_named(f, name);
    weft_error ignored = {0};
    return t && t->type == ONNX_FLOAT && t->ndim <= 1 && onnx_tensor_bytes(t) == sizeof *number &&
           !onnx_tensor_read(&f->in->onnx->file, t, 0, number, sizeof *number, &ignored);
}

/* x of x * number, in either order, or of x / number; false: another product. */
static bool is_scaled(fuser *f, const onnx_node *n, const char **x, double *factor) {
    float number;
    bool is_quotient = !strcmp(n->op, "Div");
    if (n->n_in != 2) return false;
    for (int i = 0; i < (is_quotient ? 1 : 2); i++) {
        if (!is_number(f, n->in[1 - i], &number)) continue;
        *x = n->in[i];
        *factor *= is_quotient ? 1 / (double)number : (double)number;
        return true;
    }
    return false;
}

static int64_t integer_attribute(const onnx_node *n, const char *name, int64_t otherwise) {
    for (int i = 0; i < n->n_attributes; i++)
        if (!strcmp(n->attributes[i].name, name)) return n->attributes[i].integer;
    return otherwise;
}

/* ---- a match: the nodes that it takes, and the node that comes instead ---- */

enum { PARTS = 24 };
typedef struct match {
    fuser *f;
    int n;
    const onnx_node *parts[PARTS];
} match;

static const onnx_node *part(match *m, const onnx_node *n) {
    if (n && m->n < PARTS) m->parts[m->n++] = n;
    return n;
}

static bool add_attribute(fuser *f, onnx_node *n, onnx_attribute a) {
    onnx_attribute *list = kit_grow(f->in->arena, n->attributes, (size_t)n->n_attributes + 1, sizeof *list);
    if (!list) return false;
    n->attributes = list;
    list[n->n_attributes++] = a;
    return true;
}

/* Puts a node in the place of the last part. */
static void replace(match *m, const onnx_node *last, const char *op, int n_in, const char *const *in,
                    double real, const char *name) {
    fuser *f = m->f;
    onnx_node *n = &f->graph->nodes[last - f->graph->nodes];
    const char **operands = kit_take(f->in->arena, (size_t)n_in + 1, sizeof *operands);
    if (!operands) return;
    memcpy(operands, in, (size_t)n_in * sizeof *operands);
    onnx_node made = {.name = n->name,
                      .op = op,
                      .domain = "weft",
                      .overload = "",
                      .is_fused = true,
                      .index = n->index,
                      .n_in = n_in,
                      .in = operands,
                      .n_out = 1,
                      .out = n->out};
    if (!add_attribute(
            f, &made,
            (onnx_attribute){.name = name, .text = "", .type = ONNX_ATTRIBUTE_FLOAT, .real = (float)real}))
        return;
    for (int i = 0; i < m->n; i++) f->gone[m->parts[i] - f->graph->nodes] = true;
    f->gone[last - f->graph->nodes] = false;
    *n = made;
}

/* ---- attention: softmax(scale q k^T + mask) v ---- */

/* The operand of a factor, which is a part; the value itself without one. */
static const char *without_factor(match *m, const char *name, double *factor) {
    const char *x = name;
    const onnx_node *n = made_only_by(m->f, name, "Mul");
    if (!n) n = made_only_by(m->f, name, "Div");
    if (n && is_scaled(m->f, n, &x, factor)) part(m, n);
    return x;
}

/* The softmax of a value where rows of NaN become 0: Where(IsNaN(s), 0, s). */
static const onnx_node *guarded_softmax(match *m, const char *name) {
    float zero;
    const onnx_node *where = made_only_by(m->f, name, "Where"),
                    *nan = where && where->n_in == 3 ? made_only_by(m->f, where->in[0], "IsNaN") : NULL;
    if (!nan) return part(m, made_only_by(m->f, name, "Softmax"));
    const onnx_node *s = made_by(m->f, nan->in[0], "Softmax");
    const onnx_use *v = onnx_use_of(m->f->uses, nan->in[0]);
    if (!s || !v || v->uses != 2 || strcmp(where->in[2], nan->in[0]) ||
        !is_number(m->f, where->in[1], &zero) || zero != 0)
        return NULL;
    part(m, where);
    part(m, nan);
    return part(m, s);
}

/* Whether it is along the last axis alone. Before opset 13 the axis is 1 where none is given, and the axes
 * from it on are one. */
static bool is_of_last(fuser *f, const onnx_node *softmax) {
    int64_t otherwise = onnx_opset_of(f->in->frame, "") < 13 ? 1 : -1;
    return integer_attribute(softmax, "axis", otherwise) == -1;
}

static bool match_attention(fuser *f, const onnx_node *last) {
    match m = {.f = f};
    const char *in[5] = {"", "", "", "", ""};
    int n_masks = 0;
    double scale = 1;
    const onnx_node *softmax = guarded_softmax(&m, last->in[0]);
    if (!softmax || !is_of_last(f, softmax)) return false;
    const char *scores = softmax->in[0];
    for (const onnx_node *add; n_masks < 2 && (add = made_only_by(f, scores, "Add")); part(&m, add)) {
        /* the scores are what a product makes, maybe after a factor or a second mask; the other operand
         * is a mask */
        bool is_first = made_only_by(f, add->in[0], "MatMul") || made_only_by(f, add->in[0], "Mul") ||
                        made_only_by(f, add->in[0], "Div") || made_only_by(f, add->in[0], "Add");
        scores = add->in[!is_first];
        in[3 + n_masks++] = add->in[is_first];
    }
    scores = without_factor(&m, scores, &scale);
    const onnx_node *product = part(&m, made_only_by(f, scores, "MatMul"));
    if (!product) return false;
    in[0] = without_factor(&m, product->in[0], &scale);
    in[1] = without_factor(&m, product->in[1], &scale);
    in[2] = last->in[1];
    replace(&m, last, "Attention", 3 + n_masks, in, scale, "scale");
    return true;
}

/* ---- RMSNorm: x / sqrt(mean(x^2) + eps) * w ---- */

/* 1 / sqrt(v), as Reciprocal(Sqrt(v)). */
static const onnx_node *inverse_root(match *m, const char *name) {
    const onnx_node *inverse = part(m, made_only_by(m->f, name, "Reciprocal"));
    return inverse ? part(m, made_only_by(m->f, inverse->in[0], "Sqrt")) : NULL;
}

/* The axes of a mean, which are the last one alone: a constant operand, since opset 18. */
static bool is_of_last_axis(fuser *f, const onnx_node *mean) {
    int64_t axis = 0;
    weft_error ignored = {0};
    const onnx_tensor *t = mean->n_in > 1 ? constant_named(f, mean->in[1]) : NULL;
    return integer_attribute(mean, "keepdims", 1) && t && t->type == ONNX_INT64 &&
           onnx_tensor_bytes(t) == sizeof axis &&
           !onnx_tensor_read(&f->in->onnx->file, t, 0, &axis, sizeof axis, &ignored) && axis == -1;
}

/* x and eps of mean(x^2) + eps. */
static const char *mean_of_squares(match *m, const char *name, float *eps) {
    float two;
    const onnx_node *add = part(m, made_only_by(m->f, name, "Add"));
    if (!add || !is_number(m->f, add->in[1], eps)) return NULL;
    const onnx_node *mean = part(m, made_only_by(m->f, add->in[0], "ReduceMean"));
    if (!mean || !is_of_last_axis(m->f, mean)) return NULL;
    const onnx_node *square = part(m, made_only_by(m->f, mean->in[0], "Pow"));
    return square && is_number(m->f, square->in[1], &two) && two == 2 ? square->in[0] : NULL;
}

static bool match_rms_norm(fuser *f, const onnx_node *last) {
    float eps;
    for (int i = 0; i < 2; i++) {
        match m = {.f = f};
        const onnx_node *root = inverse_root(&m, last->in[i]);
        const char *x = root ? mean_of_squares(&m, root->in[0], &eps) : NULL;
        if (!x || strcmp(x, last->in[1 - i])) continue;
        replace(&m, last, "RMSNorm", 1, &x, (double)eps, "eps");
        return true;
    }
    return false;
}

/* ---- the graph ---- */

/* Takes away the nodes that are gone. */
static void close_up(fuser *f) {
    int n = 0;
    for (int i = 0; i < f->graph->n_nodes; i++)
        if (!f->gone[i]) f->graph->nodes[n++] = f->graph->nodes[i];
    f->graph->n_nodes = n;
}

void onnx_fuse(importer *in, onnx_uses *u, onnx_graph *graph) {
    bool *gone = kit_take(in->arena, (size_t)graph->n_nodes + 1, sizeof *gone);
    if (!gone || u->has_bodies) return; /* a branch may read any name: nothing is replaced */
    fuser f = {.in = in, .uses = u, .graph = graph, .gone = gone};
    for (int i = 0; i < graph->n_nodes; i++) {
        const onnx_node *n = &graph->nodes[i];
        if (gone[i] || *n->domain || n->n_in != 2) continue;
        if (!strcmp(n->op, "MatMul"))
            match_attention(&f, n);
        else if (!strcmp(n->op, "Mul"))
            match_rms_norm(&f, n);
    }
    close_up(&f);
}
