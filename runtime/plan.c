/* plan.c - a compiled plan's figures and faces: memory, text, JSON, proof. */
#include "runtime/program.h"

#include "ops/collective.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- memory ---- */

bool variable_is_held(const weft_plan *plan, const weft_variable *v) {
    return v->kind != VARIABLE_OPTIMIZER || !v->owner || v->owner == plan->options.rank + 1;
}

uint64_t store_layout(const weft_plan *plan, uint64_t *offsets, uint64_t bytes_of_kind[VARIABLE_KINDS]) {
    const weft_model *m = plan->model;
    uint64_t total = 0;
    for (int k = 0; k < VARIABLE_KINDS; k++) bytes_of_kind[k] = 0;
    for (const weft_variable *v = m->variables; v; v = v->next) {
        if ((v->kind == VARIABLE_PARAMETER && v->segment) || !variable_is_held(plan, v)) continue;
        uint64_t bytes = size_align(type_bytes(&v->type), MEM_ALIGN);
        bool derived = v->kind == VARIABLE_DERIVED;
        if (offsets) offsets[v->index] = derived ? bytes_of_kind[v->kind] : total;
        bytes_of_kind[v->kind] += bytes;
        if (!derived) total += bytes;
    }
    for (const weft_variable *v = m->variables; offsets && v; v = v->next)
        if (v->kind == VARIABLE_PARAMETER && v->segment)
            offsets[v->index] = offsets[v->segment->index] + (uint64_t)v->offset * sizeof(float);
    return total;
}

/* Scratch of collectives, at the moment when most of it is in use. */
static uint64_t communication_bytes(const program *p) {
    uint64_t live = 0, most = 0;
    for (const weft_node *n = p->graph->first; n; n = n->next) {
        if (node_starts_collective(n)) live += (uint64_t)((const collective_attrs *)n->attrs)->scratch;
        if (live > most) most = live;
        if (n->op == &weft_op_wait) live -= (uint64_t)type_elements(&n->in[1]->type); /* u8 */
    }
    return most;
}

bool plan_measure(weft_plan *plan) {
    uint64_t kinds[VARIABLE_KINDS];
    weft_memory *m = &plan->memory;
    uint64_t store = store_layout(plan, NULL, kinds);
    m->parameters = kinds[VARIABLE_PARAMETER] + kinds[VARIABLE_STATE] + kinds[VARIABLE_SEGMENT];
    m->gradients = kinds[VARIABLE_GRADIENT];
    m->optimizer = kinds[VARIABLE_OPTIMIZER];
    m->derived = kinds[VARIABLE_DERIVED];
    for (int i = 0; i < plan->n_programs; i++) {
        const program *p = &plan->programs[i];
        if (p->arena_bytes > m->activations) m->activations = p->arena_bytes;
        if (p->workspace_bytes > m->workspace) m->workspace = p->workspace_bytes;
        uint64_t communication = communication_bytes(p);
        if (communication > m->communication) m->communication = communication;
    }
    m->total = store + m->derived + m->activations;
    return true;
}

weft_memory weft_plan_memory(const weft_plan *plan) {
    return plan ? plan->memory : (weft_memory){0};
}

/* ---- text ---- */

char *weft_plan_text(const weft_plan *plan) {
    text t = {0};
    if (!plan) return NULL;
    text_add(&t, "model %s batch=%lld\n", plan->model->name, (long long)plan->options.batch);
    for (const weft_variable *v = plan->model->variables; v; v = v->next) variable_write(&t, v);
    for (int i = 0; i < plan->n_programs; i++) graph_write(&t, plan->programs[i].graph);
    return text_take(&t);
}

/* ---- ports ---- */

static bool fill_port(weft_port *port, const char *name, const weft_value *v) {
    *port = (weft_port){
        .name = name, .dtype = v->type.dtype, .ndim = v->type.ndim, .bytes = type_bytes(&v->type)};
    memcpy(port->shape, v->type.shape, sizeof port->shape);
    return true;
}

