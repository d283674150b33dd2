/* lane_order.c - what goes when on the communication lane, so that the next forward hides its share. The lane is first in,
 * first out. The forward is a third of a step:
 *
 *   sums     without ZeRO all bytes would go in the backward. Every third sum is put off behind all others instead, and so are its
 *            wait and its update: a tail (tails.c) that ends while the next forward runs, those it needs first going first.
 *   gathers  of ZeRO all hide behind the next forward, half of the bytes. Every third goes behind the third sum after its
 *            own instead, with the update before it.
 *
 * Every third, not one third of them in a row: the forward reads parameters in turn, and finds the next one there each time. With 20
 * buckets and a link as fast as the compute, a model of the two lanes says 8% exposed with sums put off and 37% without, 10%
 * with early gathers and 21% without. Nothing moves where all gradients decide together (a clipped norm, f16's loss scale), nor
 * where several graphs train (a GAN): behind each comes another's forward, which hides all that it does not read.
 */
#include "runtime/program.h"

#include "ops/collective.h"
#include "ops/update.h"

#include <stdlib.h>

enum {
    EVERY = 3,
    BEHIND = 3, /* sums that begin before an early gather's sum must have ended */
    AT_ONCE = 2 /* the last sums, which the next forward needs first: not put off, no gather before them */
};

static bool is_sum(const weft_node *n, const weft_op *op) {
    return n->op == op && n->is_update && n->variable && n->variable->kind == VARIABLE_SEGMENT;
}

static bool decides_together(const weft_graph *g) {
    for (const weft_node *n = g->first; n; n = n->next)
        if (n->op == &weft_op_root_sum) return true;
    return false;
}

/* What is moved in a list: node->mark is a node's place before any moves, node->order goes up along the list at all times. */
typedef struct mover {
    weft_graph *g;
    int count;
    weft_node **nodes; /* those to move, marked in is_marked */
    int n_nodes;
    bool *is_marked;    /* by place */
    weft_node **gather; /* by index of a segment */
    int *users, *first; /* by place: users[first[i]] to users[first[i + 1]] wait for node i */
    weft_node **at;     /* by place */
    int end;            /* the largest order */
} mover;

static weft_node *need_of(const weft_node *n, int i) {
    return i >= n->n_in ? n->after[i - n->n_in] : n->in[i] ? n->in[i]->node : NULL;
}

static bool mover_open(mover *m, weft_graph *g) {
    arena *a = &g->model->arena;
    size_t edges = 0, room = (size_t)graph_node_count(g) + 2;
    *m = (mover){.g = g};
    for (const weft_node *n = g->first; n; n = n->next) edges += (size_t)(n->n_in + n->n_after);
    m->nodes = arena_new_array(a, room, sizeof *m->nodes);
    m->is_marked = arena_new_array(a, room, sizeof *m->is_marked);
    m->gather = arena_new_array(a, (size_t)g->model->n_variables + 1, sizeof *m->gather);
    m->users = arena_new_array(a, edges + 1, sizeof *m->users);
    m->first = arena_new_array(a, room, sizeof *m->first);
    m->at = arena_new_array(a, room, sizeof *m->at);
    if (!m->nodes || !m->is_marked || !m->gather || !m->users || !m->first || !m->at)
        return model_fail(g->model, g, WEFT_MEMORY, "schedule: memory could not be had");
    for (weft_node *n = g->first; n; n = n->next) {
        n->mark = n->order = m->count;
        m->at[m->count++] = n;
        if (n->op == &weft_op_all_gather) m->gather[n->variable->index] = n;
    }
    m->end = m->count;
    return true;
}

/* Who waits for whom, counted, then filled in from the end of each one's part. */
static void find_users(mover *m) {
    for (int i = 0; i < m->count; i++)
        for (int k = 0; k < m->at[i]->n_in + m->at[i]->n_after; k++)
            if (need_of(m->at[i], k)) m->first[need_of(m->at[i], k)->mark]++;
    for (int i = 1; i <= m->count; i++) m->first[i] += m->first[i - 1];
    for (int i = m->count; i--;)
        for (int k = 0; k < m->at[i]->n_in + m->at[i]->n_after; k++)
            if (need_of(m->at[i], k)) m->users[--m->first[need_of(m->at[i], k)->mark]] = i;
}

static void mark(mover *m, weft_node *n) {
    if (m->is_marked[n->mark]) return;
    m->is_marked[n->mark] = true;
    m->nodes[m->n_nodes++] = n;
}

static void unmark_all(mover *m) {
    while (m->n_nodes) m->is_marked[m->nodes[--m->n_nodes]->mark] = false;
}

