/* collect.c - nodes and values of all states of a plan's graphs. The model is compiled once up to each pass
 * that may change nodes; what is made does not depend on where compiling stops. The last state comes first
 * (I1), so that a node has the attributes and operands of its last state. While states are collected they
 * are counted backwards: state 0 runs. */
#include "tools/graphtool/view/view.h"

#include "graph/text/read.h"
#include "ops/kit/ops.h"
#include "ops/work.h"
#include "runtime/plan/value.h"
#include "tools/graphtool/model/tools.h"

#include <string.h>

/* The passes of the compiler that change nodes: from the first one to the last one here. */
static const char first_pass[] = "programs", last_pass[] = "layout";
/* The one whose plan runs. */
static const char end_of_passes[] = "memory";

/* ---- which node of the view a node of this state is ---- */

/* Lists have room for all nodes that were ever made in a graph, and for all values of this state. */
static void make_room(view_graph *g, const weft_graph *of) {
    if (of->next_made > g->n_made) {
        int *of_made = view_new(&g->memory, of->next_made, sizeof *of_made);
        for (int i = 0; i < of->next_made; i++) of_made[i] = i < g->n_made ? g->of_made[i] : -1;
        g->of_made = of_made;
        g->n_made = of->next_made;
    }
    if (of->next_id > g->n_ids) g->value_of_id = view_new(&g->memory, of->next_id, sizeof *g->value_of_id);
    if (of->next_id > g->n_ids) g->n_ids = of->next_id;
}

/* Numbers of making stay, while ids may change. A fused node has the number of a node in it, and another op.
 * -1: the node is not known yet. */
static int find_node(const view_graph *g, const weft_node *n) {
    int i = g->of_made[n->made];
    while (i >= 0 && !(g->nodes[i].kind == n->op && g->nodes[i].n_values == n->n_out))
        i = g->nodes[i].next_alike;
    return i;
}

/* The value of the view that an operand is; -1: it is left out. */
static int value_of(const view_graph *g, const weft_value *v) {
    return v ? g->value_of_id[v->id] : -1;
}

static void note_values(view_graph *g, const weft_node *n, int i) {
    for (int k = 0; k < n->n_out; k++) g->value_of_id[n->out[k].id] = g->nodes[i].values + k;
}

/* ---- a new node ---- */

/* "%3 f32[4] = relu(%2); ..." */
static void body_text(text *t, const weft_node *n) {
    for (int b = 0; b < n->n_body; b++) {
        const weft_node *k = n->body[b];
        text_add(t, b ? "; %%%d %s = %s(" : "%%%d %s = %s(", k->id, TYPE(&k->out[0].type), k->op->name);
        for (int i = 0; i < k->n_in; i++) text_add(t, i ? ", %%%d" : "%%%d", k->in[i] ? k->in[i]->id : -1);
        text_add(t, ")");
        attrs_write(t, k->op, k->attrs);
    }
}

static int attrs_of(view_graph *g, const weft_node *n) {
    text t = {0};
    attrs_write(&t, n->op, n->attrs);
    body_text(&t, n);
    return view_take(g->of->texts, &t);
}

/* Names and keys of random numbers differ from call to call. */
static void form_attrs(text *t, const weft_node *n) {
    for (const op_attr *a = n->op->attrs; a && a->name; a++)
        if (a->kind != ATTR_KEY && a->kind != ATTR_STRING && a->kind != ATTR_SCHEDULES)
            attr_write(t, a, n->attrs);
}

/* An operand of a body node: the number of the body node that makes it, or of the operand of the whole. */
static void form_operand(text *t, const weft_node *n, const weft_value *v) {
    for (int b = 0; b < n->n_body; b++)
        if (v == &n->body[b]->out[0]) text_add(t, " b%d", b);
    for (int i = 0; i < n->n_in; i++)
        if (v && v == n->in[i]) text_add(t, " i%d", i);
}

