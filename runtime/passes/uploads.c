/* uploads.c - for GPUs: inputs get a copy in the arena, which their readers read. */
#include "ops/kit/ops.h"
#include "runtime/passes/passes.h"

/* Makes a copy of the input that all its readers read, so that the host may bring the next input while this
 * one is in use. */
static bool upload(weft_graph *g, weft_node *input) {
    weft_value *from = &input->out[0];
    g->cursor = input;
    weft_node *copy = node_new(g, &weft_op_reorder, 1, &from, NULL);
    g->cursor = NULL;
    if (!copy) return false;
    from->mapped = &copy->out[0];
    return true;
}

/* Readers are replaced on the way (mapped). Outputs that are inputs become their copies. */
bool pass_uploads(program *p) {
    if (p->plan->options.device == WEFT_DEVICE_CPU) return true;
    graph_clear_mapped(p->graph);
    for (weft_node *n = p->graph->first, *next; n; n = next) {
        next = n->next; /* so the copy is not visited, and keeps reading the input */
        node_replace_mapped(n);
        if (n->op == &weft_op_input && !upload(p->graph, n)) return false;
    }
    for (graph_output *o = p->graph->outputs; o; o = o->next)
        if (o->value->mapped) o->value = o->value->mapped;
    return true;
}
