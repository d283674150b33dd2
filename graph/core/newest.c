/* newest.c - the newest value of a variable in a graph: that of its one node, or of a chain of assigns (I4).
 * variable->newest holds for one graph at a time, model->indexed: passes and builders work on one graph for
 * long, so the index is rebuilt (O(nodes)) only when they change to another. */
#include "graph/core/graph.h"

/* Whether a node's result is the variable's value from there on. */
static bool makes_newest(const weft_node *n) {
    return n->variable &&
           (n->op == &weft_op_parameter || n->op == &weft_op_state || n->op == &weft_op_assign);
}

static void index_graph(weft_graph *g) {
    for (weft_variable *v = g->model->variables; v; v = v->next) v->newest = NULL;
    for (weft_node *n = g->first; n; n = n->next)
        if (makes_newest(n)) n->variable->newest = n;
    g->model->indexed = g;
}

void variable_note_added(weft_node *n) {
    weft_model *m = n->graph->model;
    if (m->indexed != n->graph || !makes_newest(n)) return;
    if (n->next && n->variable->newest)
        m->indexed = NULL; /* inserted before other nodes, so it may not be the last one */
    else
        n->variable->newest = n;
}

void variable_note_removed(const weft_node *n) {
    weft_model *m = n->graph->model;
    if (m->indexed == n->graph && makes_newest(n)) m->indexed = NULL;
}

weft_value *variable_in_graph(weft_graph *g, const weft_variable *v) {
    if (g->model->indexed != g) index_graph(g);
    return v->newest ? &v->newest->out[0] : NULL;
}