static int form_of(view_graph *g, const weft_node *n) {
    text t = {0};
    form_attrs(&t, n);
    for (int b = 0; b < n->n_body; b++) {
        const weft_node *k = n->body[b];
        text_add(&t, "; %s %s", k->op->name, TYPE(&k->out[0].type));
        for (int i = 0; i < k->n_in; i++) form_operand(&t, n, k->in[i]);
        form_attrs(&t, k);
    }
    return view_take(g->of->texts, &t);
}

static void add_values(view_graph *g, const weft_node *n) {
    for (int k = 0; k < n->n_out; k++) {
        text name = {0}, type = {0};
        const weft_value *v = &n->out[k];
        text_add(&name, "%%%d", v->id);
        value_type_write(&type, v);
        g->values = view_grow(&g->memory, g->values, g->n_values, sizeof *g->values);
        g->values[g->n_values++] =
            (view_value){.node = g->n_nodes,
                         .name = view_take(g->of->texts, &name),
                         .type = view_take(g->of->texts, &type),
                         .base = -1,
                         .from = -1,
                         .until = -1,
                         .bytes = (int64_t)(v->has_layout ? value_span(v) : type_bytes(&v->type)),
                         .offset = -1};
    }
}

static void add_reads(view_graph *g, const weft_node *n, int state) {
    for (int i = 0; i < n->n_in; i++) {
        g->reads = view_grow(&g->memory, g->reads, g->n_reads, sizeof *g->reads);
        g->reads[g->n_reads++] = (view_read){value_of(g, n->in[i]), state};
    }
}

/* The parameter or state, and the bucket, that a node reads or writes. */
static void find_variables(const view_graph *g, const weft_node *n, view_node *k) {
    const weft_variable *v = n->variable;
    if (!v) return;
    const weft_variable *bucket = v->kind == VARIABLE_BUCKET ? v : v->bucket;
    k->parameter = view_variable(g->of, v->path);
    k->bucket = bucket ? view_variable(g->of, bucket->path) : -1;
    if (v->kind == VARIABLE_BUCKET) k->parameter = -1;
}

static int phase_of(const weft_node *n) {
    return n->is_update ? VIEW_UPDATE : n->is_backward ? VIEW_BACKWARD : VIEW_FORWARD;
}

static int add_node(view_graph *g, const weft_node *n, int state) {
    view_node k = {.kind = n->op,
                   .next_alike = g->of_made[n->made],
                   .op = view_text(g->of->texts, n->op->name),
                   .attrs = attrs_of(g, n),
                   .form = form_of(g, n),
                   .kernel = view_text(g->of->texts, n->kernel ? n->kernel->name : NULL),
                   .source = view_text(g->of->texts, show_place(n->file, n->line).text),
                   .declined = view_text(g->of->texts, n->declined),
                   .scope = view_scope_of(g, n->scope),
                   .phase = phase_of(n),
                   .first = state,
                   .last = state,
                   .step = state ? -1 : n->order,
                   .lane = node_starts_collective(n),
                   .parameter = -1,
                   .bucket = -1,
                   .waits_for = -1,
                   .reads = g->n_reads,
                   .n_reads = n->n_in,
                   .values = g->n_values,
                   .n_values = n->n_out,
                   .flop = (int64_t)node_flops(n),
                   .us = -1,
                   .begin_us = -1};
    find_variables(g, n, &k);
    if (n->op == &weft_op_wait) k.waits_for = g->values[value_of(g, n->in[0])].node;
    if (!state) k.collective = view_reason(g->of->texts, g->of->plan, n);
    add_values(g, n);
    add_reads(g, n, state);
    g->nodes = view_grow(&g->memory, g->nodes, g->n_nodes, sizeof *g->nodes);
    g->earlier_of = view_grow(&g->memory, g->earlier_of, g->n_nodes, sizeof *g->earlier_of);
    g->earlier_of[g->n_nodes] = -1;
    g->nodes[g->n_nodes] = k;
    g->of_made[n->made] = g->n_nodes;
    return g->n_nodes++;
}

