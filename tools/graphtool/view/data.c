/* data.c - a view as JSON, which the page reads:
 *
 *   {schema, title, settings: [[name, value], ...], texts: [...], difference: null, or that of difference.c,
 *    plans: [{name, memory: [[kind, bytes], ...], subgraphs: [name, ...],
 *             parameters: {path, kind, type, bytes, subgraph, bucket}, buckets: {name, bytes, subgraph},
 *             graphs: [G, ...]}]}
 *   G = {name, mode, phase, arena, peak_step, deferred, loss, time: {kind, total_us},
 *        passes: the name of each state, the last of which runs,
 *        nodes, values, workspaces, outputs, scopes: see view.h,
 *        inputs: {at, value, since, earlier: {node, place, value, first, last}}, results: {at},
 *        layout: {row, column, scope_row, scope_column}}
 *
 * What stands in {} without quotes after parameters, buckets, nodes, ... are columns (columns.c) of equal
 * length: a field of each row. A text is a number into `texts`; -1 is "no such". Operands of node i are
 * value[at[i]] to value[at[i + 1] - 1], each since a state, to the last one of the node; `earlier` has those
 * of earlier states, at a place among the operands. Results of node i are values at[i] to at[i + 1] - 1.
 * Bytes from `offset` on are in the arena in the steps from `from` to `until`, a workspace's in the step of
 * its node. A scope's `same` is the first of the equal ones beside it. scope_row and scope_column: phase *
 * number of scopes + scope. Rows of the backward phase are numbered so that the last one to run is row 0. */
#include "tools/graphtool/view/view.h"

#include "tools/graphtool/timeline/summary.h"

#include "ops/cpu/isa.h"

#include <limits.h>

/* ---- tables of columns ---- */

/* A field of a row, as a column of that name. */
typedef struct field {
    const char *name;
    size_t offset;
    bool is_wide; /* int64_t, not int */
} field;

