/* own_call.c - a call of an op that a program defines: between the engine's infer, gradient and kernel and
 * the program's. What the program gives back is checked before the engine uses it. */
#include "graph/core/own_op.h"

#include "graph/core/nearest.h"

#include <stdio.h>
#include <string.h>

/* The sentence of a function that failed, which need not have ended it. */
typedef struct reason {
    char text[WEFT_OP_WHY];
} reason;

static reason reason_of(const char why[WEFT_OP_WHY], const char *otherwise) {
    reason r;
    snprintf(r.text, sizeof r.text, "%.*s", WEFT_OP_WHY - 1, *why ? why : otherwise);
    return r;
}

/* ---- infer ---- */

static weft_op_type type_out(const tensor_type *t) {
    weft_op_type out = {t->dtype, t->ndim, {0}};
    memcpy(out.shape, t->shape, sizeof out.shape);
    return out;
}

/* An op without an infer: f32, and one shape. */
static bool infer_plain(op_call *c) {
    for (int i = 0; i < c->n_in; i++)
        if (op_in(c, i)->dtype != WEFT_F32 || !shape_equal(op_in(c, i), op_in(c, 0)))
            return op_fail(c, op_in(c, i)->dtype == WEFT_F32 ? WEFT_SHAPE : WEFT_TYPE,
                           "operand %d is %s: without an `infer` all operands are f32 and of one shape", i,
                           TYPE(op_in(c, i)));
    for (int k = 0; k < c->n_out; k++) c->out[k] = *op_in(c, 0);
    return true;
}

/* What an infer that gives no reason has refused. */
static reason refused(const op_call *c) {
    reason r;
    size_t n = (size_t)snprintf(r.text, sizeof r.text, "its `infer` refuses");
    for (int i = 0; i < c->n_in && n < sizeof r.text; i++)
        n += (size_t)snprintf(r.text + n, sizeof r.text - n, "%s %s", i ? "," : "", TYPE(op_in(c, i)));
    return r;
}

/* Whatever the program's infer has written; node_new checks the lengths. */
static bool type_take(op_call *c, int k, const weft_op_type *t) {
    if (!dtype_bytes(t->dtype))
        return op_fail(c, WEFT_TYPE, "its `infer` gives result %d the element type %d, which does not exist",
                       k, (int)t->dtype);
    if (t->ndim < 0 || t->ndim > WEFT_MAX_NDIM)
        return op_fail(c, WEFT_SHAPE, "its `infer` gives result %d %d axes: 0 to %d are allowed", k, t->ndim,
                       WEFT_MAX_NDIM);
    c->out[k] = type_of(t->dtype, t->ndim, t->shape);
    return type_check(&c->out[k]) ||
           op_fail(c, WEFT_SHAPE,
                   "its `infer` gives result %d the type %s: every axis must be at least 1 and the whole "
                   "below 2^46 bytes",
                   k, TYPE(&c->out[k]));
}

bool own_infer(op_call *c) {
    const weft_op_definition *is = &c->op->own->is;
    const own_attrs *a = c->attrs;
    weft_op_types t = {.reals = a->reals, .integers = a->integers, .context = is->context};
    c->n_out = is->n_results;
    for (int i = 0; i < c->n_in; i++)
        if (type_is_empty(op_in(c, i)))
            return op_fail(c, WEFT_SHAPE, "operand %d has no elements: %s", i, TYPE(op_in(c, i)));
    if (!is->infer) return infer_plain(c);
    for (int i = 0; i < c->n_in; i++) t.operands[i] = type_out(op_in(c, i));
    for (int k = 0; k < c->n_out; k++) t.results[k] = t.operands[0];
    if (!is->infer(&t))
        return op_fail(c, WEFT_SHAPE, "%s", *t.why ? reason_of(t.why, "").text : refused(c).text);
    for (int k = 0; k < c->n_out; k++)
        if (!type_take(c, k, &t.results[k])) return false;
    return true;
}

/* ---- gradient ---- */

/* Ops that a gradient may not call: it is built while the compiler differentiates, and must be a function of
 * the call's values. */