static int by_order(const void *pa, const void *pb) {
    const weft_node *const *a = pa, *const *b = pb;
    int64_t by_place = (*a)->mark - (*b)->mark;
    return (*a)->order != (*b)->order ? (*a)->order - (*b)->order : (by_place > 0) - (by_place < 0);
}

static void sort_marked(mover *m) {
    qsort(m->nodes, (size_t)m->n_nodes, sizeof *m->nodes, by_order);
}

/* ---- gathers that go early ---- */

/* Marks n, which stands behind `place`, and what must move with it; false: something that cannot, such as a collective. */
static bool mark_needs(mover *m, weft_node *n, const weft_node *place) {
    mark(m, n);
    for (int at = 0; at < m->n_nodes; at++)
        for (int i = 0; i < m->nodes[at]->n_in + m->nodes[at]->n_after; i++) {
            weft_node *need = need_of(m->nodes[at], i);
            if (!need || need->order <= place->order || m->is_marked[need->mark]) continue;
            if (!need->is_update || node_starts_collective(need)) return false;
            mark(m, need);
        }
    return true;
}

/* Marked nodes, all behind `place`, go right behind it in the order in which they stood. No node between is asked for
 * its order from now on but for being behind a later place. */
static void move_marked(mover *m, weft_node *place) {
    int order = place->order;
    sort_marked(m);
    for (int i = 0; i < m->n_nodes; i++) {
        weft_node *n = m->nodes[i];
        if (n != place->next) node_move_after(n, place);
        n->order = order;
        place = n;
    }
}

static int count_sums(const weft_graph *g, const weft_op *op) {
    int count = 0;
    for (const weft_node *n = g->first; n; n = n->next) count += is_sum(n, op);
    return count;
}

static void gathers_early(mover *m) {
    weft_graph *g = m->g;
    weft_node *sums[BEHIND + 1] = {0}; /* the last ones, the latest first */
    int count = count_sums(g, &weft_op_reduce_scatter), at = 0;
    for (weft_node *n = g->first, *next; n; n = next) {
        next = n->next;
        if (!is_sum(n, &weft_op_reduce_scatter)) continue;
        for (int i = BEHIND; i > 0; i--) sums[i] = sums[i - 1];
        sums[0] = n;
        if (at++ % EVERY || !sums[BEHIND] || count - at < AT_ONCE) continue;
        weft_node *gather = m->gather[sums[BEHIND]->variable->index];
        if (gather && mark_needs(m, gather, n)) move_marked(m, n);
        unmark_all(m);
    }
}

/* ---- sums that go late ---- */

/* What waits for the sum, and what waits for that. */
static void mark_users(mover *m, weft_node *sum) {
    mark(m, sum);
    for (int at = 0; at < m->n_nodes; at++)
        for (int u = m->first[m->nodes[at]->mark]; u < m->first[m->nodes[at]->mark + 1]; u++)
            mark(m, m->at[m->users[u]]);
}

/* The sum goes behind the last one of the lane, what waits for it to the end of the list. */
static void put_off(mover *m, weft_node *sum, weft_node *last_sum) {
    mark_users(m, sum);
    node_move_after(sum, last_sum);
    sort_marked(m);
    for (int i = 0; i < m->n_nodes; i++) {
        weft_node *n = m->nodes[i];
        if (n == sum) continue;
        if (n != m->g->last) node_move_after(n, m->g->last);
        n->order = ++m->end;
    }
    unmark_all(m);
}

static void sums_late(mover *m) {
    weft_graph *g = m->g;
    weft_node *last = NULL;
    int count = count_sums(g, &weft_op_all_reduce), at = count;
    for (weft_node *n = g->last, *before; n; n = before) {
        before = n->prev;
        if (!is_sum(n, &weft_op_all_reduce)) continue;
        if (!last) last = n;
        if (--at % EVERY != EVERY - 1 || count - at <= AT_ONCE) continue;
        put_off(m, n, last);
        last = n;
    }
}

static bool is_alone(const weft_plan *plan) {
    for (int i = 1; i < plan->n_trainings; i++)
        if (plan->trainings[i].graph != plan->trainings[0].graph) return false;
    return true;
}

bool lane_order(program *p) {
    mover m;
    if (decides_together(p->graph) || !is_alone(p->plan)) return true;
    if (!mover_open(&m, p->graph)) return false;
    find_users(&m);
    gathers_early(&m);
    if (p->plan->options.device == WEFT_DEVICE_CPU)
        sums_late(&m); /* elsewhere no run outlasts its end (tails.c) */
    return true;
}
