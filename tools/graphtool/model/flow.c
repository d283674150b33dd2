/* flow.c - what of a model a command runs: a flow of it, or graphs. */
#include "tools/graphtool/model/tools.h"

#include "tools/graphtool/output/names.h"

#include "graph/settings/flow.h"

void tool_check_flow(const weft_model *m, const char *flow) {
    const char *name;
    if (!flow || !name_is_valid(flow) || flow_find(m, flow) || graph_find(m, flow)) return;
    names known = names_for(flow);
    for (int i = 0; (name = weft_flow_name(m, i)); i++) names_add(&known, name);
    for (const weft_graph *g = m->graphs; g; g = g->next)
        if (!flow_find(m, g->name)) names_add(&known, g->name);
    names_refuse(&known, "--flow=%s: the model has no flow and no graph of this name", flow);
}

static bool has_training(const weft_model *m) {
    const weft_graph *g = m->graphs;
    while (g && g->mode != WEFT_TRAIN) g = g->next;
    return g || flow_find(m, FLOW_DEFAULT);
}

const char *tool_flow(const weft_model *m, const options *o) {
    const command *c = o->command;
    bool is_for_flow = command_has_option(c, "flow") && !command_has_option(c, "graph");
    bool is_run = c->ranks != COMMAND_ALONE;
    if (!o->flow && is_for_flow && is_run && !has_training(m))
        tool_fail(
            "%s: %s: no graph of the model trains: the program that makes it calls weft_minimize(); of an "
            "ONNX file graphtool import --loss makes such a graph",
            c->name, o->model);
    if (!o->flow) return is_for_flow && has_training(m) ? FLOW_DEFAULT : NULL;
    return flow_find(m, o->flow) ? o->flow : FLOW_DEFAULT;
}
