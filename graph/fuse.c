/* fuse.c - pointwise nodes that feed each other become one `fused` node, run tile by tile.
 *
 * A group has one shape (that of its results). Walking front to back, a pointwise node joins the group of one of
 * its operands when no other operand depends on that group from outside of it (the group stays convex, so the
 * fused node can stand where its last member stood) and the limits on operands and members hold.
 * Dependence is kept as one bit a group in each value's `reach` row.
 */
#include "graph/precision.h"

#include <string.h>

typedef struct group {
    int n_nodes, n_in;
    weft_node *nodes[FUSED_MAX_BODY];
    weft_value *in[FUSED_MAX_IN];
    tensor_type type; /* shape of every result */
} group;

typedef struct fuser {
    weft_graph *g;
    group **groups;
    int n_groups;
    size_t row;      /* 64-bit words in a reach row */
    uint64_t *reach; /* reach[node mark * row + ...]: groups that the node depends on, its own included */
    int *group_of;   /* by node mark; -1: none */
} fuser;

static bool is_fusable(const weft_node *n) {
    return (n->op->flags & OP_POINTWISE) && !(n->op->flags & (OP_EFFECT | OP_RANDOM)) && n->op->scalar &&
           n->n_out == 1 && n->n_in <= 3 && n->out[0].type.dtype != WEFT_F64 && !casts_parameter(n);
}

static uint64_t *reach_of(fuser *f, const weft_node *n) {
    return f->reach + (size_t)n->mark * f->row;
}

static bool has_bit(const uint64_t *row, int bit) {
    return row[bit / 64] >> (bit % 64) & 1;
}

static bool in_group(const group *p, const weft_value *v) {
    for (int i = 0; i < p->n_nodes; i++)
        if (v->node == p->nodes[i]) return true;
    return false;
}

/* Operands of `n` that would come from outside the group and are not among its operands yet. */
static int new_operands(const group *p, const weft_node *n, weft_value **list) {
    int count = 0;
    for (int i = 0; i < n->n_in; i++) {
        bool known = in_group(p, n->in[i]);
        for (int k = 0; k < p->n_in; k++) known |= p->in[k] == n->in[i];
        for (int k = 0; k < count; k++) known |= list[k] == n->in[i];
        if (!known) list[count++] = n->in[i];
    }
    return count;
}

static bool can_join(fuser *f, int index, const weft_node *n) {
    const group *p = f->groups[index];
    weft_value *more[4];
    if (!shape_equal(&p->type, &n->out[0].type) || p->n_nodes == FUSED_MAX_BODY) return false;
    if (p->nodes[0]->is_update != n->is_update) return false;
    if (p->n_in + new_operands(p, n, more) > FUSED_MAX_IN) return false;
    for (int i = 0; i < n->n_in; i++)
        if (!in_group(p, n->in[i]) && has_bit(reach_of(f, n->in[i]->node), index)) return false;
    return true;
}

static void join(fuser *f, int index, weft_node *n) {
    group *p = f->groups[index];
    weft_value *more[4];
    int count = new_operands(p, n, more);
    for (int i = 0; i < count; i++) p->in[p->n_in++] = more[i];
    p->nodes[p->n_nodes++] = n;
    f->group_of[n->mark] = index;
}

static bool start_group(fuser *f, weft_node *n) {
    group *p = arena_new(&f->g->model->arena, sizeof *p);
    if (!p) return model_fail(f->g->model, f->g, WEFT_MEMORY, "fuse: memory could not be had");
    p->type = n->out[0].type;
    f->groups[f->n_groups] = p;
    join(f, f->n_groups++, n);
    return true;
}

static bool place_node(fuser *f, weft_node *n) {
    uint64_t *reach = reach_of(f, n);
    f->group_of[n->mark] = -1;
    if (is_fusable(n)) {
        int into = -1;
        for (int i = 0; i < n->n_in && into < 0; i++) {
            int candidate = f->group_of[n->in[i]->node->mark];
            if (candidate >= 0 && can_join(f, candidate, n)) into = candidate;
        }
        if (into >= 0)
            join(f, into, n);
        else if (!start_group(f, n))
            return false;
    }
    for (int i = 0; i < n->n_in; i++)
        for (size_t w = 0; n->in[i] && w < f->row; w++) reach[w] |= reach_of(f, n->in[i]->node)[w];
    for (int i = 0; i < n->n_after; i++)
        for (size_t w = 0; w < f->row; w++) reach[w] |= reach_of(f, n->after[i])[w];
    int own = f->group_of[n->mark];
    if (own < 0) return true;
    /* What a group depends on, all that depends on the group depends on from now on: it runs as one. */
    reach[own / 64] |= (uint64_t)1 << (own % 64);
    for (weft_node *m = f->g->first; m != n; m = m->next)
        if (has_bit(reach_of(f, m), own))
            for (size_t w = 0; w < f->row; w++) reach_of(f, m)[w] |= reach[w];
    return true;
}

