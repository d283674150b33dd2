/* nodes.c - the walk over a graph, node by node in their order: export.h. */
#include "interchange/onnx/export/exporters.h"

/* ---- which nodes ---- */

static const weft_node **nodes_of(exporter *e, int *n) {
    const weft_node **all = NULL;
    *n = 0;
    for (const weft_node *node = NULL; (node = weft_graph_node(e->graph, node));) {
        all = kit_grow(e->arena, all, (size_t)*n + 1, sizeof *all);
        if (!all) return NULL;
        all[(*n)++] = node;
    }
    return all;
}

static void need(exporter *e, const weft_value *v) {
    if (!v) return;
    export_entry_of(e, v)->is_needed = true;
    export_entry_of(e, weft_value_node(v))->is_needed = true;
}

/* From the last node to the first. */
static void mark_needed(exporter *e, const weft_node *const *all, int n) {
    const weft_value *v;
    for (int i = 0; (v = weft_graph_output(e->graph, i, NULL)); i++) need(e, v);
    while (n--) {
        weft_node_info about;
        if (!export_entry_of(e, all[n])->is_needed || !weft_node_about(all[n], &about)) continue;
        for (int i = 0; i < about.n_operands; i++) need(e, weft_node_operand(all[n], i));
    }
}

/* ---- inputs ---- */

static bool is_random(const char *op) {
    return !strcmp(op, "random_normal") || !strcmp(op, "random_uniform");
}

static bool is_input(const exporter *e, const weft_node_info *about) {
    return !strcmp(about->op, "input") || (e->options->random_inputs && is_random(about->op));
}

/* The first input with an axis that is the batch. */
static void find_batch(exporter *e, const weft_node *const *all, int n) {
    weft_node_info about;
    weft_attribute shape;
    for (int i = 0; i < n && !e->batch_of; i++) {
        if (!weft_node_about(all[i], &about) || !is_input(e, &about)) continue;
        if (!weft_node_attribute(all[i], "shape", &shape)) continue;
        for (int k = shape.n; k--;) {
            if (shape.integers[k] != WEFT_BATCH) continue;
            e->batch_of = weft_node_result(all[i], 0);
            e->batch_axis = k;
        }
    }
}

/* "generator/z" -> "generator.z.random_normal" */
static const char *random_name(exporter *e, const weft_node_info *about) {
    size_t room = strlen(about->scope) + strlen(about->op) + 20;
    char *name = kit_take(e->arena, room, 1);
    if (!name) return NULL;
    int length = snprintf(name, room, "%s%s%s", about->scope, *about->scope ? "." : "", about->op), count = 0;
    for (char *c = name; *c; c++)
        if (*c == '/') *c = '.';
    for (const edge *i = e->inputs; i; i = i->next) {
        if (strcmp(i->name, name)) continue;
        snprintf(name + length, room - (size_t)length, "_%d", ++count);
        i = e->inputs;
    }
    return name;
}

static edge *make_input(export_call *c) {
    exporter *e = c->e;
    edge *made = kit_take(e->arena, 1, sizeof *made);
    const char *name = !strcmp(c->about.op, "input") ? c->about.path : random_name(e, &c->about);
    if (!made || !name) return NULL;
    *made = (edge){.name = name, .value = export_result(c, 0)};
    *e->inputs_end = made;
    e->inputs_end = &made->next;
    return made;
}

/* ---- nodes ---- */

static edge *make_same(export_call *c, const char *op) {
    edge *in[WEFT_MAX_NDIM];
    int n = c->about.n_operands < WEFT_MAX_NDIM ? c->about.n_operands : WEFT_MAX_NDIM;
    for (int i = 0; i < n; i++) in[i] = export_in(c, i);
    return export_new(c, op, n, in, 1);
}

/* NULL: no row. */
static const export_row *row_of(const exporter *e, const char *op) {
    for (const export_row *r = e->rows; r->op; r++)
        if (!strcmp(r->op, op)) return r;
    return NULL;
}

static edge *make(export_call *c) {
    const char *op = c->about.op;
    const export_row *row = row_of(c->e, op);
    if (is_input(c->e, &c->about)) return make_input(c);
    if (!strcmp(op, "parameter") || !strcmp(op, "state"))
        return export_parameter(c, c->about.path, export_result(c, 0));
    if (c->about.is_backward)
        return export_refuse(c, "it is part of a gradient: export a graph that predicts");
    if (!row && strchr(op, '.'))
        return export_refuse(c, "it is an op of the program, and ONNX has none like it");
    if (!row) return export_refuse(c, "there is no operator of ONNX, nor several, that are the same");
    if (row->refused) return export_refuse(c, "%s", row->refused);
    return row->build ? row->build(c) : make_same(c, row->same);
}

/* What has effects besides results is there whether or not an output needs it. */
static bool has_effect(const weft_node_info *about) {
    return !about->n_results || !strcmp(about->op, "assign") || !strcmp(about->op, "minimize");
}

static bool export_one(exporter *e, const weft_node *node) {
    export_call c = {.e = e, .node = node};
    if (!weft_node_about(node, &c.about)) return false;
    if (!export_entry_of(e, node)->is_needed && !has_effect(&c.about) && strcmp(c.about.op, "input"))
        return true;
    c.results = kit_take(e->arena, (size_t)c.about.n_results + 1, sizeof *c.results);
    if (!c.results) return false;
    edge *first = make(&c);
    if (e->error->status || !first) return false;
    c.results[0] = first;
    for (int i = 0; i < c.about.n_results; i++) {
        export_entry *entry = export_entry_of(e, weft_node_result(node, i));
        entry->is = c.results[i];
        if (entry->is_needed && !entry->is)
            return export_refuse(&c, "ONNX has no counterpart of its result %d", i);
    }
    return true;
}

/* ---- outputs ---- */

/* Values that have another name already, or that no node makes, get an Identity of the output's name. */
static bool name_output(exporter *e, int i, edge **into) {
    const char *name;
    const weft_value *v = weft_graph_output(e->graph, i, &name);
    edge *is = export_entry_of(e, v)->is;
    export_call c = {.e = e, .node = weft_value_node(v)};
    weft_node_about(c.node, &c.about);
    bool is_input = is->value && !strcmp(is->name, name);
    if ((!is->from || is->name) && !is_input) is = export_1(&c, "Identity", is);
    if (is) is->name = name;
    *into = is;
    return is;
}

static weft_status export_outputs(exporter *e) {
    int n = 0;
    while (weft_graph_output(e->graph, n, NULL)) n++;
    edge **outputs = kit_take(e->arena, (size_t)n + 1, sizeof *outputs);
    if (!n)
        return kit_fail(e->error, WEFT_ARGUMENT, "graph %.100s: it has no output (weft_output)",
                        e->graph_name);
    for (int i = 0; outputs && i < n; i++)
        if (!name_output(e, i, &outputs[i])) return kit_no_memory(e->error, e->path);
    return outputs ? export_save(e, outputs, n) : kit_no_memory(e->error, e->path);
}

/* ---- the graph ---- */

weft_status export_graph(exporter *e) {
    int n;
    const weft_node **all = nodes_of(e, &n);
    if ((!all && n) || !export_entries(e)) return kit_no_memory(e->error, e->path);
    mark_needed(e, all, n);
    if (!e->options->fixed_batch) find_batch(e, all, n);
    for (int i = 0; i < n; i++)
        if (!export_one(e, all[i]))
            return e->error->status ? e->error->status : kit_no_memory(e->error, e->path);
    return export_outputs(e);
}
