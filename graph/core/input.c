/* input.c - a tensor that the caller provides for each run. Its shape may contain WEFT_BATCH, which becomes
 * the model's batch. No gradient. */
#include "graph/core/graph.h"
#include "weft/ops.h"

typedef struct input_attrs {
    const char *name;
    weft_dtype dtype;
    attr_ints shape;
} input_attrs;

static const op_attr attrs[] = {
    {"name", ATTR_STRING, offsetof(input_attrs, name)},
    {"dtype", ATTR_DTYPE, offsetof(input_attrs, dtype)},
    {"shape", ATTR_INTS, offsetof(input_attrs, shape), 1, INT64_MAX},
    {0},
};

/* A graph's inputs are found by name, so names are unique in it. */
static bool infer(op_call *c) {
    const input_attrs *a = c->attrs;
    if (!a->name || !name_is_valid(a->name))
        return op_fail(c, WEFT_NAME, "name '%s': 1 to 200 letters, digits, '_', '-', '.'", SHOW(a->name));
    if (table_find(&c->graph->inputs, a->name))
        return op_fail(
            c, WEFT_NAME,
            "graph %s has an input '%s' already: use its value again, or give this one another name",
            c->graph->name, a->name);
    c->out[0] = type_of(a->dtype, a->shape.n, a->shape.v);
    return shape_bind(c, &c->out[0]);
}

/* The session copies the data; nothing is computed. */
static weft_status reference(const kernel_call *c) {
    return WEFT_OK;
}

const weft_op weft_op_input = {
    .name = "input",
    .summary = "fed at each run",
    /* OP_EFFECT: an input that nothing reads stays part of the graph's interface. */
    .flags = OP_NO_GRADIENT | OP_EFFECT,
    .attrs_bytes = sizeof(input_attrs),
    .attrs = attrs,
    .infer = infer,
    .reference = reference,
    .samples = (const op_sample[]){{"", "name=\"x\" dtype=u8 shape=2,3", .out = "u8[2,3]"},
                                   {"", "name=\"a b\" dtype=u8 shape=2", .error = "letters"},
                                   {0}},
};

const char *input_name(const weft_node *n) {
    return ((const input_attrs *)n->attrs)->name;
}

weft_value *weft_input(weft_graph *g, const char *name, weft_dtype dtype, int ndim, const int64_t *shape) {
    input_attrs a = {.name = name ? name : "", .dtype = dtype};
    return g && shape_attr(g, "input", &a.shape, ndim, shape) ? node_value(g, &weft_op_input, 0, NULL, &a)
                                                              : NULL;
}
