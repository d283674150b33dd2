/* launches.c - for GPUs: cuts the schedule into launches (plan/launches.h). */
#include "runtime/plan/launches.h"

#include "ops/structure/collective.h"
#include "runtime/plan/program.h"
#include "runtime/passes/passes.h"
#include "runtime/plan/value.h"

/* The state of the cut, node by node in the order of the schedule. */
typedef struct cutter {
    program *p;
    int *launch_of; /* by order of a collective: its launch */
    int compute;    /* index of the last launch of the compute stream; -1: none */
    bool is_open;   /* that launch can take more nodes */
    int awaited;    /* launch that the next one on the compute stream must wait for; -1: none */
    bool *arrived;  /* by index of a bucket: a launch has waited for its gather already */
} cutter;

static launch_entry *add_launch(cutter *c, launch_kind kind, int order) {
    program *p = c->p;
    p->launches[p->n_launches] = (launch_entry){.kind = kind, .first = order, .last = order, .waits = -1};
    return &p->launches[p->n_launches++];
}

/* The sharded bucket whose memory holds v; NULL: none. */
static const weft_variable *sharded_bucket(const weft_value *v) {
    const weft_variable *root = v ? value_root(v)->variable : NULL;
    if (!root) return NULL;
    const weft_variable *s = variable_is_part(root) ? root->bucket : root;
    return s->kind == VARIABLE_BUCKET && s->shards ? s : NULL;
}

/* Buckets that n is the first to touch, put into list[n_in + n_out]; returns how many. */
static int newcomers(cutter *c, const weft_node *n, const weft_variable **list) {
    int count = 0;
    for (int i = 0; i < n->n_in + n->n_out; i++) {
        const weft_variable *s = sharded_bucket(node_value_at(n, i));
        if (!s || c->arrived[s->index]) continue;
        c->arrived[s->index] = true;
        list[count++] = s;
    }
    return count;
}

/* A collective waits for all nodes before it in the schedule, so the compute launch ends there. */
static void cut_collective(cutter *c, const weft_node *n) {
    launch_entry *l = add_launch(c, LAUNCH_COLLECTIVE, n->order);
    l->n_nodes = 1;
    l->waits = c->compute;
    if (c->compute >= 0) c->p->launches[c->compute].records = true;
    c->launch_of[((const collective_attrs *)n->attrs)->order] = c->p->n_launches - 1;
    c->is_open = false;
}

/* A new launch of the compute stream. It waits for c->awaited, which records an event. */
static launch_entry *open_compute(cutter *c, launch_kind kind, int order) {
    launch_entry *l = add_launch(c, kind, order);
    c->compute = c->p->n_launches - 1;
    c->is_open = true;
    l->waits = c->awaited;
    if (c->awaited >= 0) c->p->launches[c->awaited].records = true;
    c->awaited = -1;
    return l;
}

/* Adds n to the open launch, or opens one: where the kind changes, a collective must be awaited, or a gather
 * of an earlier run. A launch ends with the gate. */
static bool cut_compute(cutter *c, const weft_node *n, launch_kind kind) {
    const weft_variable **list = model_array(n->graph->model, n->n_in + n->n_out, sizeof *list);
    if (!list) return false;
    int count = newcomers(c, n, list);
    launch_entry *l = c->compute >= 0 ? &c->p->launches[c->compute] : NULL;
    if (!c->is_open || l->kind != kind || c->awaited >= 0 || count) {
        l = open_compute(c, kind, n->order);
        l->n_in_flight = count;
        l->in_flight = list;
    }
    l->last = n->order;
    l->n_nodes++;
    l->gates = n->op == &weft_op_gate;
    if (l->gates) c->is_open = false;
    return true;
}

/* The last launch may have no nodes: it only waits, so that the run ends after its collectives. */
bool pass_launches(program *p) {
    weft_graph *g = p->graph;
    weft_model *m = g->model;
    if (p->plan->options.device == WEFT_DEVICE_CPU) return true;
    cutter c = {.p = p, .compute = -1, .awaited = -1};
    p->launches = model_array(m, g->n_nodes + 1, sizeof *p->launches);
    c.launch_of = scratch_array(m, p->n_collectives, sizeof *c.launch_of);
    c.arrived = scratch_array(m, m->n_variables, sizeof *c.arrived);
    if (!p->launches || !c.launch_of || !c.arrived) return false;
    for (weft_node *n = g->first; n; n = n->next) {
        launch_kind kind;
        if (n->op == &weft_op_wait) {
            int of = c.launch_of[((const collective_attrs *)n->in[0]->node->attrs)->order];
            /* the stream is first in, first out: waiting for the latest is enough */
            if (of > c.awaited) c.awaited = of;
        } else if (launch_kind_of(n, &kind)) {
            if (kind == LAUNCH_COLLECTIVE)
                cut_collective(&c, n);
            else if (!cut_compute(&c, n, kind))
                return false;
        }
    }
    if (c.awaited >= 0) open_compute(&c, LAUNCH_COMPUTE, g->last->order);
    return true;
}
