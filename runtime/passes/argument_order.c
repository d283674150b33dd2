/* argument_order.c - the pass that finds operands which C has built in the wrong order. C leaves the order of
 * arguments open: in weft_sub(d(a), d(b)) gcc builds d(b) first, clang d(a). Where d updates state, or draws
 * random numbers, these are two models. A plan notes each node whose operands are two uses of one scope with
 * such state, if the later operand was built first. Built in statements of their own, or from left to right,
 * they give no note. */
#include "graph/core/compare.h"
#include "runtime/passes/passes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What a node depends on, as bits: the earlier use of the pair, the later one. */
enum { EARLIER = 1, LATER = 2 };

/* Arrays by node id. A use is built whole before the next one, so nodes before `from` are of neither. */
typedef struct uses {
    const weft_node *from;
    unsigned char *makes;   /* it is needed to make the node of a use */
    unsigned char *reaches; /* it depends on a use */
    int *last_read;         /* the last node that reads its results */
} uses;

/* The first part of a path. */
static size_t top_of(const char *path) {
    return strcspn(path, "/");
}

static bool is_site(const weft_node *n) {
    return *n->scope && (n->op == &weft_op_assign || n->op->flags & OP_RANDOM);
}

/* A site. Its partner is the last site before it that makes a pair with it; `before` is the partner's
 * partner. NULL: there is no such site. */
typedef struct site {
    int place; /* among the sites of the graph */
    const weft_node *node, *partner, *before;
} site;

/* 0: they are a pair. Both write one state, or draw by one line of the program in one scope. */
static int compare_keys(const weft_node *a, const weft_node *b) {
    int order = by_number((intptr_t)a->op, (intptr_t)b->op);
    if (order) return order;
    if (a->op == &weft_op_assign) return by_number(a->variable->index, b->variable->index);
    if ((order = by_number((intptr_t)a->scope, (intptr_t)b->scope))) return order;
    if ((order = by_number(a->line, b->line))) return order;
    return a->file && b->file ? strcmp(a->file, b->file) : by_number(a->id, b->id); /* no place: no pair */
}

static int by_key(const void *a, const void *b) {
    const site *x = a, *y = b;
    int order = compare_keys(x->node, y->node);
    return order ? order : by_number(x->place, y->place);
}

static int by_place(const void *a, const void *b) {
    return by_number(((const site *)a)->place, ((const site *)b)->place);
}

/* The sites of a graph in its order, with their partners. */
static int find_sites(const weft_graph *g, site *list) {
    int n = 0;
    for (const weft_node *k = g->first; k; k = k->next)
        if (is_site(k)) list[n] = (site){.place = n, .node = k}, n++;
    qsort(list, (size_t)n, sizeof *list, by_key);
    for (int i = 1; i < n; i++) {
        if (compare_keys(list[i - 1].node, list[i].node)) continue;
        list[i].partner = list[i - 1].node;
        list[i].before = list[i - 1].partner;
    }
    qsort(list, (size_t)n, sizeof *list, by_place);
    return n;
}

/* The value of the state that both write ties each use to the one before; that is not what is asked here. */
static bool is_tie(const weft_node *n, const weft_node *site) {
    return n->variable && n->variable == site->variable;
}

/* Whether an operand is of the nodes that are looked at, and no tie. */
static bool is_between(const uses *u, const weft_value *v, const weft_node *later) {
    return v && v->node->id >= u->from->id && !is_tie(v->node, later);
}

/* From the later node to the front: operands come before their readers. A node without results
 * makes nothing, and has the id of the next one. */
static void mark_makers(uses *u, const weft_node *earlier, const weft_node *later) {
    for (const weft_node *n = u->from; n; n = n == later ? NULL : n->next) u->makes[n->id] = 0;
    u->makes[earlier->id] = EARLIER;
    u->makes[later->id] = LATER;
    for (const weft_node *n = later; n != u->from->prev; n = n->prev)
        for (int i = 0; n->n_out && i < n->n_in; i++)
            if (is_between(u, n->in[i], later)) u->makes[n->in[i]->node->id] |= u->makes[n->id];
}

static bool is_inside(const weft_node *n, const weft_node *site) {
    size_t top = top_of(site->scope);
    return top_of(n->scope) == top && memcmp(n->scope, site->scope, top) == 0;
}

