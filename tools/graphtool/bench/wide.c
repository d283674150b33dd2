/* wide.c - see wide.h. */
#include "tools/graphtool/bench/wide.h"

#include "tools/graphtool/output/end.h"

#include "graph/core/element.h"
#include "graph/core/kernel.h"
#include "graph/settings/minimize.h"
#include "ops/kit/op_kit.h"

#include <stdlib.h>
#include <string.h>

enum { OPERANDS = 512 };

struct wide {
    const weft_graph *g;
    int threads;
    run_state run;
    tensor *values;    /* by id; data NULL: not made yet, or freed */
    tensor *variables; /* by index */
    bool *is_kept;     /* by id */
    int *readers;      /* by id: nodes that still read it */
};

/* The type in which such a tensor is held. */
static tensor held(const tensor_type *type) {
    tensor t = {.type = *type};
    if (dtype_is_float(t.type.dtype)) t.type.dtype = WEFT_F64;
    stride_row_major(&t.type, t.stride);
    return t;
}

static void wide_make(tensor *t) {
    if (!t->data) t->data = tool_need(calloc(type_bytes(&t->type) + 1, 1));
}

static void wide_drop(tensor *t) {
    free(t->data);
    t->data = NULL;
}

static void count_readers(wide *w, const weft_node *n) {
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i]) w->readers[n->in[i]->id]++;
}

wide *wide_new(const weft_graph *g, int threads, uint64_t seed) {
    wide *w = tool_new(1, sizeof *w);
    *w = (wide){.g = g, .threads = threads, .run = {.seed = seed}};
    w->values = tool_new((size_t)g->next_id + 1, sizeof *w->values);
    w->is_kept = tool_new((size_t)g->next_id + 1, sizeof *w->is_kept);
    w->readers = tool_new((size_t)g->next_id + 1, sizeof *w->readers);
    w->variables = tool_new((size_t)g->model->n_variables + 1, sizeof *w->variables);
    for (const weft_variable *v = g->model->variables; v; v = v->next)
        w->variables[v->index] = held(&v->type);
    for (const weft_node *n = g->first; n; n = n->next) {
        for (int k = 0; k < n->n_out; k++) w->values[n->out[k].id] = held(&n->out[k].type);
        count_readers(w, n);
    }
    return w;
}

void wide_free(wide *w) {
    for (int i = 0; i < w->g->next_id; i++) wide_drop(&w->values[i]);
    for (int i = 0; i < w->g->model->n_variables; i++) wide_drop(&w->variables[i]);
}

void wide_keep(wide *w, const weft_value *v) {
    w->is_kept[v->id] = true;
}

/* As one axis, so that one index names an element. */
static tensor flat(const tensor *t, weft_dtype dtype, void *data) {
    return (tensor){.data = data, .type = {dtype, 1, {type_elements(&t->type)}}, .stride = {1}};
}

static void wide_fill(tensor *t, const tensor_type *own, const void *data) {
    wide_make(t);
    tensor to = flat(t, t->type.dtype, t->data), from = flat(t, own->dtype, (void *)(uintptr_t)data);
    for (int64_t i = 0; i < type_elements(own); i++)
        if (t->type.dtype == own->dtype)
            memcpy((char *)to.data + (size_t)i * dtype_bytes(own->dtype),
                   (const char *)data + (size_t)i * dtype_bytes(own->dtype), dtype_bytes(own->dtype));
        else
            element_set(&to, &i, element_get(&from, &i));
}

void wide_set_variable(wide *w, const weft_variable *v, const void *data) {
    wide_fill(&w->variables[v->index], &v->type, data);
}

void wide_set_input(wide *w, const weft_value *v, const void *data) {
    wide_fill(&w->values[v->id], &v->type, data);
}

difference wide_difference(const wide *w, const weft_value *v, weft_dtype dtype, const void *data) {
    difference d = {0};
    const tensor *t = &w->values[v->id];
    const tensor is = flat(t, dtype, (void *)(uintptr_t)data), should_be = flat(t, t->type.dtype, t->data);
    for (int64_t i = 0; i < type_elements(&t->type); i++)
        difference_add(&d, element_get(&is, &i), element_get(&should_be, &i));
    return d;
}

/* ---- nodes ---- */

static void wide_copy(tensor *to, const tensor *from) {
    wide_make(to);
    memcpy(to->data, from->data, type_bytes(&to->type));
}

/* Those that read and write variables, and those that compute nothing. False: it is another. */
static bool run_simple(wide *w, const weft_node *n) {
    if (n->op == &weft_op_input || n->op == &weft_op_minimize) return true;
    bool reads = n->op == &weft_op_parameter || n->op == &weft_op_state;
    if (!reads) return false;
    wide_make(&w->variables[n->variable->index]);
    wide_copy(&w->values[n->out[0].id], &w->variables[n->variable->index]);
    return true;
}

static weft_status run_kernel(wide *w, const weft_node *n, weft_error *error) {
    tensor in[OPERANDS] = {0}, out[OP_MAX_OUT] = {0};
    if (n->n_in > OPERANDS || (!n->op->reference && !n->op->scalar))
        return error_set(error, WEFT_UNSUPPORTED, "%s cannot run in f64", n->op->name);
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i]) in[i] = w->values[n->in[i]->id];
    for (int k = 0; k < n->n_out; k++) {
        wide_make(&w->values[n->out[k].id]);
        out[k] = w->values[n->out[k].id];
    }
    kernel_call c = {.node = n,
                     .attrs = n->attrs,
                     .n_in = n->n_in,
                     .n_out = n->n_out,
                     .in = in,
                     .out = out,
                     .threads = w->threads,
                     .run = &w->run,
                     .error = error};
    weft_status status = n->op->reference ? n->op->reference(&c) : reference_pointwise(&c);
    for (int i = 0; i < n->n_in && i < 32; i++) /* operands written in place live in variables */
        if (n->op->writes >> i & 1 && n->in[i] && n->in[i]->variable)
            wide_copy(&w->variables[n->in[i]->variable->index], &in[i]);
    if (n->op == &weft_op_assign && !status) wide_copy(&w->variables[n->variable->index], &out[0]);
    return status;
}

static void drop_read(wide *w, const weft_node *n) {
    for (int k = 0; k < n->n_out; k++)
        if (!w->readers[n->out[k].id] && !w->is_kept[n->out[k].id]) wide_drop(&w->values[n->out[k].id]);
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i] && --w->readers[n->in[i]->id] == 0 && !w->is_kept[n->in[i]->id])
            wide_drop(&w->values[n->in[i]->id]);
}

weft_status wide_run(wide *w, weft_error *error) {
    weft_status status = WEFT_OK;
    for (const weft_node *n = w->g->first; n && !status; n = n->next) {
        if (!run_simple(w, n)) status = run_kernel(w, n, error);
        drop_read(w, n);
    }
    return status;
}
