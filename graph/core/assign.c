/* assign.c - writes a value into a state variable or a parameter in place; the result is the variable after
 * the write. Shapes: value and variable have one type. No gradient reaches the value. Like Tensor.copy_ under
 * no_grad, but a node that graph_order_edges orders after earlier readers. Parameters are not assigned where
 * they are trained (runtime/passes/optimizer/trainings.c). */
#include "graph/core/element.h"
#include "graph/core/graph.h"

static bool infer(op_call *c) {
    const variable_attrs *a = c->attrs;
    weft_variable *v = a->path ? variable_find(c->graph->model, a->path) : NULL;
    if (!v) return op_fail(c, WEFT_NAME, "there is no state or parameter '%s'", SHOW(a->path));
    if (!type_equal(&v->type, op_in(c, 0)))
        return op_fail(c, WEFT_SHAPE, "%s is %s, the value %s", v->path, TYPE(&v->type), TYPE(op_in(c, 0)));
    c->out[0] = v->type;
    return true;
}

/* The result is the variable's memory. */
static weft_status reference(const kernel_call *c) {
    int64_t at[WEFT_MAX_NDIM] = {0};
    do element_set(&c->out[0], at, element_get(&c->in[0], at));
    while (index_next(&c->out[0].type, at));
    return WEFT_OK;
}

const weft_op weft_op_assign = {
    .name = "assign",
    .summary = "writes a state variable or a parameter",
    .torch = "torch.Tensor.copy_",
    .min_in = 1,
    /* OP_IS_VARIABLE: the result is the variable's memory. */
    .flags = OP_VARIABLE | OP_IS_VARIABLE | OP_WRITES | OP_EFFECT | OP_NO_GRADIENT,
    .attrs_bytes = sizeof(variable_attrs),
    .attrs = variable_attr_table,
    .infer = infer,
    .reference = reference,
    .samples =
        (const op_sample[]){{"f32[3]", "path=\"no/such\"", .error = "there is no state or parameter"}, {0}},
};
