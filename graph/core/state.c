/* state.c - reads a state variable with its value at this place in the order of building: the store's, or the
 * last earlier assign's. No gradient. */
#include "graph/core/graph.h"

static bool infer(op_call *c) {
    const variable_attrs *a = c->attrs;
    weft_variable *v = a->path ? variable_find(c->graph->model, a->path) : NULL;
    if (!v || v->kind == VARIABLE_PARAMETER)
        return op_fail(c, WEFT_NAME, "there is no state '%s'", SHOW(a->path));
    c->out[0] = v->type;
    return true;
}

static weft_status reference(const kernel_call *c) {
    (void)c; /* its result is the store's memory */
    return WEFT_OK;
}

const weft_op weft_op_state = {
    .name = "state",
    .summary = "a state variable, as the last earlier assign left it",
    .torch = "torch.nn.Module.register_buffer",
    .flags = OP_VARIABLE | OP_IS_VARIABLE | OP_NO_GRADIENT,
    .attrs_bytes = sizeof(variable_attrs),
    .attrs = variable_attr_table,
    .infer = infer,
    .reference = reference,
    .samples = (const op_sample[]){{"", "path=\"no/such\"", .error = "there is no state"}, {0}},
};