static bool is_no_formula(const weft_op *op) {
    return op->role == ROLE_DECLARES ||
           op->flags & (OP_VARIABLE | OP_RANDOM | OP_EFFECT | OP_COMPILER | OP_COMMUNICATES);
}

/* What there was before a gradient was built. */
typedef struct built {
    const weft_node *last; /* the node before the new ones */
    graph_output **outputs;
    const scope_entry *scope;
    weft_graph **graphs;
    int variables;
} built;

static bool calls_are_fine(weft_node *n, const built *was) {
    weft_graph *g = n->graph;
    const weft_node *end = g->cursor ? g->cursor->next : NULL;
    for (const weft_node *k = was->last ? was->last->next : g->first; k != end; k = k->next)
        if (is_no_formula(k->op))
            return node_fail(g->model, n, WEFT_ARGUMENT,
                             "%s: its gradient calls %s: it may not name inputs and parameters, draw, train "
                             "or differentiate",
                             n->op->name, k->op->name);
    if (g->model->graphs_end != was->graphs || g->model->n_variables != was->variables)
        return node_fail(g->model, n, WEFT_ARGUMENT, "%s: its gradient makes a graph or a parameter",
                         n->op->name);
    if (g->outputs_end != was->outputs)
        return node_fail(g->model, n, WEFT_ARGUMENT, "%s: its gradient names an output", n->op->name);
    return g->scope == was->scope ||
           node_fail(g->model, n, WEFT_ORDER, "%s: its gradient leaves a scope open", n->op->name);
}

static bool gradient_fits(weft_node *n, int i, const weft_value *v) {
    if (!v || (v->node->graph == n->graph && type_equal(&v->type, &n->in[i]->type))) return true;
    return node_fail(n->graph->model, n, WEFT_SHAPE, "%s: its gradient by operand %d is %s%s: it must be %s",
                     n->op->name, i, TYPE(&v->type), v->node->graph == n->graph ? "" : " of another graph",
                     TYPE(&n->in[i]->type));
}

void own_gradient(weft_node *n, weft_value *const *dout, const bool *wanted, weft_value **din) {
    const weft_op_definition *is = &n->op->own->is;
    const own_attrs *a = n->attrs;
    weft_graph *g = n->graph;
    weft_error *e = &g->model->error;
    built was = {g->cursor ? g->cursor : g->last, g->outputs_end, g->scope, g->model->graphs_end,
                 g->model->n_variables};
    weft_op_gradient v = {.reals = a->reals, .integers = a->integers, .context = is->context};
    for (int i = 0; i < n->n_in; i++) {
        v.operands[i] = n->in[i];
        v.wanted[i] = wanted[i];
    }
    for (int k = 0; k < n->n_out; k++) {
        v.results[k] = &n->out[k];
        v.result_gradients[k] = dout[k];
    }
    is->gradient(&v);
    if (!model_ok(g->model))
        error_set(e, e->status, "%s (in the gradient of %s)", e->text, n->op->name);
    else if (calls_are_fine(n, &was))
        for (int i = 0; i < n->n_in; i++)
            if (wanted[i] && gradient_fits(n, i, v.gradients[i])) din[i] = v.gradients[i];
}

/* ---- kernel ---- */

static weft_op_tensor tensor_out(const tensor *t) {
    weft_op_tensor out = {.data = t->data, .type = type_out(&t->type)};
    memcpy(out.strides, t->stride, sizeof out.strides);
    return out;
}

static bool is_status(weft_status status) {
    enum {
#define X(name, number, text) +1
        STATUSES = WEFT_STATUS_LIST(X)
#undef X
    };
    return (unsigned)status < STATUSES;
}

static weft_status kernel_failed(const kernel_call *c, weft_status status, const char why[WEFT_OP_WHY]) {
    char node[200], other[80];
    const char *otherwise = weft_status_text(status);
    if (!is_status(status)) {
        snprintf(other, sizeof other, "its kernel returns %d, which is not a status", (int)status);
        otherwise = other;
        status = WEFT_ARGUMENT;
    }
    return error_set(c->error, status, "graph %s: %s: %s", c->node->graph->name, node_show(c->node, node),
                     reason_of(why, otherwise).text);
}