#define INT(type, name)                                                                                      \
    { #name, offsetof(type, name), false }
#define WIDE(type, name)                                                                                     \
    { #name, offsetof(type, name), true }

static const field node_fields[] = {INT(view_node, op),
                                    INT(view_node, scope),
                                    INT(view_node, phase),
                                    INT(view_node, first),
                                    INT(view_node, last),
                                    INT(view_node, attrs),
                                    INT(view_node, kernel),
                                    INT(view_node, source),
                                    INT(view_node, declined),
                                    INT(view_node, step),
                                    INT(view_node, lane),
                                    INT(view_node, parameter),
                                    INT(view_node, bucket),
                                    WIDE(view_node, flop),
                                    WIDE(view_node, us),
                                    WIDE(view_node, begin_us),
                                    INT(view_node, waits_for),
                                    INT(view_node, collective),
                                    {0}};
static const field value_fields[] = {INT(view_value, node),   INT(view_value, name),    INT(view_value, type),
                                     WIDE(view_value, bytes), WIDE(view_value, offset), INT(view_value, base),
                                     INT(view_value, from),   INT(view_value, until),   {0}};
static const field earlier_fields[] = {INT(view_earlier, node),  INT(view_earlier, place),
                                       INT(view_earlier, value), INT(view_earlier, first),
                                       INT(view_earlier, last),  {0}};
static const field workspace_fields[] = {
    INT(view_workspace, node), WIDE(view_workspace, offset), WIDE(view_workspace, bytes), {0}};
static const field output_fields[] = {INT(view_output, name), INT(view_output, value), {0}};
static const field scope_fields[] = {INT(view_scope, path), INT(view_scope, name),  INT(view_scope, parent),
                                     INT(view_scope, same), INT(view_scope, nodes), {0}};
static const field parameter_fields[] = {INT(view_variable_row, path),
                                         INT(view_variable_row, kind),
                                         INT(view_variable_row, type),
                                         WIDE(view_variable_row, bytes),
                                         INT(view_variable_row, subgraph),
                                         INT(view_variable_row, bucket),
                                         {0}};

/* An object of the columns of `count` rows of `width` bytes. */
static json_t *columns(const field *f, const void *rows, int count, size_t width) {
    json_t *all = json_object();
    for (; f->name; f++)
        json_object_set_new(all, f->name,
                            view_column(rows ? (const char *)rows + f->offset : NULL, count, width,
                                        f->is_wide ? sizeof(int64_t) : sizeof(int)));
    return all;
}

/* Where the list of each row begins in the list of all, and where the last one ends. */
static json_t *begins(const view_graph *g, size_t offset, int end) {
    int *at = tool_new((size_t)g->n_nodes + 1, sizeof *at);
    for (int i = 0; i < g->n_nodes; i++) at[i] = *(const int *)((const char *)&g->nodes[i] + offset);
    at[g->n_nodes] = end;
    return view_column(at, g->n_nodes + 1, sizeof *at, sizeof *at);
}

static json_t *numbers(const int *list, int count) {
    return view_column(list, count, sizeof *list, sizeof *list);
}

/* ---- texts ---- */

/* JSON is UTF-8; a byte that is not becomes '?'. */
json_t *view_string(const char *s) {
    json_t *good = json_string(s);
    if (good) return good;
    char *copy = tool_text("%s", s);
    for (char *c = copy; *c; c++)
        if (*c & 0x80) *c = '?';
    return json_string(copy);
}

static json_t *texts_json(const view_texts *t) {
    json_t *list = json_array();
    for (int i = 0; i < t->n; i++) json_array_append_new(list, view_string(t->v[i]));
    return list;
}

/* ---- graphs ---- */

static json_t *layout_json(const view_graph *g) {
    int n = VIEW_PHASES * g->n_scopes;
    int *row = tool_new((size_t)n, sizeof *row), *column = tool_new((size_t)n, sizeof *column);
    for (int i = 0; i < n; i++) {
        row[i] = g->scopes[i % g->n_scopes].row[i / g->n_scopes];
        column[i] = g->scopes[i % g->n_scopes].column[i / g->n_scopes];
    }
    return json_pack("{s:o, s:o, s:o, s:o}", "row", numbers(g->row, g->n_nodes), "column",
                     numbers(g->column, g->n_nodes), "scope_row", numbers(row, n), "scope_column",
                     numbers(column, n));
}

static json_t *inputs_json(const view_graph *g) {
    const view_read *r = g->reads;
    return json_pack("{s:o, s:o, s:o, s:o}", "at", begins(g, offsetof(view_node, reads), g->n_reads), "value",
                     view_column(r ? &r->value : NULL, g->n_reads, sizeof *r, sizeof r->value), "since",
                     view_column(r ? &r->since : NULL, g->n_reads, sizeof *r, sizeof r->since), "earlier",
                     columns(earlier_fields, g->earlier, g->n_earlier, sizeof *g->earlier));
}

static json_t *states_json(const view_graph *g) {
    json_t *list = json_array();
    for (int i = 0; i < g->n_states; i++)
        json_array_append_new(list, view_string(g->of->texts->v[g->states[i]]));
    return list;
}

static json_t *graph_json(const view_graph *g) {
    static const char *const phases[] = {"whole", "first", "add", "last", "update", "loss"};
    json_t *all =
        json_pack("{s:o, s:s, s:s, s:I, s:i, s:i, s:i, s:o, s:{s:s, s:I}}", "name", view_string(g->name),
                  "mode", g->mode == WEFT_TRAIN ? "train" : "eval", "phase", phases[g->phase], "arena",
                  (json_int_t)g->arena_bytes, "peak_step", g->peak_step, "deferred",
                  g->deferred < INT_MAX ? g->deferred : -1, "loss", g->loss, "passes", states_json(g), "time",
                  "kind", g->is_measured ? "measured" : "steps", "total_us", (json_int_t)g->total_us);
    json_object_set_new(all, "nodes", columns(node_fields, g->nodes, g->n_nodes, sizeof *g->nodes));
    json_object_set_new(all, "values", columns(value_fields, g->values, g->n_values, sizeof *g->values));
    json_object_set_new(all, "inputs", inputs_json(g));
    json_object_set_new(all, "results",
                        json_pack("{s:o}", "at", begins(g, offsetof(view_node, values), g->n_values)));
    json_object_set_new(all, "workspaces",
                        columns(workspace_fields, g->workspaces, g->n_workspaces, sizeof *g->workspaces));
    json_object_set_new(all, "outputs", columns(output_fields, g->outputs, g->n_outputs, sizeof *g->outputs));
    json_object_set_new(all, "scopes", columns(scope_fields, g->scopes, g->n_scopes, sizeof *g->scopes));
    json_object_set_new(all, "layout", layout_json(g));
    return all;
}

/* ---- plans ---- */

static json_t *memory_json(const weft_plan *plan) {
    memory_row rows[PLAN_MEMORY_ROWS];
    int n = plan_memory_rows(plan, rows);
    json_t *list = json_array();
    for (int i = 0; i < n; i++)
        json_array_append_new(list, json_pack("[s, I]", rows[i].what, (json_int_t)rows[i].bytes));
    return list;
}

static json_t *subgraphs_json(const weft_plan *plan) {
    json_t *list = json_array();
    for (int i = 0; i < plan->n_subgraphs; i++)
        json_array_append_new(list, view_string(plan->subgraphs[i].name));
    return list;
}

static json_t *buckets_json(const view_plan *v) {
    const view_variable_row *b = v->buckets;
    int n = v->n_buckets;
    return json_pack("{s:o, s:o, s:o}", "name", view_column(&b->path, n, sizeof *b, sizeof b->path), "bytes",
                     view_column(&b->bytes, n, sizeof *b, sizeof b->bytes), "subgraph",
                     view_column(&b->subgraph, n, sizeof *b, sizeof b->subgraph));
}

static json_t *plan_json(const view_plan *v) {
    json_t *graphs = json_array();
    for (int i = 0; i < v->n_graphs; i++) json_array_append_new(graphs, graph_json(&v->graphs[i]));
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o}", "name", view_string(v->name), "memory",
                     memory_json(v->plan), "parameters",
                     columns(parameter_fields, v->parameters, v->n_parameters, sizeof *v->parameters),
                     "buckets", buckets_json(v), "subgraphs", subgraphs_json(v->plan), "graphs", graphs);
}

