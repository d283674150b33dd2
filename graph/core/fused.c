/* fused.c - pointwise nodes that run together, tile by tile, so that intermediate values stay in the
 * cache. The fuse pass makes them (runtime/passes/fuse.c), never a builder: node->body holds the nodes. It
 * runs after autodiff, so there is no gradient. */
#include "graph/core/element.h"
#include "graph/core/graph.h"

static bool infer(op_call *c) {
    return op_fail(c, WEFT_ARGUMENT, "only the compiler makes these");
}

/* A value of one element; `whole` is that of types that are not floating point, exactly. */
typedef struct number {
    double real;
    int64_t whole;
} number;

static number number_of(int64_t whole) {
    return (number){(double)whole, whole};
}

static number number_at(const tensor *t, const tensor_type *type, const int64_t *at) {
    if (dtype_is_float(t->type.dtype)) return (number){.real = element_broadcast(t, type, at)};
    return number_of(element_broadcast_int(t, type, at));
}

static void number_set(const tensor *t, const int64_t *at, number v) {
    if (dtype_is_float(t->type.dtype))
        element_set(t, at, v.real);
    else
        element_set_int(t, at, v.whole);
}

/* The element of operand `v` of body node `b`: an operand of the whole node, or an earlier body node's
 * result. */
static number operand(const kernel_call *c, const weft_value *v, int b, const number *results,
                      const number *in) {
    const weft_node *n = c->node;
    for (int k = 0; k < b; k++)
        if (v == &n->body[k]->out[0]) return results[k];
    for (int i = 0; i < n->n_in; i++)
        if (v == n->in[i]) return in[i];
    return (number){0};
}

/* The value after storing it as `dtype`, as the unfused nodes would: f32 rounds, bool and integers
 * truncate. */
static number stored(weft_dtype dtype, double value) {
    double back = dtype == WEFT_F32   ? (float)value
                  : dtype == WEFT_F64 ? value
                                      : convert_element(dtype, value);
    return dtype_is_float(dtype) ? (number){.real = back} : number_of((int64_t)back);
}

/* What a body node makes of its operands' elements. */
static number computed(const weft_node *n, const number *in) {
    weft_dtype dtype = n->out[0].type.dtype;
    double x[4];
    int64_t whole[4];
    for (int i = 0; i < n->n_in; i++) {
        x[i] = in[i].real;
        whole[i] = in[i].whole;
    }
    if (node_is_integer(n)) return number_of(convert_int(dtype, n->op->integer(whole, n->attrs)));
    return stored(dtype, n->op->scalar(x, n->attrs));
}

static weft_status reference(const kernel_call *c) {
    const weft_node *n = c->node;
    const tensor_type *type = &c->out[0].type;
    int64_t at[WEFT_MAX_NDIM] = {0};
    /* For each element: the operands, then the body in order, then the results. */
    do {
        number in[FUSED_MAX_IN], results[FUSED_MAX_BODY], x[4];
        for (int i = 0; i < n->n_in; i++) in[i] = number_at(&c->in[i], type, at);
        for (int b = 0; b < n->n_body; b++) {
            const weft_node *body = n->body[b];
            for (int i = 0; i < body->n_in; i++) x[i] = operand(c, body->in[i], b, results, in);
            results[b] = computed(body, x);
            for (int k = 0; k < n->n_out; k++)
                if (n->body_out[k] == &body->out[0]) number_set(&c->out[k], at, results[b]);
        }
    } while (index_next(type, at));
    return WEFT_OK;
}

const weft_op weft_op_fused = {
    .name = "fused",
    .summary = "pointwise nodes run together (made by the compiler)",
    .max_in = -1,
    .flags = OP_COMPILER | OP_MOVES,
    .infer = infer,
    .reference = reference,
    .samples = (const op_sample[]){{"", .error = "only the compiler"}, {0}},
};
