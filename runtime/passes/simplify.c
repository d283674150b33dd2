/* simplify.c - fewer nodes, the same numbers: constants, identities, common subexpressions, dead nodes.
 *
 * One sweep from front to back does the first three: when it reaches a node, the node's operands are simple
 * already. The algebra of an op is in its `simplify` (ops/pointwise/scale.c: a factor of 1 changes nothing).
 * Nodes that draw random numbers, access variables or have effects are never merged; of these only reads of
 * variables are ever dropped. */
#include "graph/core/graph.h"
#include "ops/kit/op_kit.h"
#include "runtime/passes/passes.h"

#include "weft/ops.h"

#include <math.h>

/* Up to here a double holds every integer: 2^53. */
#define MOST_EXACT ((int64_t)1 << 53)

/* What a node of integers makes of the numbers x, if a double holds it; a quotient by 0 is left to the run.
 * */
static bool fold_integers(const weft_node *n, const double *x, double *value) {
    int64_t whole[4];
    for (int i = 0; i < n->n_in; i++) whole[i] = (int64_t)x[i];
    if (n->op->flags & OP_DIVIDES && whole[1] == 0) return false;
    int64_t result = convert_int(n->out[0].type.dtype, n->op->integer(whole, n->attrs));
    *value = (double)result;
    return result >= -MOST_EXACT && result <= MOST_EXACT;
}

/* A pointwise op over constants is a constant, if the result's type can hold the number. */
static weft_value *fold_constants(weft_node *n) {
    double x[4], value;
    if (!(n->op->flags & OP_POINTWISE) || !n->op->scalar || n->n_in < 1 || n->n_in > 3) return NULL;
    for (int i = 0; i < n->n_in; i++)
        if (!constant_value(n->in[i], &x[i])) return NULL;
    const tensor_type *t = &n->out[0].type;
    if (!node_is_integer(n))
        value = n->op->scalar(x, n->attrs);
    else if (!fold_integers(n, x, &value))
        return NULL;
    /* infinite there or NaN: let it happen at run time */
    if (!isfinite(value) || !constant_fits(t->dtype, value)) return NULL;
    /* Rounded as the kernel would round it. */
    if (t->dtype == WEFT_F32) value = (float)value;
    return weft_constant(n->graph, t->dtype, t->ndim, t->shape, value);
}

/* ---- common subexpressions ---- */

/* Two equal random draws or reads of state may differ. */
static bool is_mergeable(const weft_node *n) {
    return !(n->op->flags & (OP_RANDOM | OP_EFFECT | OP_VARIABLE)) && n->n_out > 0 && n->n_body == 0;
}

/* Op, operands, attributes and number of elements; by names and numbers, so that addresses, which differ from
 * run to run, have no say in how long it takes. */
static uint64_t node_hash(const weft_node *n) {
    uint64_t h = 0;
    for (const char *c = n->op->name; *c; c++) h = h * 131 + (uint64_t)*c;
    for (int i = 0; i < n->n_in; i++)
        h = h * 0x9e3779b97f4a7c15u + (n->in[i] ? (uint64_t)n->in[i]->id + 1 : 0);
    h = h * 0x9e3779b97f4a7c15u + (uint64_t)type_elements(&n->out[0].type);
    h = ((h ^ h >> 29) + attrs_hash(n->op, n->attrs)) * 0x9e3779b97f4a7c15u;
    h = (h ^ h >> 32) * 0x9e3779b97f4a7c15u;
    return h ^ h >> 29;
}

static bool node_same(const weft_node *a, const weft_node *b) {
    if (a->op != b->op || a->n_in != b->n_in || a->n_out != b->n_out) return false;
    for (int i = 0; i < a->n_in; i++)
        if (a->in[i] != b->in[i]) return false;
    for (int k = 0; k < a->n_out; k++)
        if (!type_equal(&a->out[k].type, &b->out[k].type)) return false;
    return attrs_equal(a->op, a->attrs, b->attrs);
}