static const weft_graph *any_program(const weft_plan *plan, const char *graph) {
    for (int i = 0; plan && graph && i < plan->n_programs; i++)
        if (strcmp(plan->programs[i].name, graph) == 0) return plan->programs[i].graph;
    return NULL;
}

bool weft_plan_input(const weft_plan *plan, const char *graph, int index, weft_port *port) {
    const weft_graph *g = any_program(plan, graph);
    for (const weft_node *n = g ? g->first : NULL; n; n = n->next)
        if (n->op == &weft_op_input && index-- == 0) return fill_port(port, input_name(n), &n->out[0]);
    return false;
}

bool weft_plan_output(const weft_plan *plan, const char *graph, int index, weft_port *port) {
    const weft_graph *g = any_program(plan, graph);
    for (const graph_output *o = g ? g->outputs : NULL; o; o = o->next)
        if (index-- == 0) return fill_port(port, o->name, o->value);
    return false;
}

/* ---- proof ---- */

weft_status weft_plan_verify(const weft_plan *plan, weft_error *error) {
    if (!plan || !plan->can_run)
        return error_set(error, WEFT_ORDER, "verify: the plan was stopped early and is not whole");
    for (int i = 0; i < plan->n_programs; i++) {
        weft_status status = verify_program(&plan->programs[i], error);
        if (status) return status;
    }
    return WEFT_OK;
}

/* ---- JSON: stable keys, documented in docs/graphtool.md ---- */

static json_t *memory_json(const weft_memory *m) {
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "parameters", (json_int_t)m->parameters,
                     "gradients", (json_int_t)m->gradients, "optimizer", (json_int_t)m->optimizer, "derived",
                     (json_int_t)m->derived, "activations", (json_int_t)m->activations, "workspace",
                     (json_int_t)m->workspace, "communication", (json_int_t)m->communication, "total",
                     (json_int_t)m->total);
}

static json_t *bucket_json(const weft_variable *s) {
    json_t *members = json_array();
    for (int i = 0; i < s->n_members; i++) json_array_append_new(members, json_string(s->members[i]->path));
    return json_pack("{s:s, s:I, s:o}", "id", s->path, "bytes", (json_int_t)type_bytes(&s->type),
                     "parameters", members);
}

static json_t *subgraph_json(const weft_plan *plan, const char *name, size_t length) {
    const weft_model *m = plan->model;
    bool is_shared = plan->options.world > 1;
    json_int_t parameters = 0, bytes = 0;
    json_t *buckets = json_array();
    for (const weft_variable *v = m->variables; v; v = v->next) {
        if (strncmp(v->path, name, length)) continue;
        if (v->kind == VARIABLE_PARAMETER && v->path[length] == '/') {
            parameters += type_elements(&v->type);
            bytes += (json_int_t)type_bytes(&v->type);
        }
        if (v->kind == VARIABLE_SEGMENT && v->path[length] == '.')
            json_array_append_new(buckets, bucket_json(v));
    }
    return json_pack("{s:s#, s:I, s:I, s:b, s:i, s:o}", "name", name, (int)length, "parameters", parameters,
                     "bytes", bytes, "ddp", is_shared && json_array_size(buckets), "zero",
                     is_shared ? plan->options.zero : 0, "buckets", buckets);
}

static bool is_new_subgraph(const weft_model *m, const weft_variable *v, size_t length) {
    for (const weft_variable *w = m->variables; w != v; w = w->next)
        if (w->kind == VARIABLE_PARAMETER && strncmp(w->path, v->path, length + 1) == 0) return false;
    return v->path[length] == '/';
}

/* The gradient whose node ends last before a collective can start: down through buckets and sums over micro-batches. */
const weft_node *plan_ready_after(const weft_node *n) {
    while (n->is_update || node_is_silent(n)) {
        const weft_node *latest = NULL;
        for (int i = 0; i < n->n_in; i++) {
            const weft_node *from = n->in[i] ? n->in[i]->node : NULL;
            if (from && !(from->op->flags & OP_IS_VARIABLE) && (!latest || from->order > latest->order))
                latest = from;
        }
        if (!latest) return n;
        n = latest;
    }
    return n;
}

