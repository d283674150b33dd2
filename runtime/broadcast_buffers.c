/* broadcast_buffers.c - DDP's option of that name: before a training run reads state of a subgraph that has it (running
 * statistics, say), that state becomes what rank 0 of the process group holds.
 *
 *     flat  = concat(the state variables as they are)      at the front of the program
 *     sent  = broadcast(flat)                              on the communication lane from there on
 *     each  = assign(its slice of wait(sent))              before the first node that reads one of them
 *
 * and `each` is what the run's readers read. One collective carries up to 32 variables. With accumulation the first
 * micro-batch of a step does it, as torch's DDP does in the first forward behind one that synchronized.
 * What a reader sees of a variable goes by ids (graph/order.c: it sees the assigns that are older than itself), so ids
 * are given anew in the order of the list once these nodes, made last, stand in front.
 */
#include "runtime/collectives.h"

#include "ops/collective.h"
#include "weft/ops.h"

enum { MOST = 32 /* operands of a concat */ };

/* State variables of one type and subgraph that travel together. */
typedef struct flock {
    weft_node *state[MOST]; /* the nodes that read them */
    weft_value *flat[MOST]; /* as vectors */
    int count;
    const subgraph *group;
} flock;

/* The subgraph of state that `n` reads, if that is to be rank 0's; else NULL. */
static const subgraph *shared_state(const program *p, const weft_node *n) {
    if (n->op != &weft_op_state || n->variable->kind != VARIABLE_STATE) return NULL;
    const subgraph *group = subgraph_of(p->plan, n->variable->path);
    return group && group->ddp.broadcast_buffers ? group : NULL;
}

static bool travels_with(const flock *f, const weft_node *n, const subgraph *group) {
    return f->count == 0 || (group == f->group && n->out[0].type.dtype == f->state[0]->out[0].type.dtype);
}

/* The next that can travel together, of those not taken before (node->mark). */
static void take(const program *p, flock *f) {
    f->count = 0;
    for (weft_node *n = p->graph->first; n && f->count < MOST; n = n->next) {
        const subgraph *group = n->mark ? NULL : shared_state(p, n);
        if (!group || !travels_with(f, n, group)) continue;
        f->group = group;
        f->state[f->count++] = n;
        n->mark = 1;
    }
}

static bool is_of(const flock *f, const weft_value *v) {
    for (int i = 0; i < f->count; i++)
        if (v == &f->state[i]->out[0]) return true;
    return false;
}

/* The last node before the first that reads one of them. */
static weft_node *before_readers(weft_graph *g, const flock *f) {
    for (weft_node *n = g->first; n; n = n->next)
        for (int i = 0; i < n->n_in; i++)
            if (n->in[i] && is_of(f, n->in[i])) return n->prev;
    return g->last; /* an output alone */
}

/* The start of their broadcast; NULL after an error. */
static weft_value *send(program *p, flock *f) {
    for (int i = 0; i < f->count; i++) {
        weft_value *v = &f->state[i]->out[0];
        f->flat[i] = weft_reshape(v, 1, (int64_t[]){type_elements(&v->type)});
        if (!f->flat[i]) return NULL;
    }
    return collective_start(p, &weft_op_broadcast, weft_concat(f->count, f->flat, 0), f->group,
                            f->group->name, false);
}

/* Waits; the variables become what came, and that is what readers read. */
static bool receive(program *p, flock *f, weft_value *start) {
    weft_value *all = collective_wait(start);
    int64_t at = 0;
    for (int i = 0; i < f->count; i++) {
        weft_value *old = &f->state[i]->out[0];
        int64_t end = at + type_elements(&old->type);
        weft_value *own = weft_reshape(weft_slice(all, 0, at, end), old->type.ndim, old->type.shape);
        variable_attrs a = {f->state[i]->variable->path};
        weft_value *now = own ? node_value(p->graph, &weft_op_assign, 1, &own, &a) : NULL;
        if (!now) return false;
        graph_replace(p->graph, old, now);
        f->flat[i]->node->in[0] = old; /* what is sent is what was there */
        at = end;
    }
    return true;
}

/* `front` is the last of the nodes that stand before everything else: reads of state, and what sends it. */
static bool share(program *p, flock *f, weft_node **front) {
    weft_graph *g = p->graph;
    for (int i = 0; i < f->count; i++) {
        node_move_after(f->state[i], *front);
        *front = f->state[i];
    }
    weft_node *place = before_readers(g, f);
    bool is_read_at_once = place == *front;
    scope_entry here = {.path = f->group->path}, *above = g->scope;
    g->scope = &here;
    g->cursor = *front;
    weft_value *start = send(p, f);
    *front = g->cursor;
    if (!is_read_at_once) g->cursor = place;
    bool good = start && receive(p, f, start);
    g->scope = above;
    g->cursor = NULL;
    return good;
}

static void number_anew(weft_graph *g) {
    g->next_id = 0;
    for (weft_node *n = g->first; n; n = n->next) {
        n->id = g->next_id;
        for (int k = 0; k < n->n_out; k++) n->out[k].id = g->next_id++;
    }
}

bool broadcast_buffers(program *p) {
    weft_graph *g = p->graph;
    weft_node *front = NULL;
    flock f;
    bool begins_a_step = p->phase == PHASE_WHOLE || p->phase == PHASE_FIRST;
    if (p->plan->options.world == 1 || g->mode != WEFT_TRAIN || !begins_a_step) return true;
    for (weft_node *n = g->first; n; n = n->next) n->mark = 0;
    take(p, &f);
    if (!f.count) return true;
    for (; f.count; take(p, &f))
        if (!share(p, &f, &front)) return false;
    number_anew(g);
    return graph_order_edges(g);
}
