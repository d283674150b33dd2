/* argument_order.c - the pass that finds operands which C has built in the wrong order. C leaves the order of
 * arguments open: in weft_sub(d(a), d(b)) gcc builds d(b) first, clang d(a). Where d updates state, or draws
 * random numbers, these are two models. A plan notes each node whose operands are two uses of one scope with
 * such state, if the later operand was built first. Built in statements of their own, or from left to right,
 * they give no note. */
#include "graph/core/graph.h"

#include "runtime/passes/passes.h"

#include <stdio.h>
#include <string.h>

/* What a node depends on, as bits: the earlier use of the pair, the later one. */
enum { EARLIER = 1, LATER = 2 };

/* Arrays by node id. */
typedef struct uses {
    const weft_graph *g;
    unsigned char *makes;   /* it is needed to make the node of a use */
    unsigned char *reaches; /* it depends on a use */
} uses;

/* The first part of a path. */
static size_t top_of(const char *path) {
    return strcspn(path, "/");
}

static bool is_site(const weft_node *n) {
    return *n->scope && (n->op == &weft_op_assign || n->op->flags & OP_RANDOM);
}

/* Both write one state, or draw by one line of the program in one scope. */
static bool is_pair(const weft_node *a, const weft_node *b) {
    if (a->op != b->op) return false;
    if (a->op == &weft_op_assign) return a->variable == b->variable;
    return a->scope == b->scope && a->file && b->file && a->line == b->line && strcmp(a->file, b->file) == 0;
}

/* The last site before n that makes a pair with it, or NULL. */
static const weft_node *partner_of(const weft_node *n) {
    for (const weft_node *k = n->prev; k; k = k->prev)
        if (is_site(k) && is_pair(k, n)) return k;
    return NULL;
}

/* The value of the state that both write ties each use to the one before; that is not what is asked here. */
static bool is_tie(const weft_node *n, const weft_node *site) {
    return n->variable && n->variable == site->variable;
}

/* From the later node to the front of the list: operands come before their readers. A node without results
 * makes nothing, and has the id of the next one. */
static void mark_makers(uses *u, const weft_node *earlier, const weft_node *later) {
    for (const weft_node *n = u->g->first; n; n = n->next) u->makes[n->id] = u->reaches[n->id] = 0;
    u->makes[earlier->id] = EARLIER;
    u->makes[later->id] = LATER;
    for (const weft_node *n = later; n; n = n->prev)
        for (int i = 0; n->n_out && i < n->n_in; i++)
            if (n->in[i] && !is_tie(n->in[i]->node, later)) u->makes[n->in[i]->node->id] |= u->makes[n->id];
}

static bool is_inside(const weft_node *n, const weft_node *site) {
    size_t top = top_of(site->scope);
    return top_of(n->scope) == top && memcmp(n->scope, site->scope, top) == 0;
}

/* The use that a node of the pair's top scope belongs to: what both need is of neither. */
static unsigned use_of(const uses *u, const weft_node *n, const weft_node *site) {
    unsigned makes = u->makes[n->id];
    return is_inside(n, site) && makes != (EARLIER | LATER) ? makes : 0;
}

static bool depends_alone(const uses *u, const weft_value *v, unsigned use) {
    return v && u->reaches[v->node->id] == use;
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
    for (const weft_node *n = u->g->first; n; n = n->next) {
        unsigned use = use_of(u, n, later), reaches = use;
        bool joins;
        for (int i = 0; i < n->n_in; i++)
            if (n->in[i] && !is_tie(n->in[i]->node, later)) reaches |= u->reaches[n->in[i]->node->id];
        if (use == LATER && reaches & EARLIER) return NULL;
        bool is_wrong = is_reversed(u, n, &joins);
        if (joins && !is_inside(n, later)) return is_wrong ? n : NULL;
        u->reaches[n->id] = (unsigned char)reaches;
    }
    return NULL;
}

static bool add_note(weft_plan *plan, const weft_node *join, const weft_node *site) {
    char place[300] = "", text[900];
    if (join->file) snprintf(place, sizeof place, " at %.200s:%d", join->file, join->line);
    snprintf(text, sizeof text,
             "graph %s: %s%s: a later operand was built before an earlier one, and both %s %s: C leaves the "
             "order of arguments open, so another compiler may make another model: build each operand in a "
             "statement",
             join->graph->name, join->op->name, place,
             site->op == &weft_op_assign ? "update" : "draw random numbers in",
             site->op == &weft_op_assign ? site->variable->path : site->scope);
    return plan_add_note(plan, text);
}

static bool check_graph(weft_plan *plan, const weft_graph *g) {
    arena *memory = &plan->model->arena;
    size_t ids = (size_t)g->next_id + 1;
    const weft_node *last = NULL; /* one note for a node, whatever its operands update */
    uses u = {g, arena_new_array(memory, ids, 1), arena_new_array(memory, ids, 1)};
    if (!u.makes || !u.reaches) return model_fail(plan->model, NULL, WEFT_MEMORY, "compile: out of memory");
    for (const weft_node *n = g->first; n; n = n->next) {
        const weft_node *partner = is_site(n) ? partner_of(n) : NULL;
        const weft_node *join = partner ? reversed_join(&u, partner, n) : NULL;
        if (join && join != last && !add_note(plan, join, n)) return false;
        if (join) last = join;
    }
    return true;
}

bool argument_order_note(weft_plan *plan) {
    for (const weft_graph *g = plan->source->graphs; g; g = g->next)
        if (!check_graph(plan, g)) return false;
    return true;
}
