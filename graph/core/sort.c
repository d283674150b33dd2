/* sort.c - moves every node after what it waits for, operands and edges, and otherwise keeps the order: a
 * depth-first topological sort in the order of the list, with a stack of its own (hostile graphs are deep),
 * O(nodes + edges). */
#include "graph/core/graph.h"

#include "graph/core/users.h"

/* Values of node->mark; OPEN nodes are on the stack. */
enum { UNSEEN = 0, OPEN = 1, PLACED = 2 };

/* A node on the stack; its needs before number `seen` are placed. */
typedef struct waiting {
    weft_node *node;
    int seen;
} waiting;

/* The next need that is not placed yet, or NULL. Operands come first, in order. */
static weft_node *missing(waiting *w) {
    const weft_node *n = w->node;
    for (; w->seen < node_needs(n); w->seen++) {
        weft_node *need = node_need(n, w->seen);
        if (need && need->mark != PLACED) return need;
    }
    return NULL;
}

/* Places a node after all that it waits for, placing that first. *circle: a node of a cycle, or NULL. */
static void place_after_operands(weft_graph *g, weft_node *node, waiting *stack, const weft_node **circle) {
    size_t depth = 0;
    stack[depth++] = (waiting){node, 0};
    while (depth && !*circle) {
        weft_node *n = stack[depth - 1].node, *before = missing(&stack[depth - 1]);
        if (!before) {
            n->mark = PLACED;
            graph_append(g, n);
            depth--;
        } else if (before->mark == OPEN || before == n) {
            *circle = n;
        } else {
            n->mark = OPEN;
            stack[depth++] = (waiting){before, 0};
        }
    }
}

/* The list is kept apart, so that it can be restored after a cycle. */
bool graph_sort_unless(weft_graph *g, const weft_node **circle) {
    size_t count = (size_t)graph_node_count(g), n_listed = 0;
    weft_node **list = arena_new_array(&g->model->arena, count + 1, sizeof *list);
    waiting *stack = arena_new_array(&g->model->arena, count + 1, sizeof *stack);
    if (!list || !stack) return graph_fail(g, WEFT_MEMORY, "sort: out of memory");
    for (weft_node *n = g->first; n; n = n->next) {
        list[n_listed++] = n;
        n->mark = UNSEEN;
    }
    graph_relink(g, NULL, 0);
    *circle = NULL;
    for (size_t i = 0; i < count && !*circle; i++)
        if (list[i]->mark == UNSEEN) place_after_operands(g, list[i], stack, circle);
    if (*circle) graph_relink(g, list, (int)count);
    return true;
}

bool graph_sort(weft_graph *g) {
    const weft_node *circle;
    if (!graph_sort_unless(g, &circle)) return false;
    return !circle || node_fail(g->model, circle, WEFT_INTERNAL, "sort: %s %%%d waits for itself",
                                circle->op->name, circle->id);
}
