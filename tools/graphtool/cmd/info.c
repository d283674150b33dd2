/* info.c - graphtool info: prints a model's graphs, inputs, outputs, subgraphs and parameters, as text or
 * JSON. */
#include "tools/graphtool/model/layers.h"
#include "tools/graphtool/model/run_config.h"
#include "tools/graphtool/output/table.h"
#include "tools/graphtool/model/tools.h"

#include "graph/settings/ddp.h"
#include "graph/settings/flow.h"
#include "graph/settings/minimize.h"
#include "graph/settings/precision.h"

#include <inttypes.h>
#include <string.h>

typedef struct subgraph {
    char name[204]; /* "": of the whole model, or of variables outside any scope */
    int parameters;
    int64_t elements, frozen; /* numbers in the parameters, and in the frozen ones */
    uint64_t bytes, state_bytes;
} subgraph;

enum { SUBGRAPHS_SHOWN = 256 }; /* any further ones are counted with the last */

/* Groups variables by their subgraphs; returns how many groups. */
static int subgraphs_of(const weft_model *m, subgraph list[SUBGRAPHS_SHOWN]) {
    int n = 0;
    for (const weft_variable *v = m->variables; v; v = v->next) {
        size_t length = ddp_subgraph(m, v->path);
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

/* The operations and bytes of a forward; `share` is of the graph's operations. */
static json_t *layers_json(const weft_graph *g, int depth) {
    layers l = layers_of(g, depth);
    json_t *list = json_array();
    for (int i = 0; i < l.n; i++) {
        const layer *row = &l.v[i];
        json_array_append_new(list, json_pack("{s:s, s:s?, s:s?, s:I, s:I, s:I, s:o}", "path", row->path,
                                              "op", row->op ? row->op->name : NULL, "output",
                                              row->output ? TYPE(row->output) : NULL, "parameters",
                                              (json_int_t)row->parameters, "flops", (json_int_t)row->flops,
                                              "bytes", (json_int_t)row->bytes, "share",
                                              l.flops > 0 ? json_real(row->flops / l.flops) : json_null()));
    }
    return list;
}

static json_t *parameters_json(const weft_model *m) {
    json_t *list = json_array();
    for (const weft_variable *v = m->variables; v; v = v->next)
        json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:I, s:I, s:b, s:s%}", "path", v->path, "kind",
                                              variable_kind_name(v->kind), "type", TYPE(&v->type), "elements",
                                              (json_int_t)type_elements(&v->type), "bytes",
                                              (json_int_t)type_bytes(&v->type), "frozen", v->is_frozen,
                                              "subgraph", v->path, ddp_subgraph(m, v->path)));
    return list;
}

static json_t *flows_json(const weft_model *m) {
    json_t *flows = json_object();
    for (const flow_entry *e = m->flows; e; e = e->next) {
        text t = {0};
        flow_steps_write(&t, e->n, e->steps);
        json_object_set_new(flows, e->name, json_string(tool_take(&t)));
    }
    return flows;
}

/* The names of ops that the program which made the model defines. */
static json_t *program_ops(const weft_model *m) {
    json_t *names = json_array();
    for (const weft_graph *g = m->graphs; g; g = g->next)
        for (const weft_node *n = g->first; n; n = n->next) {
            size_t i = 0;
            if (!op_is_of_program(n->op)) continue;
            while (i < json_array_size(names) &&
                   strcmp(json_string_value(json_array_get(names, i)), n->op->name))
                i++;
            if (i == json_array_size(names)) json_array_append_new(names, json_string(n->op->name));
        }
    return names;
}

