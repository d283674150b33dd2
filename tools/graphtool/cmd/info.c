/* info.c - graphtool info: prints a model's graphs, inputs, outputs, subgraphs and parameters, as text or
 * JSON. */
#include "tools/graphtool/common/tools.h"

#include "graph/core/flow.h"
#include "graph/core/graph.h"
#include "graph/core/minimize.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Length of a path's first part, which names the subgraph of a parameter. */
static size_t top_length(const char *path) {
    const char *slash = strchr(path, '/');
    return slash ? (size_t)(slash - path) : 0;
}

typedef struct subgraph {
    char name[204]; /* "" for variables outside any scope */
    int parameters;
    int64_t elements, frozen; /* numbers in the parameters, and in the frozen ones */
    uint64_t bytes, state_bytes;
} subgraph;

enum { SUBGRAPHS_SHOWN = 256 }; /* any further ones are counted with the last */

/* Groups variables by the first part of their paths; returns how many groups. */
static int subgraphs_of(const weft_model *m, subgraph list[SUBGRAPHS_SHOWN]) {
    int n = 0;
    for (const weft_variable *v = m->variables; v; v = v->next) {
        size_t length = top_length(v->path);
        int i = 0;
        while (i < n && !(strlen(list[i].name) == length && memcmp(list[i].name, v->path, length) == 0)) i++;
        if (i == SUBGRAPHS_SHOWN)
            i--;
        else if (i == n)
            snprintf(list[n++].name, sizeof list[0].name, "%.*s", (int)length, v->path);
        if (v->kind != VARIABLE_PARAMETER) {
            list[i].state_bytes += type_bytes(&v->type);
            continue;
        }
        list[i].parameters++;
        list[i].elements += type_elements(&v->type);
        list[i].bytes += type_bytes(&v->type);
        if (v->is_frozen) list[i].frozen += type_elements(&v->type);
    }
    return n;
}

/* ---- JSON ---- */

static json_t *ports_json(const weft_graph *g, bool outputs) {
    json_t *list = json_array();
    for (const weft_node *n = g->first; n && !outputs; n = n->next)
        if (n->op == &weft_op_input)
            json_array_append_new(
                list, json_pack("{s:s, s:s}", "name", input_name(n), "type", TYPE(&n->out[0].type)));
    for (const graph_output *p = g->outputs; p && outputs; p = p->next)
        json_array_append_new(list, json_pack("{s:s, s:s}", "name", p->name, "type", TYPE(&p->value->type)));
    return list;
}

static json_t *trains_json(const weft_graph *g) {
    json_t *list = json_array();
    for (const weft_node *n = g->first; n; n = n->next) {
        if (n->op != &weft_op_minimize) continue;
        const minimize_attrs *a = n->attrs;
        json_array_append_new(list, json_pack("{s:s, s:s, s:o}", "pattern", a->pattern ? a->pattern : "",
                                              "optimizer", a->type, "lr", json_number(a->lr)));
    }
    return list;
}

static json_t *flows_json(const weft_model *m) {
    json_t *flows = json_object();
    for (const flow_entry *e = m->flows; e; e = e->next) {
        text t = {0};
        flow_steps_write(&t, e->n, e->steps);
        char *steps = text_detach(&t);
        json_object_set_new(flows, e->name, json_string(steps ? steps : ""));
        free(steps);
    }
    return flows;
}

