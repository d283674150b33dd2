/* autodiff.c - reverse accumulation: `gradients` and `minimize` become nodes made from ops.
 *
 * Declarations are expanded front to back, each in place, so that a later one differentiates through the nodes
 * of an earlier one: gradients of gradients need nothing more. For one loss:
 *   1. mark every value that depends on a target (value->mark), stopping at ops without a gradient;
 *   2. walk back from the loss; a node whose results have gradients (value->mapped) hands them to its op, which
 *      builds the gradients of its operands; several contributions to one value are added in the order met.
 * A gradient that a user named is a value of its own, as every value is that a later declaration may name.
 */
#include "graph/graph.h"

#include "graph/ddp.h"
#include "graph/minimize.h"
#include "weft/ops.h"

static void clear_scratch(weft_graph *g) {
    for (weft_node *n = g->first; n; n = n->next)
        for (int k = 0; k < n->n_out; k++) {
            n->out[k].mark = 0;
            n->out[k].mapped = NULL;
        }
}

/* 1: from the front up to `end`, everything that depends on a marked value through differentiable ops. */
static void mark_dependents(weft_graph *g, const weft_node *end) {
    for (weft_node *n = g->first; n != end; n = n->next) {
        bool depends = false;
        for (int i = 0; i < n->n_in; i++) depends |= n->in[i] && n->in[i]->mark;
        if (!depends || n->op->flags & OP_NO_GRADIENT) continue;
        for (int k = 0; k < n->n_out; k++)
            if (dtype_is_float(n->out[k].type.dtype)) n->out[k].mark = 1;
    }
}

static weft_value *as_type(weft_value *v, weft_dtype dtype) {
    return v && v->type.dtype != dtype ? weft_cast(v, dtype) : v;
}

/* A value's gradient has its type, also where an op mixes types. What reaches a parameter is added up in f32. */
static void add_gradient(weft_value *v, weft_value *gradient) {
    weft_graph *g = v->node->graph;
    gradient = as_type(gradient, v->type.dtype);
    g->building_f32 = v->node->op == &weft_op_parameter;
    if (gradient) v->mapped = v->mapped ? weft_add(v->mapped, gradient) : gradient;
    g->building_f32 = false;
}

/* 2, for one node. */
static bool node_backward(weft_node *n) {
    weft_graph *g = n->graph;
    arena *a = &g->model->arena;
    weft_value *dout[OP_MAX_OUT];
    bool has_gradient = false, any_wanted = false;
    for (int k = 0; k < n->n_out; k++) {
        dout[k] = n->out[k].mark ? n->out[k].mapped : NULL;
        has_gradient |= dout[k] != NULL;
    }
    if (!has_gradient || n->op->flags & OP_NO_GRADIENT) return true;
    bool *wanted = arena_new_array(a, (size_t)n->n_in + 1, sizeof *wanted);
    weft_value **din = arena_new_array(a, (size_t)n->n_in + 1, sizeof *din);
    if (!wanted || !din) return model_fail(g->model, g, WEFT_MEMORY, "autodiff: memory could not be had");
    for (int i = 0; i < n->n_in; i++) any_wanted |= wanted[i] = n->in[i] && n->in[i]->mark;
    if (!any_wanted) return true;
    if (!n->op->gradient)
        return model_fail(g->model, g, WEFT_UNSUPPORTED, "%s (node %%%d): this op has no gradient",
                          n->op->name, n->id);
    scope_entry here = {.path = n->scope}, *above = g->scope;
    g->scope = &here;
    g->model->file = n->file;
    g->model->line = n->line;
    const bool *wide = node_wide(n);
    if (wide && *wide) dout[0] = as_type(dout[0], n->in[0]->type.dtype);
    g->building_f32 = n->op->precision == PRECISION_F32 || n->stays_f32;
    n->op->gradient(n, dout, wanted, din);
    g->building_f32 = false;
    for (int i = 0; i < n->n_in; i++)
        if (wanted[i]) add_gradient(n->in[i], din[i]);
    g->scope = above;
    return model_ok(g->model);
}

/* The gradient of a loss by itself. */
typedef struct loss_seed {
    double value;
    weft_value *(*factor)(const weft_node *minimize); /* may be NULL, and give NULL */
} loss_seed;

static weft_value *seed_of(const weft_value *loss, const weft_node *place, loss_seed seed) {
    const tensor_type *t = &loss->type;
    weft_value *v = weft_constant(place->graph, t->dtype, t->ndim, t->shape, seed.value);
    weft_value *factor = seed.factor ? seed.factor(place) : NULL;
    return factor ? weft_mul(v, as_type(factor, t->dtype)) : v;
}

/* Leaves the gradient of each marked value that the loss depends on in value->mapped; new nodes go before `place`. */
static bool backward(weft_value *loss, weft_node *place, loss_seed seed) {
    weft_graph *g = place->graph;
    mark_dependents(g, place);
    if (!loss->mark) return true;
    g->cursor = place->prev;
    g->building_backward = true;
    scope_entry here = {.path = place->scope}, *above = g->scope;
    g->scope = &here;
    loss->mapped = seed_of(loss, place, seed);
    weft_node *last = loss->node;
    bool good = loss->mapped != NULL;
    for (weft_node *n = last; good && n; n = n->prev) good = node_backward(n);
    g->scope = above;
    g->cursor = NULL;
    g->building_backward = false;
    return good;
}

