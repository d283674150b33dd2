/* walk.c - a graph from outside: its nodes, one after another, and what each is (weft/model.h). */
#include "graph/core/graph.h"

#include <string.h>

weft_graph *weft_model_graph(const weft_model *m, int index) {
    weft_graph *g = m ? m->graphs : NULL;
    while (g && index-- > 0) g = g->next;
    return index < 0 ? g : NULL;
}

const weft_node *weft_graph_node(const weft_graph *g, const weft_node *n) {
    if (!g) return NULL;
    return n ? n->next : g->first;
}

static const char *path_of(const weft_node *n) {
    if (n->variable) return n->variable->path;
    return n->op == &weft_op_input ? input_name(n) : NULL;
}

/* ---- a value by its path ---- */

/* In scope `path`, or in one within it. */
static bool is_within(const weft_node *n, const char *path) {
    size_t length = strlen(path);
    return !strncmp(n->scope, path, length) && (!n->scope[length] || n->scope[length] == '/');
}

/* Parameters and states are not results of a scope, and gradients are made later. */
static bool is_result_of(const weft_node *n, const char *path) {
    bool computes = n->op != &weft_op_parameter && n->op != &weft_op_state && n->op != &weft_op_assign;
    return computes && !n->is_backward && is_within(n, path);
}

static weft_value *later(weft_value *a, weft_value *b) {
    return !a || b->id > a->id ? b : a;
}

/* The last of the results that an output names, or that a node outside reads. */
static weft_value *passed_on(weft_graph *g, const char *path) {
    weft_value *last = NULL;
    for (weft_node *n = g->first; n; n = n->next)
        for (int i = 0; i < n->n_in && !n->is_backward && !is_within(n, path); i++)
            if (n->in[i] && is_result_of(n->in[i]->node, path)) last = later(last, n->in[i]);
    for (graph_output *o = g->outputs; o; o = o->next)
        if (is_result_of(o->value->node, path)) last = later(last, o->value);
    return last;
}

static weft_value *result_of(weft_graph *g, const char *path) {
    const char *slash = strrchr(path, '/'), *op = slash ? slash + 1 : path;
    size_t length = slash ? (size_t)(slash - path) : 0;
    weft_value *last = NULL;
    for (weft_node *n = g->first; n; n = n->next)
        if (n->n_out && !n->is_backward && !strcmp(n->op->name, op) && strlen(n->scope) == length &&
            !strncmp(n->scope, path, length))
            last = &n->out[0];
    return last;
}

weft_value *weft_graph_value(weft_graph *g, const char *path) {
    if (!g || !path || !*path) return NULL;
    weft_value *found = passed_on(g, path);
    return found ? found : result_of(g, path);
}

/* ---- nodes ---- */

bool weft_node_about(const weft_node *n, weft_node_info *about) {
    if (!n || !about) return false;
    *about = (weft_node_info){.op = n->op->name,
                              .scope = n->scope,
                              .path = path_of(n),
                              .file = n->file,
                              .line = n->file ? n->line : 0,
                              .n_operands = n->n_in,
                              .n_results = n->n_out,
                              .is_backward = n->is_backward};
    return true;
}

weft_value *weft_node_operand(const weft_node *n, int index) {
    return n && index >= 0 && index < n->n_in ? n->in[index] : NULL;
}

weft_value *weft_node_result(const weft_node *n, int index) {
    return n && index >= 0 && index < n->n_out ? &n->out[index] : NULL;
}

const weft_node *weft_value_node(const weft_value *v) {
    return v ? v->node : NULL;
}

static void value_read(const op_attr *f, const void *attrs, weft_attribute *value) {
    attr_ints all;
    attr_bytes bytes;
    switch (f->kind) {
    case ATTR_INT:
        value->integers[0] = ATTR_FIELD(int64_t, attrs, f);
        if (f->words) value->text = f->words[value->integers[0]];
        break;
    case ATTR_BOOL:
        value->integers[0] = ATTR_FIELD(bool, attrs, f);
        break;
    case ATTR_DTYPE:
        value->integers[0] = ATTR_FIELD(weft_dtype, attrs, f);
        break;
    case ATTR_KEY:
        value->integers[0] = (int64_t)ATTR_FIELD(uint64_t, attrs, f);
        break;
    case ATTR_INTS:
        all = ATTR_FIELD(attr_ints, attrs, f);
        value->n = all.n;
        memcpy(value->integers, all.v, sizeof all.v);
        break;
    case ATTR_REAL:
        value->real = ATTR_FIELD(double, attrs, f);
        break;
    case ATTR_STRING:
    case ATTR_SCHEDULES:
        value->text = ATTR_FIELD(const char *, attrs, f) ? ATTR_FIELD(const char *, attrs, f) : "";
        break;
    case ATTR_BYTES:
        bytes = ATTR_FIELD(attr_bytes, attrs, f);
        value->data = bytes.data;
        value->bytes = bytes.n;
        break;
    }
}

static bool is_whole(attr_kind kind) {
    return kind == ATTR_INT || kind == ATTR_BOOL || kind == ATTR_DTYPE || kind == ATTR_KEY;
}

bool weft_node_attribute(const weft_node *n, const char *name, weft_attribute *value) {
    const op_attr *f = n && name && value ? attr_find(n->op, name, strlen(name)) : NULL;
    if (!f) return false;
    *value = (weft_attribute){.n = is_whole(f->kind)};
    value_read(f, n->attrs, value);
    if (value->n) value->real = (double)value->integers[0];
    return true;
}

weft_value *weft_graph_output(const weft_graph *g, int index, const char **name) {
    const graph_output *o = g && index >= 0 ? g->outputs : NULL;
    while (o && index-- > 0) o = o->next;
    if (o && name) *name = o->name;
    return o ? o->value : NULL;
}

char *weft_node_attributes(const weft_node *n) {
    text t = {0};
    if (n) attrs_write(&t, n->op, n->attrs);
    if (!t.length) text_add(&t, " ");
    char *all = text_detach(&t);
    if (all) memmove(all, all + 1, strlen(all)); /* each attribute has a blank before it */
    return all;
}