/* ---- groups become nodes ---- */

static bool is_used_outside(const group *p, const weft_value *v, const weft_graph *g) {
    for (const graph_output *o = g->outputs; o; o = o->next)
        if (o->value == v) return true;
    int inside = 0;
    for (int i = 0; i < p->n_nodes; i++)
        for (int k = 0; k < p->nodes[i]->n_in; k++) inside += p->nodes[i]->in[k] == v;
    return v->uses > inside;
}

/* The fused node takes over the members' values that are used outside: their ids and users stay. */
static bool make_node(weft_graph *g, group *p) {
    arena *a = &g->model->arena;
    weft_node *last = p->nodes[p->n_nodes - 1], *n = arena_new(a, sizeof *n);
    weft_value *outside[FUSED_MAX_BODY];
    int n_out = 0;
    for (int i = 0; i < p->n_nodes; i++)
        if (is_used_outside(p, &p->nodes[i]->out[0], g)) outside[n_out++] = &p->nodes[i]->out[0];
    if (!n) return model_fail(g->model, g, WEFT_MEMORY, "fuse: memory could not be had");
    *n = *last;
    n->n_after = 0;
    n->op = &weft_op_fused;
    n->n_in = p->n_in;
    n->n_out = n_out;
    n->n_body = p->n_nodes;
    n->in = arena_new_array(a, (size_t)p->n_in + 1, sizeof *n->in);
    n->out = arena_new_array(a, (size_t)n_out, sizeof *n->out);
    n->body = arena_new_array(a, (size_t)p->n_nodes, sizeof *n->body);
    n->body_out = arena_new_array(a, (size_t)n_out, sizeof *n->body_out);
    n->attrs = arena_new(a, 16);
    if (!n->in || !n->out || !n->body || !n->body_out || !n->attrs)
        return model_fail(g->model, g, WEFT_MEMORY, "fuse: memory could not be had");
    memcpy(n->in, p->in, (size_t)p->n_in * sizeof *n->in);
    memcpy(n->body, p->nodes, (size_t)p->n_nodes * sizeof *n->body);
    n->prev = last->prev;
    n->next = last;
    if (last->prev)
        last->prev->next = n;
    else
        g->first = n;
    last->prev = n;
    for (int k = 0; k < n_out; k++) {
        n->out[k] = *outside[k];
        n->out[k].node = n;
        n->out[k].index = k;
        n->body_out[k] = outside[k];
        outside[k]->mapped = &n->out[k];
    }
    n->id = n_out ? n->out[0].id : last->id;
    for (int i = 0; i < p->n_nodes; i++) {
        p->nodes[i]->fused = n;
        node_remove(p->nodes[i]);
    }
    return true;
}

/* Readers outside a group name the fused node's results; members keep naming each other. */
static void redirect(weft_graph *g) {
    for (weft_node *n = g->first; n; n = n->next) {
        for (int i = 0; i < n->n_after; i++)
            if (n->after[i]->fused) n->after[i] = n->after[i]->fused;
        for (int i = 0; i < n->n_in; i++)
            if (n->in[i] && n->in[i]->mapped) {
                weft_value *to = n->in[i]->mapped;
                for (int b = 0; b < n->n_body; b++)
                    for (int k = 0; k < n->body[b]->n_in; k++)
                        if (n->body[b]->in[k] == n->in[i]) n->body[b]->in[k] = to;
                n->in[i] = to;
            }
    }
    for (graph_output *o = g->outputs; o; o = o->next)
        if (o->value->mapped) o->value = o->value->mapped;
}

bool pass_fuse(weft_graph *g) {
    fuser f = {.g = g};
    arena *a = &g->model->arena;
    size_t count = 0, candidates = 0;
    for (weft_node *n = g->first; n; n = n->next) {
        n->mark = (int64_t)count++;
        candidates += is_fusable(n);
        for (int k = 0; k < n->n_out; k++) n->out[k].mapped = NULL;
    }
    f.row = candidates / 64 + 1;
    f.groups = arena_new_array(a, candidates + 1, sizeof *f.groups);
    f.group_of = arena_new_array(a, count + 1, sizeof *f.group_of);
    size_t words;
    if (!size_mul(&words, count + 1, f.row) || !(f.reach = mem_new_array(&g->model->env, words, 8)) ||
        !f.groups || !f.group_of)
        return model_fail(g->model, g, WEFT_MEMORY, "fuse: memory could not be had");
    graph_count_uses(g);
    bool good = true;
    for (weft_node *n = g->first; good && n; n = n->next) good = place_node(&f, n);
    mem_free(&g->model->env, f.reach, words * 8);
    for (int i = 0; good && i < f.n_groups; i++)
        if (f.groups[i]->n_nodes > 1) good = make_node(g, f.groups[i]);
    if (!good) return false;
    redirect(g);
    return graph_sort(g);
}