/* ---- a node that a later state has, too ---- */

/* Operand `place` in the state after this one: of its last state, or of `earlier`; -1: missing. */
static view_earlier *earlier_at(const view_graph *g, int node, int place, int state) {
    for (int e = g->earlier_of[node]; e >= 0; e = g->earlier[e].before)
        if (g->earlier[e].place == place && g->earlier[e].first == state) return &g->earlier[e];
    return NULL;
}

static void add_earlier(view_graph *g, view_earlier e) {
    g->earlier = view_grow(&g->memory, g->earlier, g->n_earlier, sizeof *g->earlier);
    e.before = g->earlier_of[e.node];
    g->earlier[g->n_earlier] = e;
    g->earlier_of[e.node] = g->n_earlier++;
}

/* The operand `place` of a node in the state that was collected before this one. */
static int later_operand(const view_graph *g, int node, int place, int state) {
    const view_node *k = &g->nodes[node];
    const view_earlier *e = earlier_at(g, node, place, state - 1);
    if (e) return e->value;
    bool is_last = place < k->n_reads && g->reads[k->reads + place].since == state - 1;
    return is_last ? g->reads[k->reads + place].value : -1;
}

/* An operand in this state: the same as in the state after it, or another one. */
static void note_operand(view_graph *g, int node, int place, int value, int state) {
    view_node *k = &g->nodes[node];
    view_earlier *e = earlier_at(g, node, place, state - 1);
    view_read *r = place < k->n_reads ? &g->reads[k->reads + place] : NULL;
    if (r && r->since == state - 1 && r->value == value)
        r->since = state;
    else if (e && e->value == value)
        e->first = state;
    else if (value >= 0)
        add_earlier(g, (view_earlier){node, place, value, .first = state, .last = state});
}

/* ---- states ---- */

/* Whether the graph differs from the state that was collected before, in its nodes or their operands. Values
 * of nodes that both have are noted. */
static bool state_differs(view_graph *g, const weft_graph *of, int state) {
    int known = 0;
    for (int i = 0; i < g->n_nodes; i++) known += g->nodes[i].first == state - 1;
    for (const weft_node *n = of->first; n; n = n->next, known--) {
        int i = find_node(g, n);
        if (i < 0 || g->nodes[i].first != state - 1) return true;
        note_values(g, n, i);
        for (int k = 0; k < n->n_in; k++)
            if (value_of(g, n->in[k]) != later_operand(g, i, k, state)) return true;
    }
    return known != 0;
}

static void add_outputs(view_graph *g, const weft_graph *of) {
    for (const graph_output *o = of->outputs; o; o = o->next) {
        g->outputs = view_grow(&g->memory, g->outputs, g->n_outputs, sizeof *g->outputs);
        g->outputs[g->n_outputs++] = (view_output){view_text(g->of->texts, o->name), value_of(g, o->value)};
        g->values[value_of(g, o->value)].name = view_text(g->of->texts, o->name);
    }
}

/* What is minimized is an output until the end, or the run has none. */
static void note_minimized(view_graph *g, const weft_graph *of, const weft_node *n) {
    for (const graph_output *o = of->outputs; o && n->op == &weft_op_minimize; o = o->next)
        if (o->value == n->in[0]) g->minimized = view_text(g->of->texts, o->name);
}

/* Adds the nodes of a graph in a state that is earlier than all before it. Passes that change nothing share
 * the state of the first of them; the last state, which has places, is apart. */
