/* precision.c - the pass that lets parts of a graph run in bf16 or f16, forward and backward nodes alike.
 *
 * One walk front to back gives every node its operands in the types that its op's rule asks for (weft_op.precision) and
 * infers its results anew. A value is what its node makes of it; a reader that wants it in the other type reads a cast,
 * one for all such readers, that stands right behind the node. What the user made reduced himself keeps its type: a value's
 * `mark` is the type that it had before the pass, and f32 in f32 scopes means that.
 *
 * A second walk lets a product whose result only f32 readers want write f32 itself (`f32_output`): gradients of weights go from
 * the accumulator to their bucket without a rounding in between.
 *
 * Micikevicius et al., Mixed Precision Training, arXiv 1710.03740; the rules are those of torch.amp.autocast but for norms
 * and pointwise ops, which read and write the reduced type and compute in f32 inside.
 */
#include "graph/core/precision.h"

#include "weft/ops.h"

typedef struct placing {
    weft_graph *g;
    const char *name;
    weft_dtype otherwise;
    int first_id; /* nodes from it on are this pass's own */
} placing;

/* ---- casts ---- */

static bool is_cast(const weft_node *n) {
    return n->op == &weft_op_cast;
}

/* op(x) behind node `n`, with its stamps: made before for another reader, or now. */
static weft_value *behind(const placing *p, weft_node *n, const weft_op *op, weft_value *x,
                          const void *attrs) {
    weft_node *last = n;
    for (weft_node *m = n->next; m && m->n_out && m->id >= p->first_id; last = m, m = m->next)
        if (m->op == op && m->in[0] == x && attrs_equal(op, m->attrs, attrs)) return &m->out[0];
    build_place at;
    build_begin(&at, p->g, n->scope, last);
    p->g->building_backward = n->is_backward;
    weft_value *to = node_value(p->g, op, 1, &x, attrs);
    build_end(&at);
    if (to) to->mark = to->type.dtype;
    return to;
}

/* The same elements under another shape: casting before it or behind it is all one. */
static bool is_reshaping(const weft_node *n) {
    return n->op->flags & OP_VIEW && type_elements(&n->in[0]->type) == type_elements(&n->out[0].type);
}

/* `v` as `dtype`. What is cast is the value below its views, so that there is one cast of it for all shapes. */
static weft_value *as(const placing *p, weft_value *v, weft_dtype dtype) {
    enum { VIEWS = 8 };
    const struct { weft_dtype dtype; } cast = {dtype}; /* a cast's attributes */
    weft_node *views[VIEWS];
    int n = 0;
    if (v->type.dtype == dtype) return v;
    for (; n < VIEWS && is_reshaping(v->node); v = v->node->in[0]) views[n++] = v->node;
    if (v->type.dtype != dtype) v = behind(p, v->node, &weft_op_cast, v, &cast);
    while (v && n--) v = behind(p, views[n], views[n]->op, v, views[n]->attrs);
    return v;
}

bool casts_parameter(const weft_node *n) {
    if (!is_cast(n)) return false;
    const weft_value *v = n->in[0];
    while (v->node->op->flags & OP_VIEW) v = v->node->in[0];
    return v->node->op == &weft_op_parameter;
}

/* ---- the rules ---- */

static bool is_reduced_operand(const weft_node *n, int i) {
    return i < 32 && n->op->reduced_in >> i & 1 && n->in[i] && dtype_is_float(n->in[i]->type.dtype);
}

/* All float operands of reduced_in can be `reduced`: they were f32 (or are reduced by the user's hand), and where the op follows, one
 * of them is reduced and the others are, or are numbers. */
static bool can_run_reduced(const weft_node *n, weft_dtype reduced) {
    double number;
    bool is_any = false, follows = n->op->precision == PRECISION_FOLLOWS;
    for (int i = 0; i < n->n_in; i++) {
        if (!is_reduced_operand(n, i)) continue;
        bool is_reduced = n->in[i]->type.dtype == reduced;
        if (n->in[i]->mark != WEFT_F32 && !is_reduced) return false;
        if (follows && !is_reduced && !constant_value(n->in[i], &number)) return false;
        is_any |= is_reduced || !follows;
    }
    return is_any;
}

static bool operands_as(const placing *p, weft_node *n, weft_dtype reduced, bool runs_reduced) {
    for (int i = 0; i < n->n_in; i++) {
        weft_value *v = n->in[i];
        if (!v || !dtype_is_float(v->type.dtype)) continue;
        bool is_reduced = runs_reduced && is_reduced_operand(n, i);
        if (!(n->in[i] = as(p, v, is_reduced ? reduced : (weft_dtype)v->mark))) return false;
    }
    return true;
}

static bool place(const placing *p, weft_node *n) {
    weft_dtype reduced = precision_of(p->g->model, p->name, n->scope, p->otherwise);
    bool may_run_reduced = dtype_is_reduced(reduced) && n->op->precision != PRECISION_F32 && !n->stays_f32;
    bool runs_reduced = may_run_reduced && can_run_reduced(n, reduced);
    if (is_cast(n) && n->in[0]->type.dtype != (weft_dtype)n->in[0]->mark)
        runs_reduced = true; /* from any type */
    if (!operands_as(p, n, runs_reduced && is_cast(n) ? n->in[0]->type.dtype : reduced, runs_reduced))
        return false;
    if (!runs_reduced) return true;
    bool *wide = node_f32_output(n);
    if (wide && n->op->precision == PRECISION_FOLLOWS) *wide = true; /* sums */
    return node_retype(n);
}

/* ---- results that only f32 readers want ---- */

/* The cast to f32 that is the only reader of a reduced result 0, or NULL. */
static const weft_node *cast_up_alone(const weft_node *n) {
    const weft_value *v = &n->out[0];
    if (!n->n_out || v->uses != 1 || v->mark != WEFT_F32 || !dtype_is_reduced(v->type.dtype)) return NULL;
    for (const weft_node *m = n->next; m; m = m->next)
        for (int i = 0; i < m->n_in; i++)
            if (m->in[i] == v) return is_cast(m) && m->out[0].type.dtype == WEFT_F32 ? m : NULL;
    return NULL;
}

/* The cast is then from f32 to f32, which simplify takes away. */
static bool widen(weft_node *n) {
    bool *wide = node_f32_output(n);
    if (!wide || !cast_up_alone(n)) return true;
    *wide = true;
    return node_retype(n);
}

/* ---- the pass ---- */

bool pass_precision(weft_graph *g, const char *name, weft_dtype otherwise) {
    placing p = {g, name, otherwise, g->next_id};
    bool is_mixed = false;
    for (const weft_node *n = g->first; n && !is_mixed; n = n->next)
        is_mixed = dtype_is_reduced(precision_of(g->model, name, n->scope, otherwise));
    if (!is_mixed) return true;
    for (weft_node *n = g->first; n; n = n->next)
        for (int k = 0; k < n->n_out; k++) n->out[k].mark = n->out[k].type.dtype;
    for (weft_node *n = g->first; n; n = n->next)
        if (!place(&p, n)) return false;
    for (graph_output *o = g->outputs; o; o = o->next)
        if (!(o->value = as(&p, o->value, (weft_dtype)o->value->mark))) return false;
    graph_remove_dead(g); /* views whose readers have others now */
    graph_count_uses(g);
    for (weft_node *n = g->first; n; n = n->next)
        if (!widen(n)) return false;
    return true;
}
