/* plan.c - figures of a compiled plan: memory, text, ports, fingerprint, flops. plan_json.c writes it as
 * JSON. */
#include "graph/text/text.h"
#include "runtime/plan/kept.h"
#include "runtime/plan/program.h"
#include "runtime/plan/value.h"

#include "graph/settings/ddp.h"
#include "graph/settings/flow.h"
#include "graph/settings/minimize.h"
#include "graph/settings/precision.h"
#include "ops/structure/collective.h"
#include "ops/work.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- memory ---- */

/* Two walks: a parameter's offset follows from its bucket's, and a bucket is made after its parameters. */
uint64_t store_layout(const weft_plan *plan, uint64_t *offsets, uint64_t bytes_of_kind[VARIABLE_KINDS]) {
    const weft_model *m = plan->model;
    uint64_t total = 0, own = 0;
    for (int k = 0; k < VARIABLE_KINDS; k++) bytes_of_kind[k] = 0;
    for (const weft_variable *v = m->variables; v; v = v->next) {
        if (variable_is_part(v)) continue;
        uint64_t bytes = type_room(&v->type);
        bool is_sessions = variable_is_sessions(v);
        if (offsets) offsets[v->index] = is_sessions ? own : total;
        bytes_of_kind[v->kind] += bytes;
        *(is_sessions ? &own : &total) += bytes;
    }
    for (const weft_variable *v = m->variables; offsets && v; v = v->next)
        if (variable_is_part(v))
            offsets[v->index] = offsets[v->bucket->index] + (uint64_t)v->offset * sizeof(float);
    return total;
}

/* The most scratch that collectives use at once: from the start of each to its wait, whose second operand is
 * the scratch (u8, so elements are bytes). */
static uint64_t communication_bytes(const program *p) {
    uint64_t live = 0, most = 0;
    for (const weft_node *n = p->graph->first; n; n = n->next) {
        if (node_starts_collective(n)) live += (uint64_t)((const collective_attrs *)n->attrs)->scratch;
        if (live > most) most = live;
        if (n->op == &weft_op_wait && n->n_in > 1) live -= (uint64_t)type_elements(&n->in[1]->type); /*  */
    }
    return most;
}

/* Maxima over programs, since they take turns in one arena. A GPU holds two sets of inputs: one is filled
 * while a run reads the other. */
void plan_measure(weft_plan *plan) {
    uint64_t kinds[VARIABLE_KINDS];
    weft_memory *m = &plan->memory;
    uint64_t store = store_layout(plan, NULL, kinds);
    m->parameters = kinds[VARIABLE_PARAMETER] + kinds[VARIABLE_STATE] + kinds[VARIABLE_BUCKET];
    m->gradients = kinds[VARIABLE_GRADIENT];
    m->optimizer = kinds[VARIABLE_OPTIMIZER];
    m->derived = kinds[VARIABLE_DERIVED] + kinds[VARIABLE_CONSTANT];
    for (int i = 0; i < plan->n_programs; i++) {
        const program *p = &plan->programs[i];
        if (p->arena_bytes > m->activations) m->activations = p->arena_bytes;
        if (p->workspace_bytes > m->workspace) m->workspace = p->workspace_bytes;
        uint64_t communication = communication_bytes(p);
        if (communication > m->communication) m->communication = communication;
        uint64_t inputs =
            plan->options.device == WEFT_DEVICE_CPU ? 0 : CUDA_RUN_BYTES + 2 * kept_input_bytes(p);
        if (inputs > m->inputs) m->inputs = inputs;
        m->guard += kept_bytes(p);
    }
    m->in_flight = plan->in_flight_bytes;
    m->total = store + m->derived + m->activations + m->inputs + m->guard;
}

int64_t weft_plan_batch(const weft_plan *plan) {
    return plan ? plan->options.batch : 0;
}

weft_memory weft_plan_memory(const weft_plan *plan) {
    return plan ? plan->memory : (weft_memory){0};
}

/* ---- text ---- */

/* The model's own entries, preceded by the compile option as the entry of the whole model, if the model has
 * none. */
static void precisions_write(text *t, const weft_plan *plan) {
    precision_entry all = {.path = "", .dtype = plan->options.precision};
    if (all.dtype && !precision_at(plan->model, "")) precision_write(t, &all);
    for (const precision_entry *e = plan->model->precisions; e; e = e->next) precision_write(t, e);
}

