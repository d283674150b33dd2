/* empty.c - values without elements. Programs make them as any other value: a cache that is still empty, a
 * range of nothing. No pass, kernel or memory layout meets one, because a graph that is compiled is a replay
 * of the program's calls, and while it is made
 *   - a call whose results are all empty leaves no node in the list: nothing can be computed of them;
 *   - a call with an empty operand and a result that has elements becomes what the op's definition says of
 *     nothing, which its row names (op_empty): a sum is 0, a product 1, a mean NaN.
 * So an axis may be 0 at one batch and not at another, and a program's graph says the same at both. Each new
 * node has the id of the result that it stands for, so that rule G8 can compare the copy with the program's
 * calls. */
#include "graph/core/empty.h"

#include <math.h>
#include <string.h>

static bool any_is_empty(int n, weft_value *const *values) {
    for (int i = 0; i < n; i++)
        if (values[i] && type_is_empty(&values[i]->type)) return true;
    return false;
}

bool call_is_empty(const op_call *c) {
    bool is_empty = any_is_empty(c->n_in, c->in);
    for (int k = 0; k < c->n_out; k++) is_empty |= type_is_empty(&c->out[k]);
    return is_empty;
}

/* ---- what the rows say ---- */

/* Whether the attributes ask for a mean: `mean`, or the word `mean` of `reduction`. */
static bool is_mean(const op_call *c) {
    const op_attr *mean = attr_find(c->op, "mean", 4), *word = attr_find(c->op, "reduction", 9);
    if (mean) return ATTR_FIELD(bool, c->attrs, mean);
    return word && strcmp(word->words[ATTR_FIELD(int64_t, c->attrs, word)], "mean") == 0;
}

/* Whether the row says what result k is; *value: the number that fills it, where it is one. */
static bool has_meaning(const op_call *c, int k, double *value) {
    bool is_bool = c->out[k].dtype == WEFT_BOOL;
    *value = 0;
    switch (c->op->of_nothing) {
    case EMPTY_ZEROS:
    case EMPTY_FIRST:
    case EMPTY_OTHERS:
        return true;
    case EMPTY_ADDED:
        return c->n_in < 3 || !c->in[2] || op_in(c, 2)->dtype == c->out[k].dtype;
    case EMPTY_ONES:
        *value = 1;
        return true;
    case EMPTY_MEAN:
        *value = is_mean(c) ? NAN : 0;
        return true;
    case EMPTY_FALSE:
    case EMPTY_TRUE:
        *value = c->op->of_nothing == EMPTY_TRUE;
        return is_bool;
    case EMPTY_FILL:
        *value = ATTR_FIELD(double, c->attrs, attr_find(c->op, "value", 5));
        return true;
    case EMPTY_REFUSED:
        break;
    }
    return false;
}

bool call_may_be_empty(const op_call *c) {
    double value;
    bool has = true;
    for (int k = 0; k < c->n_out && has; k++)
        has = type_is_empty(&c->out[k]) || (any_is_empty(c->n_in, c->in) && has_meaning(c, k, &value));
    if (has && c->n_out) return true;
    for (int i = 0; i < c->n_in; i++)
        if (c->in[i] && type_is_empty(op_in(c, i)))
            return op_fail(c, WEFT_SHAPE, "operand %d has no elements: %s, and the op has no value for none",
                           i, TYPE(op_in(c, i)));
    return op_fail(c, WEFT_SHAPE, "result %s: every axis must be at least 1", TYPE(&c->out[0]));
}

/* ---- in a graph that is compiled ---- */

static const weft_op *op_named(const op_call *c, const char *name) {
    return model_op(c->graph->model, name, strlen(name));
}

static void *attrs_new(const op_call *c, const weft_op *op) {
    return arena_new(&c->graph->model->arena, op->attrs_bytes + 1);
}

static void ints_set(const weft_op *op, const char *name, void *attrs, int n, const int64_t *values) {
    attr_ints *into = &ATTR_FIELD(attr_ints, attrs, attr_find(op, name, strlen(name)));
    into->n = n;
    if (n) memcpy(into->v, values, (size_t)n * sizeof *values);
}

/* A constant of the type. */
static weft_value *filled(const op_call *c, const tensor_type *type, double value) {
    const weft_op *op = op_named(c, "constant");
    void *attrs = attrs_new(c, op);
    if (!attrs) return NULL;
    ATTR_FIELD(weft_dtype, attrs, attr_find(op, "dtype", 5)) = type->dtype;
    ATTR_FIELD(double, attrs, attr_find(op, "value", 5)) = value;
    ints_set(op, "shape", attrs, type->ndim, type->shape);
    return node_value(c->graph, op, 0, NULL, attrs);
}

/* The same value as a result of its own: axes in their own order. */
static weft_value *again(const op_call *c, weft_value *v) {
    const weft_op *op = op_named(c, "permute");
    void *attrs = attrs_new(c, op);
    int64_t axes[WEFT_MAX_NDIM];
    for (int i = 0; i < WEFT_MAX_NDIM; i++) axes[i] = i;
    if (attrs) ints_set(op, "axes", attrs, v->type.ndim, axes);
    return attrs ? node_value(c->graph, op, 1, &v, attrs) : NULL;
}

static weft_value *repeated(const op_call *c, weft_value *v, const tensor_type *type) {
    const weft_op *op = op_named(c, "broadcast_to");
    void *attrs = attrs_new(c, op);
    if (attrs) ints_set(op, "shape", attrs, type->ndim, type->shape);
    return attrs ? node_value(c->graph, op, 1, &v, attrs) : NULL;
}

/* The call without its empty operands. */
static weft_value *of_others(const op_call *c) {
    weft_value **in = arena_new_array(&c->graph->model->arena, c->n_in, sizeof *in);
    int n = 0;
    for (int i = 0; in && i < c->n_in; i++)
        if (!type_is_empty(op_in(c, i))) in[n++] = c->in[i];
    return in ? node_value(c->graph, c->op, n, in, c->attrs) : NULL;
}

static weft_value *stand_in(const op_call *c, int k) {
    double value = 0;
    has_meaning(c, k, &value);
    switch (c->op->of_nothing) {
    case EMPTY_FIRST:
        return again(c, c->in[0]);
    case EMPTY_OTHERS:
        return of_others(c);
    case EMPTY_ADDED:
        if (c->n_in > 2 && c->in[2]) return repeated(c, c->in[2], &c->out[k]);
        break;
    default:
        break;
    }
    return filled(c, &c->out[k], value);
}

bool empty_replace(const op_call *c, weft_node *n) {
    weft_graph *g = c->graph;
    int next_id = g->next_id;
    for (int k = 0; k < n->n_out; k++) {
        if (type_is_empty(&n->out[k].type)) continue;
        g->next_id = n->out[k].id;
        weft_value *v = stand_in(c, k);
        if (!v)
            return model_ok(g->model) ? graph_fail(g, WEFT_MEMORY, "%s: out of memory", c->op->name) : NULL;
        v->node->is_of_nothing = true;
        n->out[k].mapped = v;
    }
    g->next_id = next_id;
    return true;
}