/* The first node behind `wait` that reads what it gives, perhaps through views; NULL: none. */
static const weft_node *needed_by(const weft_node *wait) {
    for (const weft_node *n = wait->next; n; n = n->next)
        for (int i = 0; i < n->n_in && !node_is_silent(n); i++)
            for (const weft_value *v = n->in[i]; v; v = v->base)
                if (v == &wait->out[0]) return n;
    return NULL;
}

static json_t *collective_json(const weft_node *n) {
    char ready[200], needed[200] = "";
    const collective_attrs *a = n->attrs;
    const weft_node *wait = n->next;
    while (wait && (wait->op != &weft_op_wait || wait->in[0]->node != n)) wait = wait->next;
    const weft_node *reader = wait ? needed_by(wait) : NULL;
    if (reader) node_show(reader, needed);
    return json_pack("{s:I, s:s, s:s#, s:s, s:I, s:s, s:s, s:i}", "order", (json_int_t)a->order, "op",
                     n->op->name, "subgraph", a->path, (int)strcspn(a->path, "."), "bucket", a->path, "bytes",
                     (json_int_t)type_bytes(&n->in[0]->type), "ready_after",
                     node_show(plan_ready_after(n->in[0]->node), ready), "needed_by", needed, "nodes_between",
                     wait ? wait->order - n->order - 1 : 0);
}

static json_t *graph_json(const program *p) {
    static const char *const phases[] = {"whole", "first", "add", "last"};
    json_t *collectives = json_array();
    for (const weft_node *n = p->graph->first; n; n = n->next)
        if (node_starts_collective(n)) json_array_append_new(collectives, collective_json(n));
    int nodes = graph_node_count(p->graph), moved = (int)json_array_size(collectives);
    json_t *lanes = json_pack("[{s:s, s:i}]", "name", "compute", "nodes", nodes - moved);
    if (moved) json_array_append_new(lanes, json_pack("{s:s, s:i}", "name", "communication", "nodes", moved));
    return json_pack("{s:s, s:s, s:s, s:i, s:o, s:o, s:I, s:I}", "name", p->name, "mode",
                     p->graph->mode == WEFT_TRAIN ? "train" : "eval", "phase", phases[p->phase], "nodes",
                     nodes, "collectives", collectives, "lanes", lanes, "peak_bytes",
                     (json_int_t)p->arena_bytes, "flops", (json_int_t)program_flops(p));
}

char *weft_plan_json(const weft_plan *plan) {
    if (!plan) return NULL;
    json_t *subgraphs = json_array(), *graphs = json_array();
    for (const weft_variable *v = plan->model->variables; v; v = v->next) {
        size_t length = strcspn(v->path, "/");
        if (v->kind == VARIABLE_PARAMETER && is_new_subgraph(plan->model, v, length))
            json_array_append_new(subgraphs, subgraph_json(plan, v->path, length));
    }
    for (int i = 0; i < plan->n_programs; i++) json_array_append_new(graphs, graph_json(&plan->programs[i]));
    char fingerprint[20];
    snprintf(fingerprint, sizeof fingerprint, "%016llx", (unsigned long long)plan_fingerprint(plan));
    json_t *root = json_pack("{s:i, s:i, s:s, s:s, s:I, s:i, s:s, s:o, s:o, s:o, s:[]}", "world",
                             plan->options.world, "rank", plan->options.rank, "fingerprint", fingerprint,
                             "model", plan->model->name, "batch", (json_int_t)plan->options.batch, "threads",
                             plan->options.threads, "isa", isa_name(plan->options.isa), "subgraphs",
                             subgraphs, "graphs", graphs, "memory", memory_json(&plan->memory), "unused");
    char *text = root ? json_dumps(root, JSON_INDENT(2)) : NULL;
    json_decref(root);
    return text;
}

/* ---- figures from the nodes ---- */

/* The hash of the whole text: model, layouts, kernels, order and places. */
uint64_t plan_fingerprint(const weft_plan *plan) {
    char *text = weft_plan_text(plan);
    uint64_t hash = text ? hash_text(text, (uint64_t)plan->options.threads) : 0;
    free(text);
    return hash;
}
