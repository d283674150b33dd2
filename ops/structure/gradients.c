/* gradients.c - the gradients of a scalar with respect to values, as torch.autograd.grad with create_graph:
 * operand 0 is the loss, the others the values, and result i has the type of value i. A declaration: autodiff
 * replaces it by the nodes that compute the gradients. It has no gradient of its own, since later
 * declarations differentiate through those nodes. */
#include "ops/kit/op_kit.h"

/* The loss is one float number of any ndim. */
static bool infer(op_call *c) {
    const tensor_type *loss = op_in(c, 0);
    if (type_elements(loss) != 1 || !dtype_is_float(loss->dtype))
        return op_fail(c, WEFT_SHAPE, "the loss is %s: it must be one floating-point number (take a mean)",
                       TYPE(loss));
    for (int i = 1; i < c->n_in; i++) {
        if (!c->in[i]) return op_fail(c, WEFT_ARGUMENT, "operand %d is missing", i);
        if (!op_want_float(c, i)) return false;
        c->out[i - 1] = *op_in(c, i);
    }
    c->n_out = c->n_in - 1;
    return true;
}

const weft_op weft_op_gradients = {
    .name = "gradients",
    .summary = "gradients of a scalar by values (expanded by autodiff)",
    .torch = "torch.autograd.grad",
    .min_in = 2,
    .max_in = OP_MAX_OUT,
    .flags = OP_NO_GRADIENT,
    .role = ROLE_DECLARES,
    .infer = infer,
    .samples = (const op_sample[]){{"f32[2], f32[2]", .error = "it must be one floating-point number"}, {0}},
};

/* One node for at most OP_MAX_OUT - 1 values. */
static bool take(weft_value *loss, int n, weft_value *const *values, weft_value **gradients) {
    weft_value *in[OP_MAX_OUT] = {loss};
    for (int i = 0; i < n; i++) in[i + 1] = values[i];
    weft_node *node = node_new(loss->node->graph, &weft_op_gradients, n + 1, in, NULL);
    for (int i = 0; node && i < n; i++) gradients[i] = &node->out[i];
    return node != NULL;
}

/* More values than a node may have are given to several, whose equal nodes simplify merges. gradients[] is
 * NULL on every error, so that a caller's later builders do nothing. */
weft_status weft_gradients(weft_value *loss, int n, weft_value *const *values, weft_value **gradients) {
    enum { MOST = OP_MAX_OUT - 1 };
    bool fits = n >= 1 && values && gradients;
    for (int i = 0; gradients && i < n; i++) gradients[i] = NULL;
    weft_graph *g = loss ? loss->node->graph : fits ? op_graph(&weft_op_gradients, 1, values) : NULL;
    if (!g) return WEFT_ARGUMENT;
    weft_model *m = g->model;
    if (!loss)
        model_fail(m, g, WEFT_ARGUMENT,
                   "gradients: operand 0 is NULL, and no call before this one failed: was it ever set?");
    if (!fits)
        model_fail(m, g, WEFT_ARGUMENT,
                   "gradients: %d values%s: it needs one or more, and two arrays of them", n,
                   values && gradients ? "" : " and a NULL");
    for (int i = 0, count; model_ok(m) && i < n; i += count) {
        count = n - i < MOST ? n - i : MOST;
        if (take(loss, count, values + i, gradients + i)) continue;
        for (int k = 0; k < n; k++) gradients[k] = NULL;
    }
    return m->error.status;
}
