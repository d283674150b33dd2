/* variable_ops.c - the ops that read and write variables.
 *
 * `parameter` reads a parameter with its value at the start of the run. A graph has at most one such node for
 * each (I4). Autodiff accumulates the parameter's gradient at its result.
 *
 * `state` reads a state variable with its value at this place in the order of building: the store's, or the
 * last earlier assign's. No gradient.
 *
 * `assign` writes a value into a state variable or a parameter in place; the result is the variable after the
 * write. Shapes: value and variable have one type. No gradient reaches the value. Like Tensor.copy_ under
 * no_grad, but a node that graph_order_edges orders after earlier readers. Parameters are not assigned where
 * they are trained (runtime/passes/optimizer/trainings.c). */
#include "graph/core/element.h"
#include "graph/core/graph.h"

/* The result is the variable's memory. */
static bool infer(op_call *c) {
    const char *path = ((const variable_attrs *)c->attrs)->path;
    const weft_variable *v = path ? variable_find(c->graph->model, path) : NULL;
    bool writes = c->op == &weft_op_assign, is_parameter = v && v->kind == VARIABLE_PARAMETER;
    if (!v || (!writes && is_parameter != (c->op == &weft_op_parameter)))
        return op_fail(c, WEFT_NAME, "there is no %s '%s'", writes ? "state or parameter" : c->op->name,
                       SHOW(path));
    if (writes && !type_equal(&v->type, op_in(c, 0)))
        return op_fail(c, WEFT_SHAPE, "%s is %s, the value %s", v->path, TYPE(&v->type), TYPE(op_in(c, 0)));
    c->out[0] = v->type;
    return true;
}

static weft_status reference_read(const kernel_call *c) {
    /* the store has the value there already */
    return WEFT_OK;
}

static weft_status reference_assign(const kernel_call *c) {
    int64_t at[WEFT_MAX_NDIM] = {0};
    do element_copy(&c->out[0], at, &c->in[0], at);
    while (index_next(&c->out[0].type, at));
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
    .reference = reference_read,
    .samples = (const op_sample[]){{"", "path=\"no/such\"", .error = "there is no parameter"}, {0}},
};

const weft_op weft_op_state = {
    .name = "state",
    .summary = "a state variable, as the last earlier assign left it",
    .torch = "torch.nn.Module.register_buffer",
    .flags = OP_VARIABLE | OP_IS_VARIABLE | OP_NO_GRADIENT,
    .attrs_bytes = sizeof(variable_attrs),
    .attrs = variable_attr_table,
    .infer = infer,
    .reference = reference_read,
    .samples = (const op_sample[]){{"", "path=\"no/such\"", .error = "there is no state"}, {0}},
};

const weft_op weft_op_assign = {
    .name = "assign",
    .summary = "writes a state variable or a parameter",
    .torch = "torch.Tensor.copy_",
    .min_in = 1,
    .flags = OP_VARIABLE | OP_IS_VARIABLE | OP_WRITES | OP_EFFECT | OP_NO_GRADIENT,
    .attrs_bytes = sizeof(variable_attrs),
    .attrs = variable_attr_table,
    .infer = infer,
    .reference = reference_assign,
    .samples =
        (const op_sample[]){{"f32[3]", "path=\"no/such\"", .error = "there is no state or parameter"}, {0}},
};
