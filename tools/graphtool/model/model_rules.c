/* model_rules.c - the needs of options that a model decides. */
#include "tools/graphtool/model/model_rules.h"

#include "tools/graphtool/model/tools.h"
#include "tools/graphtool/options/rules.h"

#include "graph/settings/ddp.h"
#include "graph/settings/flow.h"
#include "graph/settings/minimize.h"

#include <string.h>

/* Does any subgraph use ZeRO? */
static bool shards(const options *o, const weft_model *m) {
    const char *strategy = o->compile.strategy ? o->compile.strategy : m->strategy;
    bool zero = o->compile.zero > 0 || (strategy && strncmp(strategy, "zero", 4) == 0);
    for (const ddp_entry *e = m->ddps; e; e = e->next) zero = zero || e->attrs.zero > 0;
    return zero;
}

/* Does any parameter belong to a subgraph that takes --zero? */
static bool takes_zero(const weft_model *m) {
    bool is_any = false;
    for (const weft_variable *v = m->variables; v; v = v->next) {
        const ddp_entry *e = v->kind == VARIABLE_PARAMETER ? ddp_find(m, v->path) : NULL;
        if (v->kind == VARIABLE_PARAMETER && (!e || !e->attrs.zero)) return true;
        is_any |= e != NULL;
    }
    return !is_any; /* a model without parameters is refused elsewhere */
}

/* Does --accumulate hold for a graph: of the flow to run, or of the model if that has none? */
static bool leaves_accumulate(const options *o, const weft_model *m) {
    const char *name = tool_flow(m, o);
    const flow_entry *e = flow_find(m, name ? name : FLOW_DEFAULT);
    for (const weft_graph *g = m->graphs; g; g = g->next) {
        bool is_run = !e || !name, is_said = false;
        for (int i = 0; e && i < e->n; i++) {
            bool is_its = strcmp(e->steps[i].graph, g->name) == 0;
            is_run |= is_its;
            is_said |= is_its && e->steps[i].accumulate;
        }
        if (is_run && !is_said && graph_accumulates(g)) return true;
    }
    return false;
}

void rules_model(const options *o, const weft_model *m) {
    bool is_trainable = false, trains = false, has_parameters = false;
    for (const weft_graph *g = m->graphs; g; g = g->next) {
        is_trainable |= graph_trains(g);
        trains |= graph_trains(g) && (!o->graph || strcmp(o->graph, g->name) == 0);
    }
    for (const weft_variable *v = m->variables; v; v = v->next)
        has_parameters |= v->kind == VARIABLE_PARAMETER;
    rules_check(o, NEEDS_PARAMETERS, has_parameters);
    rules_check(o, NEEDS_SHARDS, shards(o, m));
    rules_check(o, NEEDS_SHARING, takes_zero(m));
    rules_check(o, NEEDS_TRAINING, trains);
    rules_check(o, NEEDS_TRAINABLE, is_trainable);
    rules_check(o, NEEDS_UNSAID, leaves_accumulate(o, m));
}

void rules_graph(const options *o, const weft_graph *g) {
    bool draws = false;
    /* a file of weights may lack state, and parameters only with --partial */
    bool has_all = o->weights && !o->partial;
    for (const weft_variable *v = g->model->variables; v; v = v->next)
        draws = draws || (v->init.kind >= WEFT_INIT_UNIFORM && !(v->kind == VARIABLE_PARAMETER && has_all));
    for (const weft_node *n = g->first; n; n = n->next) draws = draws || n->op->flags & OP_RANDOM;
    rules_check(o, NEEDS_DRAWS, draws);
}
