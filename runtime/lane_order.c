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

static void number(weft_graph *g) {
    int count = 0;
    for (weft_node *n = g->first; n; n = n->next) {
        n->order = count++;
        n->mark = 0;
    }
}

static weft_node *need_of(const weft_node *n, int i) {
    return i >= n->n_in ? n->after[i - n->n_in] : n->in[i] ? n->in[i]->node : NULL;
}

/* ---- gathers that go early ---- */

static weft_node *gather_of(const weft_node *sum) {
    for (weft_node *n = sum->next; n; n = n->next)
        if (n->op == &weft_op_all_gather && n->variable == sum->variable) return n;
    return NULL;
}

/* Marks n, which stands behind `place`, and what must move with it; false: something that cannot, such as a collective. */
static bool mark_needs(weft_node *n, const weft_node *place) {
    n->mark = 1;
    for (int i = 0; i < n->n_in + n->n_after; i++) {
        weft_node *need = need_of(n, i);
        if (!need || need->order <= place->order || need->mark) continue;
        if (!need->is_update || node_starts_collective(need) || !mark_needs(need, place)) return false;
    }
    return true;
}

/* Marked nodes, all behind `place`, go right behind it in the order in which they stood. */
static void move_marked(weft_node *place) {
    for (weft_node *n = place->next, *next; n; n = next) {
        next = n->next;
        if (!n->mark) continue;
        node_move_after(n, place);
        place = n;
    }
}

static int count_sums(const weft_graph *g, const weft_op *op) {
    int count = 0;
    for (const weft_node *n = g->first; n; n = n->next) count += is_sum(n, op);
    return count;
}

static void gathers_early(weft_graph *g) {
    weft_node *sums[BEHIND + 1] = {0}; /* the last ones, the latest first */
    int count = count_sums(g, &weft_op_reduce_scatter), at = 0;
    for (weft_node *n = g->first, *next; n; n = next) {
        next = n->next;
        if (!is_sum(n, &weft_op_reduce_scatter)) continue;
        for (int i = BEHIND; i > 0; i--) sums[i] = sums[i - 1];
        sums[0] = n;
        if (at++ % EVERY || !sums[BEHIND] || count - at < AT_ONCE) continue;
        weft_node *gather = gather_of(sums[BEHIND]);
        number(g);
        if (gather && mark_needs(gather, n)) move_marked(n);
    }
}

/* ---- sums that go late ---- */

/* Marks what waits for the sum, and the updates that wait for that. */
static void mark_users(const weft_node *sum) {
    for (weft_node *n = sum->next; n; n = n->next)
        for (int i = 0; i < n->n_in + n->n_after && !n->mark; i++) {
            const weft_node *need = need_of(n, i);
            n->mark = need && (need == sum || need->mark);
        }
}

/* The sum goes behind the last one of the lane, what waits for it to the end of the list. */
static void put_off(weft_graph *g, weft_node *sum, weft_node *last_sum) {
    weft_node *end = g->last;
    bool is_over = false;
    number(g);
    mark_users(sum);
    node_move_after(sum, last_sum);
    for (weft_node *n = g->first, *next; !is_over; n = next) {
        next = n->next;
        is_over = n == end;
        if (n->mark && n != g->last) node_move_after(n, g->last);
    }
}

static void sums_late(weft_graph *g) {
    weft_node *last = NULL;
    int count = count_sums(g, &weft_op_all_reduce), at = count;
    for (weft_node *n = g->last, *before; n; n = before) {
        before = n->prev;
        if (!is_sum(n, &weft_op_all_reduce)) continue;
        if (!last) last = n;
        if (--at % EVERY != EVERY - 1 || count - at <= AT_ONCE) continue;
        put_off(g, n, last);
        last = n;
    }
}

static bool is_alone(const weft_plan *plan) {
    for (int i = 1; i < plan->n_trainings; i++)
        if (plan->trainings[i].graph != plan->trainings[0].graph) return false;
    return true;
}

void lane_order(program *p) {
    if (decides_together(p->graph) || !is_alone(p->plan)) return;
    gathers_early(p->graph);
    if (p->plan->options.device == WEFT_DEVICE_CPU)
        sums_late(p->graph); /* elsewhere no run outlasts its end (tails.c) */
}
