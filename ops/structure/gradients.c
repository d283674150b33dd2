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
    .infer = infer,
    .samples = (const op_sample[]){{"f32[2], f32[2]", .error = "it must be one floating-point number"}, {0}},
};

weft_status weft_gradients(weft_value *loss, int n, weft_value *const *values, weft_value **gradients) {
    /* gradients[] is NULL on every error, so that a caller's later builders do nothing. */
    weft_value *in[OP_MAX_OUT] = {loss};
    bool fits = n >= 1 && n < OP_MAX_OUT && values && gradients;
    for (int i = 0; gradients && i < n; i++) gradients[i] = NULL;
    for (int i = 0; fits && i < n; i++) in[i + 1] = values[i];
    weft_graph *g = loss ? loss->node->graph : op_graph(&weft_op_gradients, fits ? n + 1 : 1, in);
    if (!fits && g)
        model_fail(g->model, g, WEFT_ARGUMENT, "gradients: %d values, 1 to %d are allowed, and two arrays", n,
                   OP_MAX_OUT - 1);
    weft_node *node = fits ? node_new(g, &weft_op_gradients, n + 1, in, NULL) : NULL;
    for (int i = 0; node && i < n; i++) gradients[i] = &node->out[i];
    if (node) return WEFT_OK;
    return g ? g->model->error.status : WEFT_ARGUMENT;
}