/* Whether a program has a `minimize` node, which names its optimizer; in whole plans there is none. */
static bool has_minimize(const weft_plan *plan) {
    for (int i = 0; i < plan->n_programs; i++)
        if (graph_trains(plan->programs[i].graph)) return true;
    return false;
}

/* Launches are comments of the dump, because they follow from the schedule. */
static void launches_write(text *t, const program *p) {
    for (int i = 0; i < p->n_launches; i++) {
        const launch_entry *l = &p->launches[i];
        text_add(t, "# launch %d of %s: %s, steps %d to %d, %d nodes", i, p->graph->name,
                 launch_name(l->kind), l->first, l->last, l->n_nodes);
        if (l->waits >= 0) text_add(t, ", after launch %d", l->waits);
        for (int k = 0; k < l->n_in_flight; k++)
            text_add(t, ", after the gather of %s", l->in_flight[k]->path);
        text_add(t, "%s%s%s\n", l->records ? ", records" : "", l->gates ? ", gates" : "",
                 !launch_is_captured(l->kind)   ? ", not captured"
                 : l->kind == LAUNCH_COLLECTIVE ? ", captured over NCCL"
                                                : ", captured");
    }
}

void weft_plan_free(weft_plan *plan) {
    if (!plan || __atomic_fetch_sub(&plan->sessions, 1, __ATOMIC_ACQ_REL) > 0) return;
    weft_env env = plan->env;
    weft_model_free(plan->model);
    mem_free(&env, plan, sizeof *plan);
}

/* Variables, options of subgraphs, precisions, then each program's graph and launches. The caller frees it.
 */
char *weft_plan_text(const weft_plan *plan) {
    text t = {0};
    bytes_written done = {0};
    if (!plan) return NULL;
    arena_init(&done.arena, &plan->env);
    header_write(&t, plan->model);
    for (const weft_variable *v = plan->model->variables; v; v = v->next) variable_write(&t, v);
    for (const ddp_entry *e = plan->model->ddps; e; e = e->next) ddp_write(&t, e);
    precisions_write(&t, plan);
    if (plan->strategy.is_chosen) text_add(&t, "strategy %s\n", plan->strategy.text);
    /* a comment, as it follows from the nodes */
    if (plan->strategy.is_compressed) text_add(&t, "# compressed: other bits in another world\n");
    for (int i = 0; i < plan->n_programs; i++) graph_bytes_write(&t, plan->programs[i].graph, &done);
    arena_free(&done.arena);
    if (flow_find(plan->model, plan->flow_name)) flow_write(&t, plan->flow_name, plan->n_flow, plan->flow);
    if (has_minimize(plan)) own_optimizers_write(&t, plan->model);
    for (int i = 0; i < plan->n_programs; i++) {
        graph_write(&t, plan->programs[i].graph);
        launches_write(&t, &plan->programs[i]);
    }
    return text_detach(&t);
}

/* ---- ports ---- */

static bool fill_port(weft_port *port, const char *name, const weft_value *v) {
    *port = (weft_port){
        .name = name, .dtype = v->type.dtype, .ndim = v->type.ndim, .bytes = type_bytes(&v->type)};
    memcpy(port->shape, v->type.shape, sizeof port->shape);
    return true;
}

/* The graph's first program: all phases but UPDATE, which is never the first, have the same inputs and
 * outputs. */
static const weft_graph *first_program(const weft_plan *plan, const char *graph) {
    for (int i = 0; plan && graph && i < plan->n_programs; i++)
        if (strcmp(plan->programs[i].name, graph) == 0) return plan->programs[i].graph;
    return NULL;
}

bool weft_graph_input(const weft_graph *g, int index, weft_port *port) {
    for (const weft_node *n = g ? g->first : NULL; n; n = n->next) {
        if (n->op != &weft_op_input || index-- != 0) continue;
        fill_port(port, input_name(n), &n->out[0]);
        port->has_batch = attrs_name_batch(n->op, n->attrs);
        return true;
    }
    return false;
}

bool weft_plan_input(const weft_plan *plan, const char *graph, int index, weft_port *port) {
    return weft_graph_input(first_program(plan, graph), index, port);
}

