/* users.h - the edges of a list of nodes in both directions. The needs of a node are the nodes that must run
 * before it: those of its operands, and those in `after`. It is a user of each of them. */
#ifndef WEFT_GRAPH_CORE_USERS_H
#define WEFT_GRAPH_CORE_USERS_H

#include "graph/core/graph.h"

/* The number of needs, and need i; NULL: an optional operand that is missing. */
static inline int node_needs(const weft_node *n) {
    return n->n_in + n->n_after;
}
static inline weft_node *node_need(const weft_node *n, int i) {
    return i >= n->n_in ? n->after[i - n->n_in] : n->in[i] ? n->in[i]->node : NULL;
}

/* The users of all nodes as places in the list: those of node i are of[first[i]] to of[first[i + 1] - 1]. A
 * user that needs a node twice is listed twice. */
typedef struct node_users {
    int *of, *first;
} node_users;
/* Fills u from list[0 .. count), where list[i]->order must be i and the list must hold all needs. The arrays
 * come from `a`. O(nodes + edges); false when memory is out. */
bool node_users_find(node_users *u, arena *a, weft_node *const *list, int count);

#endif