weft_status own_kernel(const kernel_call *c) {
    const weft_op_definition *is = &c->node->op->own->is;
    const own_attrs *a = c->attrs;
    weft_op_run run = {
        .reals = a->reals, .integers = a->integers, .context = is->context, .threads = c->threads};
    for (int i = 0; i < c->n_in; i++) run.operands[i] = tensor_out(&c->in[i]);
    for (int k = 0; k < c->n_out; k++) run.results[k] = tensor_out(&c->out[k]);
    weft_status status = is->kernel(&run);
    return status ? kernel_failed(c, status, run.why) : WEFT_OK;
}

/* ---- the builder ---- */

/* The place of the number `name` of that kind in the attributes; NULL after an error. */
static void *number_at(weft_graph *g, const weft_op *op, own_attrs *a, const char *name, attr_kind kind) {
    const op_attr *f = attr_find(op, name, strlen(name));
    if (f && f->kind == kind) return (char *)a + f->offset;
    nearest near = nearest_to(name, strlen(name));
    for (const op_attr *k = op->attrs; k->name; k++)
        if (k->kind == kind) nearest_try(&near, k->name);
    if (f)
        return graph_fail(g, WEFT_NAME, "%s: it has no %s '%s': that is one of its %s", op->name,
                          kind == ATTR_REAL ? "number" : "whole number", SHOW(name),
                          kind == ATTR_REAL ? "whole numbers" : "real numbers");
    return graph_fail(g, WEFT_NAME, "%s: it has no %s '%s'%s", op->name,
                      kind == ATTR_REAL ? "number" : "whole number", SHOW(name), nearest_ask(&near).question);
}

/* The numbers of a call: its own, or else the definition's. */
static bool numbers_take(weft_graph *g, const own_op *o, const weft_op_numbers *numbers, own_attrs *a) {
    weft_op_numbers given = numbers ? *numbers : (weft_op_numbers){0};
    own_number list[2 * WEFT_MAX_OP_NUMBERS];
    int n = own_numbers(&given, list);
    *a = (own_attrs){0};
    own_defaults(o, a);
    for (int i = 0; i < n; i++) {
        const char *name = *list[i].name;
        void *at = number_at(g, &o->op, a, name, list[i].kind);
        if (!at) return false;
        for (int k = 0; k < i; k++)
            if (!strcmp(*list[k].name, name))
                return graph_fail(g, WEFT_ARGUMENT, "%s: the call gives %s twice", o->op.name, SHOW(name));
        memcpy(at, list[i].value, OWN_NUMBER_BYTES);
    }
    return true;
}

/* The first operand that is there. */
static weft_value *first_of(int n, weft_value *const *operands) {
    int i = 0;
    while (operands && i < n && !operands[i]) i++;
    return operands && i < n ? operands[i] : NULL;
}

weft_value *weft_call_op(const char *name, int n, weft_value *const *operands,
                         const weft_op_numbers *numbers) {
    weft_value *first = first_of(n, operands);
    weft_graph *g = first ? first->node->graph : NULL;
    own_attrs attrs;
    if (!g || !model_ok(g->model)) return NULL;
    if (!name) name = "";
    const weft_op *op = model_op(g->model, name, strlen(name));
    if (!op)
        return graph_fail(g, WEFT_NAME, "weft_call_op: %s", op_missing(g->model, name, strlen(name)).text);
    if (!op->own)
        return graph_fail(g, WEFT_NAME, "weft_call_op: %s is Weft's: call its function of weft/ops.h", name);
    if (n != op->min_in)
        return graph_fail(g, WEFT_ARGUMENT, "%s: %d operands: it takes %d", name, n, op->min_in);
    if (numbers && !value_reserved(first, "weft_op_numbers", numbers->reserved, sizeof numbers->reserved))
        return NULL;
    return numbers_take(g, op->own, numbers, &attrs) ? op_value(op, n, operands, &attrs) : NULL;
}