/* Keys are stable: what the text shows, and each parameter and state. */
static void info_json(const weft_model *m, const subgraph *subs, int n_subs, const options *o) {
    json_t *graphs = json_array(), *groups = json_array();
    for (const weft_graph *g = m->graphs; g; g = g->next)
        json_array_append_new(graphs, json_pack("{s:s, s:s, s:i, s:o, s:o, s:o, s:o}", "name", g->name,
                                                "mode", g->mode == WEFT_TRAIN ? "train" : "eval", "nodes",
                                                graph_node_count(g), "inputs", ports_json(g, false),
                                                "outputs", ports_json(g, true), "minimize", trains_json(g),
                                                "layers", layers_json(g, (int)o->depth)));
    for (int i = 0; i < n_subs; i++)
        json_array_append_new(
            groups, json_pack("{s:s, s:i, s:I, s:I, s:I, s:I}", "name", subs[i].name, "parameters",
                              subs[i].parameters, "elements", (json_int_t)subs[i].elements, "frozen",
                              (json_int_t)subs[i].frozen, "bytes", (json_int_t)subs[i].bytes, "state_bytes",
                              (json_int_t)subs[i].state_bytes));
    out_json(o->output,
             json_pack("{s:s, s:I, s:s?, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "model", m->name, "batch",
                       (json_int_t)m->batch, "strategy", m->strategy, "ddp", ddp_json(m, "/"), "precision",
                       precisions_json(m), "flows", flows_json(m), "program_ops", program_ops(m), "graphs",
                       graphs, "subgraphs", groups, "parameters", parameters_json(m)));
}

/* ---- text ---- */

/* "1.23 M" */
static const char *count_text(double value) {
    static const char *const units[] = {"", " K", " M", " G", " T"};
    int unit = 0;
    for (; value >= 999.5 && unit < 4; unit++) value /= 1000;
    return tool_text("%.*f%s", !unit || value >= 100 ? 0 : value >= 10 ? 1 : 2, value, units[unit]);
}

static void layer_row(table *to, const layer *row, const char *name, double all_flops) {
    table_row(to, "%*s%s\t%s\t%s\t%s\t%s\t%s\t%s", row->depth > 1 ? 2 * (row->depth - 1) : 0, "", name,
              row->op ? row->op->name : "", row->output ? TYPE(row->output) : "",
              count_text((double)row->parameters), count_text(row->flops), BYTES((uint64_t)row->bytes),
              all_flops > 0 ? tool_text("%.1f%%", 100 * row->flops / all_flops) : "");
}

/* The scopes of a graph, as torchinfo lists modules. */
static void layers_text(text *t, const weft_graph *g, int depth) {
    table rows = {.columns = 7, .is_right = {[3] = true, true, true, true}};
    layers l = layers_of(g, depth);
    const layer all = {.parameters = l.parameters, .flops = l.flops, .bytes = l.bytes};
    table_row(&rows, "layer\top\toutput\tparameters\tFLOP\tresults\tof FLOP");
    for (int i = 0; i < l.n; i++) {
        const char *path = l.v[i].path, *slash = strrchr(path, '/');
        layer_row(&rows, &l.v[i], !*path ? "(no scope)" : slash ? slash + 1 : path, l.flops);
    }
    layer_row(&rows, &all, "all, forward", l.flops);
    table_write(t, &rows);
}

/* Whether an earlier node of the graph assigns into the same subgraph. */
static bool is_shown_before(const weft_node *n) {
    size_t length = ddp_subgraph(n->graph->model, n->variable->path);
    for (const weft_node *k = n->graph->first; k != n; k = k->next)
        if (k->op == &weft_op_assign && length == ddp_subgraph(n->graph->model, k->variable->path) &&
            memcmp(k->variable->path, n->variable->path, length) == 0)
            return true;
    return false;
}

/* What a graph without training writes, by subgraphs: "assigns target". Running statistics of a training
 * graph are not listed. */
static void assigns_text(text *t, const weft_graph *g) {
    for (const weft_node *n = g->mode == WEFT_TRAIN ? NULL : g->first; n; n = n->next) {
        if (n->op != &weft_op_assign) continue;
        int length = (int)ddp_subgraph(g->model, n->variable->path);
        if (!length)
            text_add(t, "  assigns %s\n", n->variable->path);
        else if (!is_shown_before(n))
            text_add(t, "  assigns %.*s\n", length, n->variable->path);
    }
}

static void graph_text(text *t, const weft_graph *g, int depth) {
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
        const char *pattern = a->pattern && *a->pattern ? a->pattern : "(everything)";
        if (minimize_follows(n))
            text_add(t, "  moves   %-16s once a step, momentum %g\n", pattern, a->momentum);
        else
            text_add(t, "  trains  %-16s %s lr %g\n", pattern, a->type, a->lr);
    }
    assigns_text(t, g);
    text_add(t, "\n");
    layers_text(t, g, depth);
}

