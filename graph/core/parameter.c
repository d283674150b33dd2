/* parameter.c - reads a parameter, with its value at the start of the run. A graph has at most one such node
 * for each parameter (I4). Autodiff accumulates the parameter's gradient at its result. */
#include "graph/core/graph.h"

static bool infer(op_call *c) {
    const variable_attrs *a = c->attrs;
    weft_variable *v = a->path ? variable_find(c->graph->model, a->path) : NULL;
    if (!v || v->kind != VARIABLE_PARAMETER)
        return op_fail(c, WEFT_NAME, "there is no parameter '%s'", SHOW(a->path));
    c->out[0] = v->type;
    return true;
}

static weft_status reference(const kernel_call *c) {
    (void)c; /* its result is the store's memory */
    return WEFT_OK;
}

const weft_op weft_op_parameter = {
    .name = "parameter",
    .summary = "a parameter, as of the start of the run",
    .torch = "torch.nn.Parameter",
    /* OP_NO_GRADIENT: the walk of autodiff ends here, with the gradient at the result. */
    .flags = OP_VARIABLE | OP_IS_VARIABLE | OP_NO_GRADIENT,
    .attrs_bytes = sizeof(variable_attrs),
    .attrs = variable_attr_table,
    .infer = infer,
    .reference = reference,
    .samples = (const op_sample[]){{"", "path=\"no/such\"", .error = "there is no parameter"}, {0}},
};
