/* users.h - who waits for whom in a list of nodes: an operand's node, and those that a node stands behind for another reason
 * (`after`), are its needs; it is their user. */
#ifndef WEFT_GRAPH_CORE_USERS_H
#define WEFT_GRAPH_CORE_USERS_H

#include "graph/core/graph.h"

/* Need i of node_needs(n); NULL: an operand that is left out. */
static inline int node_needs(const weft_node *n) {
    return n->n_in + n->n_after;
}
static inline weft_node *node_need(const weft_node *n, int i) {
    return i >= n->n_in ? n->after[i - n->n_in] : n->in[i] ? n->in[i]->node : NULL;
}

/* The users of node i, by place in the list, are list[of[first[i]]] to before list[of[first[i + 1]]]; one that needs a node
 * twice is there twice. */
typedef struct node_users {
    int *of, *first;
} node_users;
/* list[i]->order is i, and all needs are in the list. Memory is the arena's; false when it is out. */
bool node_users_find(node_users *u, arena *a, weft_node *const *list, int count);

#endif
