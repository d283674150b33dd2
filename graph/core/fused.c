/* fused.c - pointwise nodes that run together, tile by tile, so that intermediate values stay in the
 * cache. The fuse pass makes them (runtime/passes/fuse.c), never a builder: node->body holds the nodes. It
 * runs after autodiff, so there is no gradient. */
#include "graph/core/element.h"
#include "graph/core/graph.h"

static bool infer(op_call *c) {
    return op_fail(c, WEFT_ARGUMENT, "only the compiler makes these");
}

/* The element of operand `v` of body node `b`: an operand of the whole node, or an earlier body node's
 * result. */
static double operand(const kernel_call *c, const weft_value *v, int b, const double *results,
                      const double *in) {
    const weft_node *n = c->node;
    for (int k = 0; k < b; k++)
        if (v == &n->body[k]->out[0]) return results[k];
    for (int i = 0; i < n->n_in; i++)
        if (v == n->in[i]) return in[i];
    return 0;
}

/* The value after storing it as `dtype`, as the unfused nodes would: f32 rounds, bool and integers
 * truncate. */
static double stored(weft_dtype dtype, double value) {
    return dtype == WEFT_F32 ? (float)value : dtype == WEFT_F64 ? value : convert_element(dtype, value);
}

static weft_status reference(const kernel_call *c) {
    const weft_node *n = c->node;
    const tensor_type *type = &c->out[0].type;
    int64_t at[WEFT_MAX_NDIM] = {0};
    /* For each element: the operands, then the body in order, then the results. */
    do {
        double in[FUSED_MAX_IN], results[FUSED_MAX_BODY], x[4];
        for (int i = 0; i < n->n_in; i++) in[i] = element_broadcast(&c->in[i], type, at);
        for (int b = 0; b < n->n_body; b++) {
            const weft_node *body = n->body[b];
            for (int i = 0; i < body->n_in; i++) x[i] = operand(c, body->in[i], b, results, in);
            results[b] = stored(body->out[0].type.dtype, body->op->scalar(x, body->attrs));
            for (int k = 0; k < n->n_out; k++)
                if (n->body_out[k] == &body->out[0]) element_set(&c->out[k], at, results[b]);
        }
    } while (index_next(type, at));
    return WEFT_OK;
}

const weft_op weft_op_fused = {
    .name = "fused",
    .summary = "pointwise nodes run together (made by the compiler)",
    .max_in = -1,
    .flags = OP_COMPILER,
    .infer = infer,
    .reference = reference,
    .samples = (const op_sample[]){{"", .error = "only the compiler"}, {0}},
};
