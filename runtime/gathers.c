/* gathers.c - where ZeRO's gathers begin. Those of a program stand at its end, first what the next forward reads first,
 * and hide behind that forward. But half of what ZeRO moves is gathers, and the forward is a third of a step: so a third of
 * the gathers, of the buckets whose sums come first (their layers come last in the forward), go in between the sums. Then the
 * backward has two thirds of the bytes for two thirds of the time, and the forward one for one.
 *
 * The first of them follows the third sum, and so on: while communication takes up to three times the compute, the sum that an
 * early update waits for is over by then. What reads a parameter must be over too; where all gradients decide together
 * (a clipped norm, f16's loss scale), nothing can be early.
 */
#include "runtime/program.h"

#include "ops/collective.h"

enum { SUMS_A_GATHER = 3 };

static weft_node *gather_of(const weft_node *sum) {
    for (weft_node *n = sum->next; n; n = n->next)
        if (n->op == &weft_op_all_gather && n->variable == sum->variable) return n;
    return NULL;
}

static bool is_sum_of(const weft_node *n, int subgraph) {
    return n->op == &weft_op_reduce_scatter && n->variable && n->variable->subgraph == subgraph;
}

/* Marks n, which stands behind `place`, and what must move with it; false: something that cannot, such as a collective. */
static bool mark_needs(weft_node *n, const weft_node *place) {
    n->mark = 1;
    for (int i = 0; i < n->n_in + n->n_after; i++) {
        weft_node *need = i >= n->n_in ? n->after[i - n->n_in] : n->in[i] ? n->in[i]->node : NULL;
        if (!need || need->order <= place->order || need->mark) continue;
        if (!need->is_update || node_starts_collective(need) || !mark_needs(need, place)) return false;
    }
    return true;
}

/* The gather goes behind `place`, with all that it needs, in the order in which it stood. */
static void move_gather(weft_graph *g, weft_node *gather, weft_node *place) {
    int count = 0;
    for (weft_node *n = g->first; n; n = n->next) {
        n->order = count++;
        n->mark = 0;
    }
    if (!mark_needs(gather, place)) return;
    for (weft_node *n = place->next, *next; n; n = next) {
        next = n->next;
        if (!n->mark) continue;
        node_move_after(n, place);
        place = n;
    }
}

static void spread(weft_graph *g, int subgraph) {
    weft_node *early = g->first; /* from here on, the sum whose gather is next */
    int sums = 0;
    for (weft_node *n = g->first, *next; n; n = next) {
        next = n->next;
        if (!is_sum_of(n, subgraph) || ++sums % SUMS_A_GATHER) continue;
        while (!is_sum_of(early, subgraph)) early = early->next;
        weft_node *gather = gather_of(early);
        if (gather) move_gather(g, gather, n);
        early = early->next;
    }
}

void gathers_spread(program *p) {
    for (int i = 0; i < p->plan->n_subgraphs; i++)
        if (p->plan->subgraphs[i].ddp.zero) spread(p->graph, i);
}
