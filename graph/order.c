/* order.c - what must run before what: operands, and readers and writers of one variable.
 *
 * Until the compute-order pass pins a schedule, the order of a graph's node list is its meaning for state: a
 * reader sees the last earlier write. graph_order_edges writes that meaning down as edges, so that later passes
 * may move nodes freely as long as they respect operands and edges.
 */
#include "graph/graph.h"

static bool overlaps(const weft_variable *a, const weft_variable *b) {
    return a && b && (a == b || a->segment == b || b->segment == a);
}

static bool writes(const weft_node *n, const weft_variable *v) {
    if (n->op->flags & OP_WRITES && overlaps(n->variable, v)) return true;
    for (int i = 0; i < n->n_in && i < 32; i++)
        if (n->op->writes >> i & 1 && n->in[i] && overlaps(n->in[i]->variable, v)) return true;
    return false;
}

static bool touches(const weft_node *n, const weft_variable *v) {
    if (writes(n, v)) return true;
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i] && overlaps(n->in[i]->variable, v)) return true;
    return false;
}

static bool is_writer(const weft_node *n) {
    return n->op->flags & OP_WRITES || n->op->writes;
}

/* Whether a and b meet in a variable that one of them writes. */
static bool conflicts(const weft_node *a, const weft_node *b) {
    if (a->op->flags & OP_WRITES && touches(b, a->variable)) return true;
    if (b->op->flags & OP_WRITES && touches(a, b->variable)) return true;
    for (int i = 0; i < a->n_in && i < 32; i++)
        if (a->op->writes >> i & 1 && a->in[i] && touches(b, a->in[i]->variable)) return true;
    for (int i = 0; i < b->n_in && i < 32; i++)
        if (b->op->writes >> i & 1 && b->in[i] && touches(a, b->in[i]->variable)) return true;
    return false;
}

static bool reads_variable(const weft_node *n) {
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i] && n->in[i]->variable) return true;
    return false;
}

/* Pairs of (writer, anything that touches variables) only: few against all. */
bool graph_order_edges(weft_graph *g) {
    size_t count = 0;
    weft_node **some = arena_new_array(&g->model->arena, (size_t)graph_node_count(g) + 1, sizeof *some);
    weft_node **found = arena_new_array(&g->model->arena, (size_t)graph_node_count(g) + 1, sizeof *found);
    if (!some || !found) return model_fail(g->model, g, WEFT_MEMORY, "order: memory could not be had");
    for (weft_node *n = g->first; n; n = n->next) {
        n->n_after = 0;
        bool writer = is_writer(n);
        if (!writer && !reads_variable(n)) continue;
        int edges = 0;
        for (size_t i = 0; i < count; i++)
            if ((writer || is_writer(some[i])) && conflicts(some[i], n)) found[edges++] = some[i];
        some[count++] = n;
        if (!edges) continue;
        n->after = arena_new_array(&g->model->arena, (size_t)edges, sizeof *n->after);
        if (!n->after) return model_fail(g->model, g, WEFT_MEMORY, "order: memory could not be had");
        n->n_after = edges;
        for (int i = 0; i < edges; i++) n->after[i] = found[i];
    }
    return true;
}

/* ---- sorting ---- */

enum { UNSEEN = 0, OPEN = 1, PLACED = 2 };

/* The next node that must be placed before `n`, or NULL. Operands first, in order. */
static weft_node *missing(const weft_node *n) {
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i] && n->in[i]->node->mark != PLACED) return n->in[i]->node;
    for (int i = 0; i < n->n_after; i++)
        if (n->after[i]->mark != PLACED) return n->after[i];
    return NULL;
}

static void append(weft_graph *g, weft_node *n) {
    n->mark = PLACED;
    n->prev = g->last;
    n->next = NULL;
    if (g->last) g->last->next = n;
    else g->first = n;
    g->last = n;
}

bool graph_sort(weft_graph *g) {
    size_t count = (size_t)graph_node_count(g), i = 0;
    weft_node **list = arena_new_array(&g->model->arena, count + 1, sizeof *list);
    weft_node **stack = arena_new_array(&g->model->arena, count + 1, sizeof *stack);
    if (!list || !stack) return model_fail(g->model, g, WEFT_MEMORY, "sort: memory could not be had");
    for (weft_node *n = g->first; n; n = n->next) {
        list[i++] = n;
        n->mark = UNSEEN;
    }
    g->first = g->last = NULL;
    for (i = 0; i < count; i++) {
        size_t depth = 0;
        if (list[i]->mark == UNSEEN) stack[depth++] = list[i];
        while (depth) {
            weft_node *n = stack[depth - 1], *before = missing(n);
            if (!before) {
                append(g, n);
                depth--;
            } else if (before->mark == OPEN || before == n) {
                return model_fail(g->model, g, WEFT_INTERNAL, "sort: %s %%%d waits for itself", n->op->name, n->id);
            } else {
                n->mark = OPEN;
                stack[depth++] = before;
            }
        }
    }
    return true;
}
