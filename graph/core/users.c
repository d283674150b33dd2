/* users.c - see users.h. */
#include "graph/core/users.h"

/* A counting sort of edges: first[i] becomes the end of node i's part, then each part is filled from its
 * end, which leaves first[i] at its start. Nodes are taken last to first, so that users come out in the order
 * of the list. */
bool node_users_find(node_users *u, arena *a, weft_node *const *list, int count) {
    size_t edges = 0;
    for (int i = 0; i < count; i++) edges += (size_t)node_needs(list[i]);
    u->first = arena_new_array(a, count + 2, sizeof *u->first);
    u->of = arena_new_array(a, edges + 1, sizeof *u->of);
    if (!u->first || !u->of) return false;
    for (int i = 0; i < count; i++)
        for (int k = 0; k < node_needs(list[i]); k++)
            if (node_need(list[i], k)) u->first[node_need(list[i], k)->order]++;
    for (int i = 1; i <= count; i++) u->first[i] += u->first[i - 1];
    for (int i = count; i--;)
        for (int k = 0; k < node_needs(list[i]); k++)
            if (node_need(list[i], k)) u->of[--u->first[node_need(list[i], k)->order]] = i;
    return true;
}
