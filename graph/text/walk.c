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

char *weft_node_attributes(const weft_node *n) {
    text t = {0};
    if (n) attrs_write(&t, n->op, n->attrs);
    if (!t.length) text_add(&t, " ");
    char *all = text_detach(&t);
    if (all) memmove(all, all + 1, strlen(all)); /* each attribute has a blank before it */
    return all;
}
