/* broadcast_buffers.c - DDP's option of that name. Before a training run reads the state of a subgraph with
 * this option (running statistics, for instance), the state becomes what rank 0 of the process group holds:
 *
 *      flat  = concat(the state variables as they are)      at the front of the program
 *      sent  = broadcast(flat)                              on the communication stream from there on
 *      each  = assign(its slice of wait(sent))              before the first node that reads one of them
 *
 * and the run's readers read `each`. One collective carries up to 32 variables. With accumulation, the first
 * micro-batch of a step does this, as torch's DDP does in the first forward after one that synchronized. A
 * reader sees the assigns that are older than itself, by node id (runtime/passes/clean.c). These nodes are
 * made last but placed at the front, so all ids are given again in the order of the list. */
#include "runtime/passes/distribute/collectives.h"
#include "runtime/passes/passes.h"

#include "ops/structure/collective.h"
#include "weft/ops.h"

enum { MOST = 32 /* operands of a concat */ };

/* A node that reads state which must become rank 0's. */
typedef struct shared {
    weft_node *node, *flat; /* the node; the reshape that is sent */
    weft_node *reader;      /* the first node that reads it; NULL: only an output does */
    const subgraph *group;
    int next; /* number of the next one with the same subgraph and type, from 1; 0: none */
    bool is_taken;
} shared;

/* Up to MOST state variables of one type and subgraph, which one broadcast carries. */
typedef struct bundle {
    shared *state[MOST];
    weft_value *flat[MOST]; /* each as a vector [elements] */
    int count;
    const subgraph *group;
} bundle;

typedef struct sharing {
    program *p;
    shared *list; /* list[1] .. list[count], in the order of the nodes */
    int count;
} sharing;

/* The subgraph of the state that `n` reads, if the state must become rank 0's; else NULL. */
static const subgraph *shared_state(const program *p, const weft_node *n) {
    if (n->op != &weft_op_state || n->variable->kind != VARIABLE_STATE) return NULL;
    const subgraph *group = subgraph_of(p->plan, n->variable->path);
    return group && group->ddp.broadcast_buffers ? group : NULL;
}

/* Fills s->list, links those that can travel together, and sets node->mark to places in the list. */
static bool find_shared(sharing *s) {
    weft_graph *g = s->p->graph;
    int *last = scratch_array(g->model, s->p->plan->n_subgraphs * WEFT_DTYPES, sizeof *last);
    int *number = scratch_array(g->model, g->next_id, sizeof *number); /* by id of its value */
    s->list = scratch_array(g->model, g->n_nodes + 1, sizeof *s->list);
    if (!last || !number || !s->list) return false;
    graph_number(g);
    for (weft_node *n = g->first; n; n = n->next) {
        const subgraph *group = shared_state(s->p, n);
        for (int i = 0; i < n->n_in; i++) {
            shared *of = n->in[i] && number[n->in[i]->id] ? &s->list[number[n->in[i]->id]] : NULL;
            if (of && !of->reader) of->reader = n;
        }
        if (!group) continue;
        int *before = &last[(size_t)(group - s->p->plan->subgraphs) * WEFT_DTYPES + n->out[0].type.dtype];
        s->list[++s->count] = (shared){.node = n, .group = group};
        if (*before) s->list[*before].next = s->count;
        number[n->out[0].id] = *before = s->count;
    }
    return true;
}

/* Takes list[first] and those linked to it into b, up to MOST. */
static void take_group(sharing *s, bundle *b, int first) {
    *b = (bundle){.group = s->list[first].group};
    for (int i = first; i && b->count < MOST; i = s->list[i].next) {
        s->list[i].is_taken = true;
        b->state[b->count++] = &s->list[i];
    }
}

/* The last node before the first reader of any of them. */
static weft_node *before_readers(weft_graph *g, const bundle *b) {
    const weft_node *first = NULL;
    for (int i = 0; i < b->count; i++) {
        const weft_node *n = b->state[i]->reader;
        if (n && (!first || n->mark < first->mark)) first = n;
    }
    return first ? first->prev : g->last; /* only outputs read them */
}

/* Adds concat and broadcast. Returns its start, or NULL after an error. */
static weft_value *send(program *p, bundle *b) {
    for (int i = 0; i < b->count; i++) {
        weft_value *v = &b->state[i]->node->out[0];
        b->flat[i] = weft_reshape(v, 1, (int64_t[]){type_elements(&v->type)});
        if (!b->flat[i]) return NULL;
        b->state[i]->flat = b->flat[i]->node;
    }
    return collective_start(p, &weft_op_broadcast, weft_concat(b->count, b->flat, 0), b->group,
                            b->group->name, false);
}

/* Adds the wait and one assign a variable. Readers will read the assign (`mapped`). */
static bool receive(program *p, bundle *b, weft_value *start) {
    weft_value *all = collective_wait(start);
    int64_t at = 0;
    for (int i = 0; i < b->count; i++) {
        weft_value *old = &b->state[i]->node->out[0];
        int64_t end = at + type_elements(&old->type);
        weft_value *own = weft_reshape(weft_slice(all, 0, at, end), old->type.ndim, old->type.shape);
        old->mapped = variable_assign(p->graph, b->state[i]->node->variable, own);
        if (!old->mapped) return false;
        at = end;
    }
    return true;
}

/* *front is the last of the nodes moved to the front so far: the reads of state, and the sends. */
static bool share_buffers(program *p, bundle *b, weft_node **front) {
    weft_graph *g = p->graph;
    for (int i = 0; i < b->count; i++) {
        node_move_after(b->state[i]->node, *front);
        *front = b->state[i]->node;
    }
    weft_node *place = before_readers(g, b);
    bool is_read_at_once = place == *front;
    build_place at;
    build_begin(&at, g, b->group->path, *front);
    weft_value *start = send(p, b);
    *front = g->cursor;
    if (!is_read_at_once) g->cursor = place;
    bool good = start && receive(p, b, start);
    build_end(&at);
    return good;
}

/* Ids in the order of the list, as if the nodes had been built in that order. */
static void number_anew(weft_graph *g) {
    g->next_id = 0;
    for (weft_node *n = g->first; n; n = n->next) {
        n->id = g->next_id;
        for (int k = 0; k < n->n_out; k++) n->out[k].id = g->next_id++;
    }
}

/* The pass. Readers are replaced once for all bundles; then the sends, which were replaced too, get their old
 * operands back. */
bool broadcast_buffers(program *p) {
    weft_graph *g = p->graph;
    weft_node *front = NULL;
    sharing s = {.p = p};
    bundle b;
    bool begins_a_step = p->phase == PHASE_WHOLE || p->phase == PHASE_FIRST;
    if (p->plan->options.world == 1 || g->mode != WEFT_TRAIN || !begins_a_step) return true;
    if (!find_shared(&s)) return false;
    if (!s.count) return true;
    graph_clear_mapped(g);
    for (int i = 1; i <= s.count; i++) {
        if (s.list[i].is_taken) continue;
        take_group(&s, &b, i);
        if (!share_buffers(p, &b, &front)) return false;
    }
    graph_replace_mapped(g);
    for (int i = 1; i <= s.count; i++) /* The send itself reads the state as it was, not the assign. */
        s.list[i].flat->in[0] = &s.list[i].node->out[0];
    number_anew(g);
    return graph_order_edges(g);
}