/* Keys are stable: "graphs", "flows" and "subgraphs" with what the text shows. */
static int info_json(const weft_model *m, const subgraph *subs, int n_subs, const char *path) {
    json_t *graphs = json_array(), *groups = json_array();
    for (const weft_graph *g = m->graphs; g; g = g->next)
        json_array_append_new(graphs, json_pack("{s:s, s:s, s:i, s:o, s:o, s:o}", "name", g->name, "mode",
                                                g->mode == WEFT_TRAIN ? "train" : "eval", "nodes",
                                                graph_node_count(g), "inputs", ports_json(g, false),
                                                "outputs", ports_json(g, true), "minimize", trains_json(g)));
    for (int i = 0; i < n_subs; i++)
        json_array_append_new(
            groups, json_pack("{s:s, s:i, s:I, s:I, s:I, s:I}", "name", subs[i].name, "parameters",
                              subs[i].parameters, "elements", (json_int_t)subs[i].elements, "frozen",
                              (json_int_t)subs[i].frozen, "bytes", (json_int_t)subs[i].bytes, "state_bytes",
                              (json_int_t)subs[i].state_bytes));
    return out_json(path, json_pack("{s:s, s:I, s:b, s:o, s:o, s:o}", "model", m->name, "batch",
                                    (json_int_t)m->batch, "checksum", !m->is_unsealed, "flows", flows_json(m),
                                    "graphs", graphs, "subgraphs", groups));
}

/* ---- text ---- */

static void graph_text(text *t, const weft_graph *g) {
    text_add(t, "\ngraph %s (%s, %d nodes)\n", g->name, g->mode == WEFT_TRAIN ? "train" : "eval",
             graph_node_count(g));
    for (const weft_node *n = g->first; n; n = n->next)
        if (n->op == &weft_op_input)
            text_add(t, "  input   %-16s %s\n", input_name(n), TYPE(&n->out[0].type));
    for (const graph_output *p = g->outputs; p; p = p->next)
        text_add(t, "  output  %-16s %s\n", p->name, TYPE(&p->value->type));
    for (const weft_node *n = g->first; n; n = n->next) {
        if (n->op != &weft_op_minimize) continue;
        const minimize_attrs *a = n->attrs;
        text_add(t, "  trains  %-16s %s lr %g\n", a->pattern && *a->pattern ? a->pattern : "(everything)",
                 a->type, a->lr);
    }
}

/* A file without a checksum is marked as old. */
static int info_text(const weft_model *m, const subgraph *subs, int n_subs, const char *path) {
    text t = {0};
    text_add(&t, "model %s, batch %" PRId64 "%s\n", m->name, m->batch,
             m->is_unsealed ? "; an old file without length and checksum" : "");
    for (int i = 0; i < n_subs; i++) {
        text_add(&t, "  %-20s %3d parameters, %" PRId64 " numbers, %s",
                 *subs[i].name ? subs[i].name : "(no scope)", subs[i].parameters, subs[i].elements,
                 show_bytes(subs[i].bytes).text);
        if (subs[i].state_bytes) text_add(&t, ", state %s", show_bytes(subs[i].state_bytes).text);
        text_add(&t, subs[i].frozen ? ", %" PRId64 " frozen\n" : "\n", subs[i].frozen);
    }
    if (m->flows) text_add(&t, "\n");
    for (const flow_entry *e = m->flows; e; e = e->next) flow_write(&t, e->name, e->n, e->steps);
    for (const weft_graph *g = m->graphs; g; g = g->next) graph_text(&t, g);
    char *all = text_detach(&t);
    if (!all) return tool_fail("out of memory");
    int status = out_write(path, all, strlen(all));
    free(all);
    return status;
}

static int info_run(const options *o) {
    int status = EXIT_FINE;
    weft_model *m = tool_load(o, &status);
    if (!m) return status;
    subgraph *subs = calloc(SUBGRAPHS_SHOWN, sizeof *subs);
    if (!subs)
        status = tool_fail("out of memory");
    else if (o->json)
        status = info_json(m, subs, subgraphs_of(m, subs), o->output);
    else
        status = info_text(m, subs, subgraphs_of(m, subs), o->output);
    free(subs);
    weft_model_free(m);
    return status;
}

const command command_info = {
    .name = "info",
    .summary = "Lists the graphs, inputs, outputs, subgraphs and parameters of a model",
    .takes_model = true,
    .options = "json output",
    .example = "graphtool info dcgan28.bin",
    .run = info_run,
};