/* Nodes met so far by their hash; open addressing, a power of two of slots. */
typedef struct seen_table {
    weft_node **slots;
    size_t mask;
} seen_table;

static bool seen_init(seen_table *t, weft_graph *g) {
    /* At most a quarter full with the nodes that are there at the start. */
    int64_t room = 64;
    while (room < 4 * (int64_t)g->n_nodes) room *= 2;
    t->slots = scratch_array(g->model, room, sizeof *t->slots);
    t->mask = (size_t)room - 1;
    return t->slots;
}

/* An equal node met before, or NULL after storing this one. Probing ends: nodes that the sweep adds replace
 * others, so the table does not fill, and `tries` bounds it anyway. */
static weft_node *seen_before(seen_table *t, weft_node *n) {
    size_t at = node_hash(n) & t->mask;
    for (size_t tries = 0; tries <= t->mask; tries++, at = (at + 1) & t->mask) {
        if (!t->slots[at]) {
            t->slots[at] = n;
            return NULL;
        }
        if (node_same(t->slots[at], n)) return t->slots[at] == n ? NULL : t->slots[at];
    }
    return NULL;
}

/* ---- dead nodes ---- */

/* No effect, no readers, and no write to a variable. */
static bool is_dead(const weft_node *n) {
    if (n->op->flags & (OP_EFFECT | OP_RANDOM)) return false;
    for (int k = 0; k < n->n_out; k++)
        if (n->out[k].uses || (n->out[k].variable && !(n->op->flags & OP_IS_VARIABLE))) return false;
    return true;
}

/* From the last node to the first, so that one walk removes whole chains. */
void graph_remove_dead(weft_graph *g) {
    graph_count_uses(g);
    for (weft_node *n = g->last, *prev; n; n = prev) {
        prev = n->prev;
        if (!is_dead(n)) continue;
        for (int i = 0; i < n->n_in; i++)
            if (n->in[i]) n->in[i]->uses--;
        node_remove(n);
    }
}

/* ---- the sweep ---- */

/* Replacements are noted in value->mapped and followed when a reader is reached, so the sweep stays
 * linear. */
static weft_value *latest(weft_value *v) {
    while (v && v->mapped) v = v->mapped;
    return v;
}

/* Rewrites of one node in a row, as a bound on rules that undo each other. */
enum { CHAIN = 8 };

/* A cheaper equal value, or NULL. */
static weft_value *improve(weft_node *n) {
    weft_value *v = fold_constants(n);
    return v || !n->op->simplify ? v : n->op->simplify(n);
}

/* Replaces n by a cheaper value or an equal node before it. New nodes go before n, with its scope and
 * marks. */
static void simplify_node(weft_node *n, seen_table *seen) {
    weft_graph *g = n->graph;
    for (int i = 0; i < n->n_in; i++) n->in[i] = latest(n->in[i]);
    build_place at;
    build_begin(&at, g, n->scope, n->prev);
    g->building_backward = n->is_backward;
    g->building_f32 = n->stays_f32;
    g->building_update = n->is_update;
    weft_value *better = improve(n);
    weft_value *more = better; /* a new node may be simple to improve in turn */
    for (int i = 0; more && more->index == 0 && i < CHAIN; i++, more = improve(more->node)) better = more;
    build_end(&at);
    if (better && better != &n->out[0] && type_equal(&better->type, &n->out[0].type)) {
        n->out[0].mapped = better;
        return;
    }
    weft_node *same = is_mergeable(n) ? seen_before(seen, n) : NULL;
    for (int k = 0; same && k < n->n_out; k++) n->out[k].mapped = &same->out[k];
}

/* Nodes that the sweep inserts come before the present node and are not visited again. */
bool pass_simplify(weft_graph *g) {
    seen_table seen;
    if (!seen_init(&seen, g)) return false;
    graph_clear_mapped(g);
    for (weft_node *n = g->first; n && model_ok(g->model); n = n->next) simplify_node(n, &seen);
    for (graph_output *o = g->outputs; o; o = o->next) o->value = latest(o->value);
    graph_remove_dead(g);
    return model_ok(g->model);
}