static void add_state(view_graph *g, const weft_graph *of, const char *pass) {
    int state = g->n_states;
    make_room(g, of);
    if (state > 1 && !state_differs(g, of, state)) {
        g->states[state - 1] = view_text(g->of->texts, pass);
        return;
    }
    g->states = view_grow(&g->memory, g->states, g->n_states, sizeof *g->states);
    g->states[g->n_states++] = view_text(g->of->texts, pass);
    for (const weft_node *n = of->first; n; n = n->next) {
        int i = find_node(g, n);
        bool is_new = i < 0;
        if (is_new) i = add_node(g, n, state);
        note_values(g, n, i);
        g->nodes[i].first = state;
        for (int k = 0; !is_new && k < n->n_in; k++) note_operand(g, i, k, value_of(g, n->in[k]), state);
        note_minimized(g, of, n);
    }
    if (!state) add_outputs(g, of);
}

/* States are counted forwards from here on. */
static void turn_states(view_graph *g) {
    int last = g->n_states - 1;
    for (int i = 0; i < g->n_nodes; i++) {
        g->nodes[i].first = last - g->nodes[i].first;
        g->nodes[i].last = last - g->nodes[i].last;
    }
    for (int i = 0; i < g->n_reads; i++) g->reads[i].since = last - g->reads[i].since;
    for (int i = 0; i < g->n_earlier; i++) {
        g->earlier[i].first = last - g->earlier[i].first;
        g->earlier[i].last = last - g->earlier[i].last;
    }
    for (int i = 0; i < g->n_states / 2; i++) {
        int text = g->states[i];
        g->states[i] = g->states[last - i];
        g->states[last - i] = text;
    }
}

/* The node whose result is minimized. */
static void find_loss(view_graph *g) {
    for (int i = 0; i < g->n_outputs && g->minimized; i++)
        if (g->outputs[i].name == g->minimized) g->loss = g->values[g->outputs[i].value].node;
}

/* ---- plans ---- */

static void free_plan(void *plan) {
    view_plan *v = plan;
    for (int i = 0; i < v->n_graphs; i++) arena_free(&v->graphs[i].memory);
    arena_free(&v->memory);
}

static view_plan *plan_new(view_texts *texts, const weft_plan *plan) {
    view_plan *v = tool_new(1, sizeof *v);
    *v = (view_plan){.texts = texts, .plan = plan, .name = plan->model->name, .n_graphs = plan->n_programs};
    tool_keep(v, free_plan);
    view_variables(v);
    v->graphs = view_new(&v->memory, v->n_graphs, sizeof *v->graphs);
    for (int i = 0; i < v->n_graphs; i++) {
        const program *p = &plan->programs[i];
        v->graphs[i] = (view_graph){.of = v,
                                    .name = p->graph->name,
                                    .mode = p->graph->mode,
                                    .phase = p->phase,
                                    .arena_bytes = (int64_t)p->arena_bytes,
                                    .deferred = p->deferred,
                                    .loss = -1};
    }
    return v;
}

static void add_states(view_plan *v, const weft_plan *plan, const char *pass) {
    for (int i = 0; i < v->n_graphs; i++) add_state(&v->graphs[i], plan->programs[i].graph, pass);
}

/* The number of a pass of the compiler. */
static int pass_at(const char *name) {
    int i = 0;
    while (strcmp(weft_pass_name(i), name) != 0) i++;
    return i;
}

static void finish_graph(view_graph *g, const program *p) {
    turn_states(g);
    find_loss(g);
    view_scopes_finish(g);
    view_places(g, p);
    view_equal(g);
    view_layout(g);
}

view_plan *view_collect(view_texts *texts, const weft_model *m, const options *o) {
    view_plan *v = plan_new(texts, tool_compile(m, o, o->graph));
    add_states(v, v->plan, end_of_passes);
    for (int i = pass_at(last_pass); i >= pass_at(first_pass); i--) {
        weft_plan *plan = tool_compile_until(m, o, weft_pass_name(i));
        add_states(v, plan, i == pass_at(first_pass) ? "built" : weft_pass_name(i));
        weft_plan_free(plan);
    }
    for (int i = 0; i < v->n_graphs; i++) finish_graph(&v->graphs[i], &v->plan->programs[i]);
    return v;
}
