/* equal.c - which scopes that follow each other are equal: the 48 blocks of a GPT.
 *
 * Two scopes are equal when their k-th nodes have the same op, attributes without names and keys, kernel,
 * phase, states and result types, are in scopes of the same name, and read the same: the same result of the
 * same node within the scope, or a value of the same type from outside. Their own names differ in digits
 * only. No hash stands for any of that. */
#include "tools/graphtool/view/view.h"

#include <ctype.h>

/* ---- what is compared of a node ---- */

/* An operand as it is seen from a scope: the place of its node there and the number of the result; or the
 * type of what comes from outside; -1: neither. */
typedef struct seen_read {
    int place, result, type;
} seen_read;

static seen_read read_in(const view_graph *g, const view_scope *s, const view_node *n, int i) {
    int value = g->reads[n->reads + i].value;
    if (value < 0) return (seen_read){-1, -1, -1};
    const view_value *v = &g->values[value];
    int place = g->place[v->node];
    if (place < s->begin || place >= s->end) return (seen_read){-1, -1, v->type};
    return (seen_read){place - s->begin, value - g->nodes[v->node].values, -1};
}

static bool nodes_are_equal(const view_graph *g, const view_scope *a, const view_scope *b, int place) {
    const view_node *x = &g->nodes[g->by_scope[a->begin + place]];
    const view_node *y = &g->nodes[g->by_scope[b->begin + place]];
    if (x->op != y->op || x->form != y->form || x->kernel != y->kernel || x->phase != y->phase) return false;
    if (x->first != y->first || x->last != y->last || x->lane != y->lane) return false;
    if (x->n_reads != y->n_reads || x->n_values != y->n_values) return false;
    for (int k = 0; k < x->n_values; k++)
        if (g->values[x->values + k].type != g->values[y->values + k].type) return false;
    for (int i = 0; i < x->n_reads; i++) {
        seen_read p = read_in(g, a, x, i), q = read_in(g, b, y, i);
        if (p.place != q.place || p.result != q.result || p.type != q.type) return false;
    }
    return true;
}

/* ---- scopes ---- */

static const char *name_of(const view_graph *g, const view_scope *s) {
    return g->of->texts->v[s->name];
}

/* Whether two names are the same without their digits: "block_1" and "block_12". */
static bool names_are_alike(const char *a, const char *b) {
    for (;;) {
        bool number = isdigit((unsigned char)*a) && isdigit((unsigned char)*b);
        while (number && isdigit((unsigned char)*a)) a++;
        while (number && isdigit((unsigned char)*b)) b++;
        if (*a != *b) return false;
        if (!*a) return true;
        a++, b++;
    }
}

/* Whether both have the same scopes in them, with the same numbers of nodes. */
static bool trees_are_equal(const view_graph *g, const view_scope *a, const view_scope *b) {
    if (a->end - a->begin != b->end - b->begin) return false;
    int x = a->first_child, y = b->first_child;
    for (; x >= 0 && y >= 0; x = g->scopes[x].next, y = g->scopes[y].next)
        if (g->scopes[x].name != g->scopes[y].name || !trees_are_equal(g, &g->scopes[x], &g->scopes[y]))
            return false;
    return x == y;
}

static bool scopes_are_equal(const view_graph *g, const view_scope *a, const view_scope *b) {
    if (!names_are_alike(name_of(g, a), name_of(g, b)) || !trees_are_equal(g, a, b)) return false;
    for (int i = 0; i < a->end - a->begin; i++)
        if (!nodes_are_equal(g, a, b, i)) return false;
    return true;
}

/* Scopes that follow each other in one parent are compared with the first of those that are equal so far. */
static void compare_children(view_graph *g, const view_scope *parent) {
    int first = parent->first_child;
    for (int c = first; c >= 0; c = g->scopes[c].next) {
        const view_scope *a = &g->scopes[first], *b = &g->scopes[c];
        if (c == first || !scopes_are_equal(g, a, b))
            first = c;
        else
            g->scopes[c].same = first;
    }
}

void view_equal(view_graph *g) {
    for (int i = 0; i < g->n_scopes; i++) compare_children(g, &g->scopes[i]);
}