static void set(json_t *list, const char *name, const char *value) {
    json_array_append_new(list, json_pack("[s, o]", name, view_string(value)));
}

static json_t *settings_json(const weft_plan *plan) {
    const weft_compile_options *o = &plan->options;
    json_t *list = json_array();
    set(list, "batch", tool_text("%lld", (long long)o->batch));
    set(list, "device", device_name(o->device));
    if (o->device == WEFT_DEVICE_CPU) {
        set(list, "threads", tool_text("%d", o->threads));
        set(list, "isa", isa_name(o->isa));
    }
    set(list, "dtype", dtype_name(o->precision));
    if (o->accumulate > 1) set(list, "accumulate", tool_text("%d", o->accumulate));
    if (o->world > 1) set(list, "rank", tool_text("%d of %d", o->rank, o->world));
    if (o->world > 1) set(list, "strategy", plan->strategy.text);
    set(list, "fingerprint", tool_text("%016llx", (unsigned long long)plan->fingerprint));
    return list;
}

json_t *view_json(const view_texts *texts, view_plan *const *plans, int n_plans) {
    json_t *list = json_array();
    for (int i = 0; i < n_plans; i++) json_array_append_new(list, plan_json(plans[i]));
    json_t *changes = n_plans > 1 ? view_difference(plans[0]->plan, plans[1]->plan) : json_null();
    return json_pack("{s:i, s:o, s:o, s:o, s:o, s:o}", "schema", OUT_SCHEMA, "title",
                     view_string(plans[0]->plan->model->name), "settings", settings_json(plans[0]->plan),
                     "texts", texts_json(texts), "plans", list, "difference", changes);
}