/* The gradient by v, before node `place`: a new value, since gradients by two values can be one (of a + b by a and b),
 * and a later `gradients` that names the one means only it. */
static weft_value *gradient_of(weft_value *v, const weft_node *place) {
    weft_graph *g = place->graph;
    const tensor_type *t = &v->type;
    g->cursor = place->prev;
    weft_value *gradient =
        v->mapped ? value_again(v->mapped) : weft_constant(g, t->dtype, t->ndim, t->shape, 0);
    g->cursor = NULL;
    return gradient;
}

static bool expand_gradients(weft_node *n) {
    weft_graph *g = n->graph;
    clear_scratch(g);
    for (int i = 1; i < n->n_in; i++) n->in[i]->mark = 1;
    if (!backward(n->in[0], n, (loss_seed){.value = 1})) return false;
    for (int i = 1; i < n->n_in; i++) {
        weft_value *gradient = gradient_of(n->in[i], n);
        if (!gradient) return false;
        graph_replace(g, &n->out[i - 1], gradient);
    }
    node_remove(n);
    return true;
}

/* ---- minimize: targets are the trainable parameters that its pattern matches ---- */

static int minimize_targets(weft_node *n, weft_variable **list) {
    const minimize_attrs *a = n->attrs;
    int count = 0;
    for (weft_variable *v = n->graph->model->variables; v; v = v->next)
        if (v->kind == VARIABLE_PARAMETER && !v->is_frozen && path_matches(a->pattern, v->path))
            list[count++] = v;
    return count;
}

static weft_value *parameter_in_graph(const weft_graph *g, const weft_variable *v) {
    for (weft_node *n = g->first; n; n = n->next)
        if (n->op == &weft_op_parameter && n->variable == v) return &n->out[0];
    return NULL;
}

static bool not_reached(weft_node *n, const weft_variable *v) {
    const minimize_attrs *a = n->attrs;
    return model_fail(
        n->graph->model, n->graph, WEFT_ORDER,
        "graph %s minimizes over '%s', but its loss does not depend on parameter %s: narrow the "
        "pattern, freeze it, or leave it out here by find_unused_parameters (weft_ddp)",
        n->graph->name, *a->pattern ? a->pattern : "(all)", v->path);
}

/* find_unused_parameters: left alone where the loss does not reach it. */
static bool may_be_unused(const weft_variable *v, const weft_model *m) {
    const struct ddp_entry *e = ddp_find(m, v->path);
    return e && e->attrs.find_unused_parameters;
}

/* Keeps of targets[0 .. count) those that this graph reads; -1 after an error. */
static int used_targets(weft_node *n, weft_variable **targets, int count) {
    int kept = 0;
    for (int i = 0; i < count; i++) {
        weft_value *v = parameter_in_graph(n->graph, targets[i]);
        if (!v && !may_be_unused(targets[i], n->graph->model)) {
            not_reached(n, targets[i]);
            return -1;
        }
        if (v) targets[kept++] = targets[i];
    }
    return kept;
}

static bool expand_minimize(weft_node *n, loss_seed seed) {
    weft_graph *g = n->graph;
    arena *a = &g->model->arena;
    weft_variable **targets = arena_new_array(a, (size_t)g->model->n_variables + 1, sizeof *targets);
    if (!targets) return model_fail(g->model, g, WEFT_MEMORY, "autodiff: memory could not be had");
    int count = minimize_targets(n, targets);
    if (count == 0)
        return model_fail(g->model, g, WEFT_NAME, "graph %s: minimize: no trainable parameter matches '%s'",
                          g->name, ((const minimize_attrs *)n->attrs)->pattern);
    clear_scratch(g);
    weft_value **in = arena_new_array(a, 1 + 2 * (size_t)count, sizeof *in);
    if (!in) return model_fail(g->model, g, WEFT_MEMORY, "autodiff: memory could not be had");
    in[0] = n->in[0];
    if ((count = used_targets(n, targets, count)) < 0) return false;
    for (int i = 0; i < count; i++) parameter_in_graph(g, targets[i])->mark = 1;
    if (!backward(in[0], n, seed)) return false;
    int kept = 0;
    for (int i = 0; i < count; i++) {
        weft_value *v = parameter_in_graph(g, targets[i]);
        if (!v->mapped && !may_be_unused(targets[i], g->model)) return not_reached(n, targets[i]);
        if (v->mapped) targets[kept++] = targets[i];
    }
    for (int i = 0; i < kept; i++) {
        in[1 + i] = parameter_in_graph(g, targets[i]);
        in[1 + kept + i] = in[1 + i]->mapped;
    }
    n->in = in;
    n->n_in = 1 + 2 * kept;
    return true;
}

bool pass_autodiff(weft_graph *g, double seed, weft_value *(*factor)(const weft_node *minimize)) {
    for (weft_node *n = g->first, *next; n; n = next) {
        next = n->next;
        if (n->op == &weft_op_gradients && !expand_gradients(n)) return false;
        if (n->op == &weft_op_minimize && n->n_in == 1 && !expand_minimize(n, (loss_seed){seed, factor}))
            return false;
    }
    g->is_expanded = true;
    return true;
}