/* What a plan of any options would note of the model: the passes that find it are the first of the
 * compiler. */
static void notes_text(text *t, const weft_model *m) {
    weft_plan *plan = weft_compile(m, &(weft_compile_options){.stop_after = "argument_order"}, NULL);
    const char *note;
    for (int i = 0; plan && (note = weft_plan_note(plan, i)); i++) text_add(t, "note: %s\n", note);
    weft_plan_free(plan);
}

static void info_text(const weft_model *m, const subgraph *subs, int n_subs, const options *o) {
    text t = {0};
    text_add(&t, "model %s, batch %" PRId64 "\n", m->name, m->batch);
    for (int i = 0; i < n_subs; i++) {
        text_add(&t, "  %-20s %3d parameters, %" PRId64 " numbers, %s",
                 *subs[i].name   ? subs[i].name
                 : ddp_at(m, "") ? "(whole model)"
                                 : "(no scope)",
                 subs[i].parameters, subs[i].elements, BYTES(subs[i].bytes));
        if (subs[i].state_bytes) text_add(&t, ", state %s", BYTES(subs[i].state_bytes));
        text_add(&t, subs[i].frozen ? ", %" PRId64 " frozen\n" : "\n", subs[i].frozen);
    }
    int trained = 0;
    for (int i = 0; i < n_subs; i++) trained += subs[i].elements > subs[i].frozen;
    if (trained > 1)
        text_add(&t,
                 "%d subgraphs, each with its own DDP; weft_model_set_ddp(model, \"\", ...) makes them one\n",
                 trained);
    if (m->strategy) text_add(&t, "strategy %s\n", m->strategy);
    for (const ddp_entry *e = m->ddps; e; e = e->next) ddp_write(&t, e);
    for (const precision_entry *e = m->precisions; e; e = e->next) precision_write(&t, e);
    json_t *ops = program_ops(m);
    for (size_t i = 0; i < json_array_size(ops); i++)
        text_add(&t, "%s%s", i ? ", " : "ops of the program: ", json_string_value(json_array_get(ops, i)));
    if (json_array_size(ops)) text_add(&t, "\n");
    json_decref(ops);
    notes_text(&t, m);
    if (m->flows) text_add(&t, "\n");
    for (const flow_entry *e = m->flows; e; e = e->next) flow_write(&t, e->name, e->n, e->steps);
    for (const weft_graph *g = m->graphs; g; g = g->next) graph_text(&t, g, (int)o->depth);
    out_text(o->output, &t);
}

/* Whether a graph trains it. */
static bool is_trained(const weft_model *m, const weft_variable *v) {
    for (const weft_graph *g = m->graphs; g; g = g->next)
        for (const weft_node *n = g->first; n; n = n->next)
            if (n->op == &weft_op_minimize && minimize_trains(n, v)) return true;
    return false;
}

static void parameters_text(const weft_model *m, const options *o) {
    table rows = {.columns = 4, .is_right = {[2] = true}};
    text t = {0};
    table_row(&rows, "path\ttype\tnumbers\t");
    for (const weft_variable *v = m->variables; v; v = v->next)
        table_row(&rows, "%s\t%s\t%" PRId64 "\t%s", v->path, TYPE(&v->type), type_elements(&v->type),
                  v->kind != VARIABLE_PARAMETER ? variable_kind_name(v->kind)
                  : v->is_frozen                ? "frozen"
                  : is_trained(m, v)            ? "trained"
                                                : "");
    table_write(&t, &rows);
    out_text(o->output, &t);
}

static int info_run(const options *o) {
    const weft_model *m = tool_load(o);
    if (o->parameters) return parameters_text(m, o), EXIT_FINE;
    subgraph *subs = tool_new(SUBGRAPHS_SHOWN, sizeof *subs);
    int n = subgraphs_of(m, subs);
    if (o->json)
        info_json(m, subs, n, o);
    else
        info_text(m, subs, n, o);
    return EXIT_FINE;
}

const command command_info = {
    .name = "info",
    .summary = "Lists the graphs, inputs, outputs, subgraphs and parameters of a model",
    .options = "depth parameters json output",
    .example = "graphtool info dcgan28.bin",
    .writes_text = true,
    .run = info_run,
    .defaults = {.depth = 3},
};
