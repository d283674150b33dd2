/* diagram_hosts.c - items that are drawn as part of another, their host: views as part of what they view, and
 * a layer's state, with what keeps it up to date, as part of the layer. */
#include "tools/graphtool/diagram/diagram.h"

#include "ops/kit/ops.h"

/* In brief pictures of all nodes, a view in the same box and phase as the node it views is drawn as part of
 * that, unless that is an input. */
void diagram_host_views(diagram *s) {
    for (const diagram_read *r = s->reads; r < s->reads + s->n_reads; r++) {
        const weft_node *n = r->to->node;
        if (!n || r->to->host || !(n->op->flags & OP_VIEW) || r->value != n->in[0]) continue;
        if (diagram_collapses_by_op(s, r->to) || r->from->box != r->to->box) continue;
        if (diagram_kind_of(r->from->node) == KIND_INPUT) continue;
        if (diagram_phase_of(r->from->node) == diagram_phase_of(n)) r->to->host = r->from;
    }
}

/* ---- state ---- */

/* Is it upkeep, or state? These have hosts; what they are joined to within a box can be one. */
static bool is_guest(const diagram_item *i) {
    return i->node && (i->is_upkeep || i->node->op == &weft_op_state);
}

/* Items of a box that reads join, by union-find: `first` leads to the first of them. `host`, of that one: the
 * last other item of the box that they are joined to; `several`: these are of several ops, or some are not in
 * the box. A layer that is called twice has two items of one op. */
typedef struct guests {
    diagram_item *first, *host;
    bool several;
} guests;

static guests *group_of(const diagram *s, guests *all, diagram_item *i) {
    guests *g = &all[i - s->items];
    while (g->first && g->first != &s->items[g - all]) g = &all[g->first - s->items];
    return g;
}

static void join_guests(const diagram *s, guests *all, const diagram_read *r) {
    guests *a = group_of(s, all, r->from), *b = group_of(s, all, r->to);
    if (a > b) a->first = &s->items[b - all];
    if (b > a) b->first = &s->items[a - all];
}

static void note_host(const diagram *s, guests *all, diagram_item *guest, diagram_item *host) {
    guests *g = group_of(s, all, guest);
    g->several |= g->host && (!host->node || g->host->node->op != host->node->op);
    if (!g->host || host > g->host) g->host = host;
}

/* The items of the root are of no layer. */
static bool is_in_a_layer(const diagram *s, const diagram_read *r) {
    return r->from->box == r->to->box && r->from->box != s->boxes;
}

/* Guests that leave their box, as a state that another layer reads, have no host. */
void diagram_host_state(diagram *s) {
    guests *all = diagram_new(s, s->n_items + 1, sizeof *all);
    const diagram_read *end = s->reads + s->n_reads;
    for (const diagram_read *r = s->reads; r < end; r++)
        if (is_in_a_layer(s, r) && is_guest(r->from) && is_guest(r->to)) join_guests(s, all, r);
    for (const diagram_read *r = s->reads; r < end; r++) {
        if (is_guest(r->from) == is_guest(r->to)) {
            if (is_guest(r->from) && !is_in_a_layer(s, r))
                group_of(s, all, r->from)->several = group_of(s, all, r->to)->several = true;
            continue;
        }
        diagram_item *guest = is_guest(r->from) ? r->from : r->to, *other = guest == r->to ? r->from : r->to;
        if (is_in_a_layer(s, r))
            note_host(s, all, guest, other);
        else
            group_of(s, all, guest)->several = true;
    }
    for (diagram_item *i = s->items; i < s->items + s->n_items; i++) {
        const guests *g = group_of(s, all, i);
        if (is_guest(i) && !g->several) i->host = g->host;
    }
}