/* The use that a node of the pair's top scope belongs to: what both need is of neither. */
static unsigned use_of(const uses *u, const weft_node *n, const weft_node *site) {
    unsigned makes = n->id <= site->id ? u->makes[n->id] : 0;
    return is_inside(n, site) && makes != (EARLIER | LATER) ? makes : 0;
}

static bool depends_alone(const uses *u, const weft_value *v, unsigned use) {
    return v && v->node->id >= u->from->id && u->reaches[v->node->id] == use;
}

/* Whether an operand that depends on the later use comes before one that depends on the earlier one. */
static bool is_reversed(const uses *u, const weft_node *n, bool *joins) {
    int earlier = -1, later = -1;
    for (int i = n->n_in; i-- > 0;) {
        if (depends_alone(u, n->in[i], EARLIER)) earlier = i;
        if (depends_alone(u, n->in[i], LATER)) later = i;
    }
    *joins = earlier >= 0 && later >= 0;
    return *joins && later < earlier;
}

/* The first node after their scope that the two uses meet in, if its operands are in the other order; NULL:
 * they do not meet, meet in order, or the later use depends on the earlier one. */
static const weft_node *reversed_join(uses *u, const weft_node *earlier, const weft_node *later) {
    mark_makers(u, earlier, later);
    if (earlier->n_out && u->makes[earlier->id] & LATER) return NULL; /* it needs what the earlier one drew */
    int earlier_read = 0, later_read = 0; /* the last nodes that read what depends on each */
    for (const weft_node *n = u->from; n; n = n->next) {
        unsigned use = use_of(u, n, later), reaches = use;
        bool joins;
        if (n->id > later->id && (n->id > earlier_read || n->id > later_read)) return NULL;
        for (int i = 0; i < n->n_in; i++)
            if (is_between(u, n->in[i], later)) reaches |= u->reaches[n->in[i]->node->id];
        if (use == LATER && reaches & EARLIER) return NULL;
        bool is_wrong = is_reversed(u, n, &joins);
        if (joins && !is_inside(n, later)) return is_wrong ? n : NULL;
        u->reaches[n->id] = (unsigned char)reaches;
        if (reaches & EARLIER && u->last_read[n->id] > earlier_read) earlier_read = u->last_read[n->id];
        if (reaches & LATER && u->last_read[n->id] > later_read) later_read = u->last_read[n->id];
    }
    return NULL;
}

static bool add_note(weft_plan *plan, const weft_node *join, const weft_node *site) {
    char place[300] = "", text[900];
    if (join->file) snprintf(place, sizeof place, " at %.200s:%d", join->file, join->line);
    snprintf(
        text, sizeof text,
        "graph %s: %s%s: a later operand was built before an earlier one, and both %s %s: C leaves the order "
        "of arguments open, so another compiler may make another model: build each operand in a statement",
        join->graph->name, join->op->name, place,
        site->op == &weft_op_assign ? "update" : "draw random numbers in",
        site->op == &weft_op_assign ? site->variable->path : site->scope);
    return plan_add_note(plan, text);
}

static bool check_graph(weft_plan *plan, const weft_graph *g) {
    weft_model *m = plan->model;
    int ids = g->next_id + 1;
    const weft_node *last = NULL; /* one note for a node, whatever its operands update */
    uses u = {NULL, scratch_array(m, ids, 1), scratch_array(m, ids, 1),
              scratch_array(m, ids, sizeof *u.last_read)};
    site *sites = scratch_array(m, g->n_nodes, sizeof *sites);
    if (!u.makes || !u.reaches || !u.last_read || !sites) return false;
    int n = find_sites(g, sites);
    for (const weft_node *k = g->first; k; k = k->next)
        for (int i = 0; i < k->n_in; i++)
            if (k->in[i]) u.last_read[k->in[i]->node->id] = k->id;
    for (const site *s = sites; s < sites + n; s++) {
        u.from = s->before ? s->before->next : g->first;
        const weft_node *join = s->partner ? reversed_join(&u, s->partner, s->node) : NULL;
        if (join && join != last && !add_note(plan, join, s->node)) return false;
        if (join) last = join;
    }
    return true;
}

bool argument_order_note(weft_plan *plan) {
    for (const weft_graph *g = plan->source->graphs; g; g = g->next)
        if (!check_graph(plan, g)) return false;
    return true;
}
