/* evaluate.c - see evaluate.h. */
#include "support/kernels/evaluate.h"

#include "graph/core/kernel.h"
#include "graph/settings/minimize.h"
#include "ops/kit/op_kit.h"
#include "support/test.h"

#include <stdlib.h>
#include <string.h>

struct evaluation {
    const weft_graph *g;
    bool wide;
    tensor *values;    /* by id */
    tensor *variables; /* by index; data NULL for members of buckets */
    double disturbance;
    uint64_t seed; /* of its factors */
};

static tensor tensor_new(const tensor_type *type, bool wide) {
    tensor t = {.type = *type};
    if (wide && t.type.dtype == WEFT_F32) t.type.dtype = WEFT_F64;
    stride_row_major(&t.type, t.stride);
    t.data = test_memory(type_bytes(&t.type));
    return t;
}

evaluation *evaluate_new(const weft_graph *g, bool wide) {
    evaluation *e = test_memory(sizeof *e);
    *e = (evaluation){.g = g, .wide = wide};
    e->values = test_memory((size_t)g->next_id * sizeof *e->values);
    e->variables = test_memory((size_t)g->model->n_variables * sizeof *e->variables);
    for (const weft_variable *v = g->model->variables; v; v = v->next)
        if (!v->bucket) e->variables[v->index] = tensor_new(&v->type, wide);
    for (const weft_node *n = g->first; n; n = n->next)
        for (int k = 0; k < n->n_out; k++) e->values[n->out[k].id] = tensor_new(&n->out[k].type, wide);
    return e;
}

void evaluate_free(evaluation *e) {
    for (int i = 0; i < e->g->next_id; i++) free(e->values[i].data);
    for (int i = 0; i < e->g->model->n_variables; i++) free(e->variables[i].data);
    free(e->values);
    free(e->variables);
    free(e);
}

tensor evaluate_tensor(const evaluation *e, const weft_value *v) {
    return e->values[v->id];
}

tensor evaluate_variable(const evaluation *e, const weft_variable *v) {
    if (!v->bucket) return e->variables[v->index];
    tensor t = {.type = v->type}, whole = evaluate_variable(e, v->bucket);
    t.type.dtype = whole.type.dtype;
    stride_row_major(&t.type, t.stride);
    t.data = (char *)whole.data + (size_t)v->offset * dtype_bytes(t.type.dtype);
    return t;
}

static void copy_data(const tensor *to, const tensor *from) {
    memcpy(to->data, from->data, type_bytes(&to->type));
}

static weft_status node_run(evaluation *e, const weft_node *n, const run_state *run, weft_error *error) {
    tensor in[256] = {0}, out[OP_MAX_OUT] = {0};
    if (n->n_in > 256) return error_set(error, WEFT_UNSUPPORTED, "%s: %d operands", n->op->name, n->n_in);
    if (!n->op->reference && !n->op->scalar)
        return error_set(error, WEFT_UNSUPPORTED, "%s has no reference kernel", n->op->name);
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i]) in[i] = e->values[n->in[i]->id];
    for (int k = 0; k < n->n_out; k++) out[k] = e->values[n->out[k].id];
    kernel_call c = {.node = n,
                     .attrs = n->attrs,
                     .n_in = n->n_in,
                     .n_out = n->n_out,
                     .in = in,
                     .out = out,
                     .threads = 1,
                     .run = run,
                     .error = error};
    weft_status status = n->op->reference ? n->op->reference(&c) : reference_pointwise(&c);
    for (int i = 0; i < n->n_in && i < 32; i++) /* operands written in place live in variables */
        if (n->op->writes >> i & 1 && n->in[i] && n->in[i]->variable) {
            tensor owner = evaluate_variable(e, n->in[i]->variable);
            copy_data(&owner, &in[i]);
        }
    return status;
}

void evaluate_disturb(evaluation *e, double by, uint64_t seed) {
    e->disturbance = by;
    e->seed = seed;
}

static void disturb(const evaluation *e, const weft_node *n) {
    for (int k = 0; e->disturbance != 0 && k < n->n_out; k++) {
        const tensor *t = &e->values[n->out[k].id];
        test_random r = {e->seed + (uint64_t)n->out[k].id * 1000003};
        for (int64_t i = 0; dtype_is_float(t->type.dtype) && i < type_elements(&t->type); i++) {
            double unit = (double)(random_bits(&r) >> 11) * 0x1p-53;
            tensor_set(t, i, tensor_get(t, i) * (1 + e->disturbance * (2 * unit - 1)));
        }
    }
}

weft_status evaluate_run(evaluation *e, const run_state *run, weft_error *error) {
    static const run_state zeroes;
    weft_status status = WEFT_OK;
    for (const weft_node *n = e->g->first; n; n = n->next)
        if (n->op == &weft_op_parameter) {
            tensor owner = evaluate_variable(e, n->variable);
            copy_data(&e->values[n->out[0].id], &owner);
        }
    for (const weft_node *n = e->g->first; n && status == WEFT_OK; n = n->next) {
        tensor owner = n->variable ? evaluate_variable(e, n->variable) : (tensor){0};
        if (n->op == &weft_op_parameter || n->op == &weft_op_input || n->op == &weft_op_minimize) continue;
        if (n->op == &weft_op_state)
            copy_data(&e->values[n->out[0].id], &owner);
        else
            status = node_run(e, n, run ? run : &zeroes, error);
        disturb(e, n);
        if (n->op == &weft_op_assign) copy_data(&owner, &e->values[n->out[0].id]);
    }
    return status;
}

/* ---- elements ---- */

static void place_of(const tensor_type *t, int64_t i, int64_t at[WEFT_MAX_NDIM]) {
    for (int k = t->ndim - 1; k >= 0; k--) {
        at[k] = i % t->shape[k];
        i /= t->shape[k];
    }
}

double tensor_get(const tensor *t, int64_t i) {
    int64_t at[WEFT_MAX_NDIM] = {0};
    place_of(&t->type, i, at);
    return element_get(t, at);
}

void tensor_set(const tensor *t, int64_t i, double value) {
    int64_t at[WEFT_MAX_NDIM] = {0};
    place_of(&t->type, i, at);
    element_set(t, at, value);
}

double evaluate_get(const evaluation *e, const weft_value *v, int64_t i) {
    return tensor_get(&e->values[v->id], i);
}

void evaluate_set(evaluation *e, const weft_value *v, int64_t i, double value) {
    tensor_set(&e->values[v->id], i, value);
}