bool weft_plan_output(const weft_plan *plan, const char *graph, int index, weft_port *port) {
    const weft_graph *g = first_program(plan, graph);
    for (const graph_output *o = g ? g->outputs : NULL; o; o = o->next)
        if (index-- == 0) return fill_port(port, o->name, o->value);
    return false;
}

/* ---- notes ---- */

bool plan_add_note(weft_plan *plan, const char *words) {
    arena *memory = &plan->model->arena;
    plan_note **end = &plan->notes, *note = arena_new(memory, sizeof *note);
    if (!note || !(note->text = arena_copy(memory, words))) return false;
    while (*end) end = &(*end)->next;
    *end = note;
    return true;
}

const char *weft_plan_over_ranks(const weft_plan *plan, const char *graph) {
    for (int i = 0; plan && graph && i < plan->n_programs; i++)
        if (strcmp(plan->programs[i].name, graph) == 0) return plan->programs[i].over_ranks;
    return NULL;
}

const char *weft_plan_note(const weft_plan *plan, int index) {
    const plan_note *note = plan && index >= 0 ? plan->notes : NULL;
    while (note && index-- > 0) note = note->next;
    return note ? note->text : NULL;
}

/* ---- the fingerprint ---- */

/* The buckets, and how many elements each rank updates, where it updates any. Shares of a group smaller than
 * the world are left out: another group may cut the same bucket differently. How a strategy sums a bucket is
 * a graph. */
static void shares_write(text *t, const weft_plan *plan) {
    for (const weft_variable *s = plan->model->variables; s; s = s->next) {
        if (s->kind != VARIABLE_BUCKET) continue;
        variable_write(t, s);
        if (s->sum) graph_write(t, s->sum);
        const subgraph *g = &plan->subgraphs[s->subgraph];
        bool is_world = g->n_ranks == plan->options.world;
        for (int r = 0; s->shards && is_world && r < g->n_ranks; r++)
            if (s->shards[r]) text_add(t, "%d:%zu ", r, s->shards[r]);
    }
}

/* Name, path, type and number of each collective in the order of the schedule: nothing that differs between
 * ranks. */
static void collectives_write(text *t, const program *p) {
    text_add(t, "%s\n", p->graph->name);
    for (const weft_node *n = p->graph->first; n; n = n->next) {
        if (!node_starts_collective(n)) continue;
        const collective_attrs *a = n->attrs;
        text_add(t, "%s %s %s %jd\n", n->op->name, a->path, TYPE(&n->out[0].type), a->order);
    }
}

/* The fingerprint covers what all ranks must have in common: model, options, buckets, shares and collectives.
 * It leaves out what belongs to one rank: its updates and its memory. */
bool plan_identify(weft_plan *plan, const weft_model *source) {
    char *model = weft_model_text(source);
    text t = {0};
    for (int i = 0; i < plan->n_agreed; i++)
        text_add(&t, "%s%s=%s", i ? " " : "", plan->agreed[i].name, plan->agreed[i].value);
    text_add(&t, "\n");
    shares_write(&t, plan);
    for (int i = 0; i < plan->n_programs; i++) collectives_write(&t, &plan->programs[i]);
    char *rest = text_detach(&t);
    if (model && rest) plan->fingerprint = hash_text(rest, hash_text(model, 0));
    bool good = model && rest && model_form(source, &plan->form);
    weft_text_free(model);
    free(rest);
    return good;
}

bool plan_trains(const weft_plan *plan) {
    for (int i = 0; i < plan->n_programs; i++)
        if (plan->programs[i].trains) return true;
    return false;
}

bool program_ends_step(const program *p) {
    return p->phase == PHASE_WHOLE || p->phase == PHASE_LAST || p->phase == PHASE_UPDATE;
}

double program_flops(const program *p) {
    double total = 0;
    for (const weft_node *n = p->graph->first; n; n = n->next) total += node_flops(n);
    return total;
}

/* ---- names ---- */

/* A graph's counter is an optimizer's variable, so that it is saved with the optimizer state. */
counter_path counter_path_of(const char *graph) {
    counter_path path;
    snprintf(path.text, sizeof path.text, "optimizer.graph/%s/step", graph);
    return path;
}

const char *const device_words[] = {"cpu", "cuda", NULL};

const char *device_name(weft_device kind) {
    return (unsigned)kind <= WEFT_DEVICE_CUDA ? device_words[kind] : "?";
}
