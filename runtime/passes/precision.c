/* precision.c - the pass that lets parts of a graph run in bf16 or f16, forward and backward nodes alike.
 *
 * One walk from front to back gives every node its operands in the types that its op's rule asks for
 * (weft_op.precision) and infers its results again. A value has the type that its node computes; readers that
 * want the other type share one cast, made right after the node. A value that the user has made reduced keeps
 * its type: value->mark is the type that it had before the pass, and in an f32 scope f32 means that type.
 *
 * A second walk lets a product with only f32 readers write f32 itself (`f32_output`), so that gradients of
 * weights go from the accumulator to their bucket without rounding in between.
 *
 * Micikevicius et al., Mixed Precision Training, arXiv 1710.03740. The rules are those of torch.amp.autocast
 * except for norms and pointwise ops, which read and write the reduced type and compute in f32 inside. */
#include "graph/settings/precision.h"
#include "ops/kit/op_kit.h"
#include "runtime/passes/passes.h"


/* What one run of the pass needs to know. */
typedef struct placing {
    weft_graph *g;
    const char *name;
    weft_dtype otherwise;
    int first_id; /* ids from here on were made by this pass */
} placing;

/* ---- casts ---- */

static bool is_cast(const weft_node *n) {
    return n->op == &weft_op_cast;
}

/* op(x) after node `n`, with its scope and marks: the one made for an earlier reader, or a new one. */
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

/* A view with the same elements in another shape: a cast before it equals a cast after it. */
static bool is_reshaping(const weft_node *n) {
    return n->op->flags & OP_VIEW && type_elements(&n->in[0]->type) == type_elements(&n->out[0].type);
}

/* `v` in type `dtype`. The cast is of the value below its views, so that all shapes share one cast. */
static weft_value *as(const placing *p, weft_value *v, weft_dtype dtype) {
    enum { VIEWS = 8 };
    const struct { weft_dtype dtype; } cast = {dtype}; /* the attributes of a cast */
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

/* Whether operand i is a float operand that is reduced when the node runs reduced. */
static bool is_reduced_operand(const weft_node *n, int i) {
    bool stays_f32 = i < 32 && n->op->f32_in >> i & 1;
    return !stays_f32 && n->in[i] && dtype_is_float(n->in[i]->type.dtype);
}

/* Whether all float operands but those of f32_in can have type `reduced`: they were f32 before the pass, or
 * the user made them reduced. If the op follows, at least one must be reduced already and each of the others
 * be so too or a constant. */
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

/* Replaces operands by casts where needed: reduced ones, and all others in the type that they had before the
 * pass. */
static bool operands_as(const placing *p, weft_node *n, weft_dtype reduced, bool runs_reduced) {
    for (int i = 0; i < n->n_in; i++) {
        weft_value *v = n->in[i];
        if (!v || !dtype_is_float(v->type.dtype)) continue;
        bool is_reduced = runs_reduced && is_reduced_operand(n, i);
        if (!(n->in[i] = as(p, v, is_reduced ? reduced : (weft_dtype)v->mark))) return false;
    }
    return true;
}

/* Decides for one node, converts its operands and infers its results again. */
static bool place_node(const placing *p, weft_node *n) {
    weft_dtype reduced = precision_of(p->g->model, p->name, n->scope, p->otherwise);
    bool may_run_reduced = dtype_is_reduced(reduced) && n->op->precision != PRECISION_F32 && !n->stays_f32;
    bool runs_reduced = may_run_reduced && can_run_reduced(n, reduced);
    if (is_cast(n) && n->in[0]->type.dtype != (weft_dtype)n->in[0]->mark)
        runs_reduced = true; /* a user's cast reads any type: it needs no cast before it */
    if (!operands_as(p, n, runs_reduced && is_cast(n) ? n->in[0]->type.dtype : reduced, runs_reduced))
        return false;
    if (!runs_reduced) return true;
    bool *wide = node_f32_output(n);
    if (wide && n->op->precision == PRECISION_FOLLOWS) *wide = true; /* sums are kept in f32 */
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

/* The cast that reads the result becomes one from f32 to f32, which simplify removes. */
static bool write_f32_output(weft_node *n) {
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
        if (!place_node(&p, n)) return false;
    for (graph_output *o = g->outputs; o; o = o->next)
        if (!(o->value = as(&p, o->value, (weft_dtype)o->value->mark))) return false;
    graph_remove_dead(g); /* views that lost their readers to views of a cast */
    graph_count_uses(g);
    for (weft_node *n = g->first; n; n = n->next)
        if (!write_f32_output(n)) return false;
    return true;
}
