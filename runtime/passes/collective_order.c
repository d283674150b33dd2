/* collective_order.c - moves some collectives on the communication stream, which is first in, first out, so
 * that the next forward overlaps its share of them. A forward is a third of a step.
 *
 *   sums     Without ZeRO all bytes would go during the backward. Instead every third sum goes after all
 *            others, and its wait and its update go to the end: a deferred part (deferred.c), which ends
 *            while the next forward runs. The sums that this forward needs first go first.
 *   gathers  With ZeRO all gathers, half of the bytes, overlap the next forward. Instead every third gather
 *            goes after the third sum that follows its own, with its update before it.
 *
 * Every third, not one contiguous third: the forward reads parameters in turn, and finds the next ones there
 * each time. With 20 buckets and a link as fast as the compute, a model of the two streams computes 8% of the
 * communication exposed with late sums and 37% without; 10% with early gathers and 21% without. Nothing moves
 * where all gradients decide together (a clipped norm, f16's loss scale), or where several graphs train (a
 * GAN): each graph is followed by another one's forward, which overlaps all that it does not read. */
#include "graph/core/compare.h"
#include "runtime/plan/program.h"
#include "runtime/passes/passes.h"
#include "runtime/plan/value.h"

#include "graph/core/users.h"
#include "ops/optimizer/update.h"

#include <stdlib.h>

enum {
    EVERY = 3,
    BEHIND = 3, /* an early gather waits for its sum, which so many sums must follow first */
    /* the last sums are not moved, and no gather goes before them: the next forward needs them first */
    AT_ONCE = 2
};

/* Sums buckets by this op (all_reduce or reduce_scatter); sums of norms and statistics, and those of a
 * strategy, which are steps of one, do not count. */
static bool is_sum(const weft_node *n, const weft_op *op) {
    bool of_bucket = n->variable && n->variable->kind == VARIABLE_BUCKET;
    return n->op == op && n->is_update && of_bucket && !n->variable->sum;
}

/* A norm over all gradients: no update can start before the last sum. */
static bool decides_together(const weft_graph *g) {
    for (const weft_node *n = g->first; n; n = n->next)
        if (n->op == &weft_op_root_sum) return true;
    return false;
}

/* Moves of nodes in a list. node->mark is a node's place before all moves; node->order never decreases along
 * the list. */
typedef struct reordering {
    weft_graph *g;
    int count;
    weft_node **nodes; /* the nodes to move; is_marked[place] is true for each */
    int n_nodes;
    bool *is_marked;    /* by place */
    weft_node **gather; /* by index of a bucket: its all_gather */
    node_users users;   /* by place */
    weft_node **at;     /* by place */
    int end;            /* the largest order given so far */
} reordering;

static bool reordering_open(reordering *m, weft_graph *g) {
    *m = (reordering){.g = g,
                      .nodes = scratch_array(g->model, g->n_nodes, sizeof *m->nodes),
                      .is_marked = scratch_array(g->model, g->n_nodes, sizeof *m->is_marked),
                      .gather = scratch_array(g->model, g->model->n_variables, sizeof *m->gather),
                      .at = scratch_array(g->model, g->n_nodes, sizeof *m->at)};
    if (!m->nodes || !m->is_marked || !m->gather || !m->at) return false;
    for (weft_node *n = g->first; n; n = n->next) {
        n->mark = n->order = m->count;
        m->at[m->count++] = n;
        if (n->op == &weft_op_all_gather) m->gather[n->variable->index] = n;
    }
    m->end = m->count;
    return node_users_find(&m->users, &g->model->scratch, m->at, m->count);
}

static void mark(reordering *m, weft_node *n) {
    if (m->is_marked[n->mark]) return;
    m->is_marked[n->mark] = true;
    m->nodes[m->n_nodes++] = n;
}

static void unmark_all(reordering *m) {
    while (m->n_nodes) m->is_marked[m->nodes[--m->n_nodes]->mark] = false;
}

/* By present order, then by the original place: nodes moved to one place share its order. */
static int by_order(const void *pa, const void *pb) {
    const weft_node *const *a = pa, *const *b = pb;
    return by_numbers((*a)->order, (*b)->order, (*a)->mark, (*b)->mark);
}

static void sort_marked(reordering *m) {
    qsort(m->nodes, (size_t)m->n_nodes, sizeof *m->nodes, by_order);
}

/* ---- gathers that go early ---- */

/* Marks n, which comes after `place`, and all that must move before it with it. False: one of these is a
 * collective, which cannot move. Ranks without a range of the bucket have no update to move, so nothing else
 * may decide: an update may need a constant that the backward needs, too. */
static bool mark_needs(reordering *m, weft_node *n, const weft_node *place) {
    mark(m, n);
    for (int at = 0; at < m->n_nodes; at++)
        for (int i = 0; i < node_needs(m->nodes[at]); i++) {
            weft_node *need = node_need(m->nodes[at], i);
            if (!need || need->order <= place->order || m->is_marked[need->mark]) continue;
            if (node_starts_collective(need)) return false;
            mark(m, need);
        }
    return true;
}

/* Moves the marked nodes, all after `place`, to directly after it, in their present order. They take the
 * order of `place`: later questions are only whether a node comes after a later place, so nodes between need
 * no new order. */
static void move_marked(reordering *m, weft_node *place) {
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

/* Remembers the last BEHIND + 1 sums. At every third sum, the gather of the sum BEHIND before it moves here.
 */
static void gathers_early(reordering *m) {
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

/* Marks the sum, its wait, and all that waits for these, directly or not. */
static void mark_users(reordering *m, weft_node *sum) {
    mark(m, sum);
    for (int at = 0; at < m->n_nodes; at++)
        for (int u = m->users.first[m->nodes[at]->mark]; u < m->users.first[m->nodes[at]->mark + 1]; u++)
            mark(m, m->at[m->users.of[u]]);
}

/* Moves the sum after the last one of the stream, and what waits for it to the end of the list. */
static void put_off(reordering *m, weft_node *sum, weft_node *last_sum) {
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

/* From the end of the list: each sum that moves goes after those moved before it, so the last buckets, which
 * the next forward reads first, come first. */
static void sums_late(reordering *m) {
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

/* Whether only one graph of the plan trains. */
static bool is_alone(const weft_plan *plan) {
    for (int i = 1; i < plan->n_trainings; i++)
        if (plan->trainings[i].graph != plan->trainings[0].graph) return false;
    return true;
}

bool collective_order(program *p) {
    reordering m;
    if (decides_together(p->graph) || !is_alone(p->plan)) return true;
    if (!reordering_open(&m, p->graph)) return false;
    gathers_early(&m);
    if (p->plan->options.device == WEFT_DEVICE_CPU)
        sums_late(&m); /* on a GPU no program has a deferred part (deferred.c) */
    return true;
}
