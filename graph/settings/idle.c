/* idle.c - graphs that assign and that no flow runs, though another graph reads what they assign: a training
 * would leave it as it is, without a word (a teacher that never moves). */
#include "graph/settings/flow.h"
#include "graph/settings/minimize.h"

static const weft_graph *other_reader(const weft_graph *g, const weft_variable *v) {
    for (const weft_graph *other = g->model->graphs; other; other = other->next)
        if (other != g && graph_reads(other, v)) return other;
    return NULL;
}

static bool is_in_a_flow(const weft_graph *g) {
    for (const flow_entry *e = g->model->flows; e; e = e->next)
        if (flow_entry_has(e, g->name)) return true;
    return false;
}

/* A graph that trains is left out of a flow on purpose: to train the others alone. */
static bool is_idle(const weft_graph *g, weft_idle_graph *found) {
    bool is_default = g->mode == WEFT_TRAIN && !flow_find(g->model, FLOW_DEFAULT);
    if (is_default || is_in_a_flow(g) || graph_trains(g)) return false;
    for (const weft_node *n = g->first; n; n = n->next) {
        const weft_graph *reader = n->op == &weft_op_assign ? other_reader(g, n->variable) : NULL;
        if (!reader) continue;
        *found = (weft_idle_graph){g->name, n->variable->path, reader->name};
        return true;
    }
    return false;
}

bool weft_flow_idle(const weft_model *m, int index, weft_idle_graph *found) {
    for (const weft_graph *g = m && index >= 0 && found ? m->graphs : NULL; g; g = g->next)
        if (is_idle(g, found) && index-- == 0) return true;
    return false;
}
