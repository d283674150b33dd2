/* map.c - a treap (Seidel and Aragon 1996) of extents, ordered by space and first byte. Weights come from a
 * counter, so that two proofs of one plan do the same steps. Expected depth is O(log n). */
#include "runtime/verify/map.h"

#include <string.h>

typedef struct map_node {
    verify_extent e;
    uint32_t left, right, weight; /* a node's weight is at least that of every node below it */
} map_node;

/* The order of the tree. Extents in it are disjoint, so their first bytes suffice. */
static bool comes_before(verify_range a, verify_range b) {
    if (a.space != b.space) return (uintptr_t)a.space < (uintptr_t)b.space;
    return a.begin < b.begin;
}

/* ---- nodes ---- */

/* A node from the free list, or a new one; 0 and is_out_of_memory when memory is out. */
static uint32_t node_alloc(verify_map *m, verify_extent e) {
    uint32_t at = m->unused;
    if (!at && m->count + 1 >= m->room) {
        map_node *more = mem_grow(m->env, m->nodes, &m->room, (size_t)m->count + 2, sizeof *more);
        if (!more) return m->is_out_of_memory = true, 0;
        m->nodes = more;
    }
    if (at)
        m->unused = m->nodes[at].left;
    else
        at = ++m->count;
    /* A multiplicative hash of the count: deterministic, and as good as random for balance. */
    uint64_t random = ++m->added * 0x9e3779b97f4a7c15u;
    m->nodes[at] = (map_node){.e = e, .weight = (uint32_t)((random ^ random >> 29) >> 8)};
    return at;
}

/* The left child becomes the root of the subtree; order is kept, as in rotate_left. */
static uint32_t rotate_right(verify_map *m, uint32_t at) {
    uint32_t up = m->nodes[at].left;
    m->nodes[at].left = m->nodes[up].right;
    m->nodes[up].right = at;
    return up;
}

static uint32_t rotate_left(verify_map *m, uint32_t at) {
    uint32_t up = m->nodes[at].right;
    m->nodes[at].right = m->nodes[up].left;
    m->nodes[up].left = at;
    return up;
}

/* Returns the root of the subtree with node `added` in it. */
static uint32_t insert(verify_map *m, uint32_t at, uint32_t added) {
    map_node *n = &m->nodes[at];
    if (!at) return added;
    if (comes_before(m->nodes[added].e.range, n->e.range)) {
        n->left = insert(m, n->left, added);
        return m->nodes[n->left].weight > n->weight ? rotate_right(m, at) : at;
    }
    n->right = insert(m, n->right, added);
    return m->nodes[n->right].weight > n->weight ? rotate_left(m, at) : at;
}

/* One tree of two, where all of `a` comes before all of `b`. */
static uint32_t join_trees(verify_map *m, uint32_t a, uint32_t b) {
    if (!a || !b) return a ? a : b;
    if (m->nodes[a].weight > m->nodes[b].weight) {
        m->nodes[a].right = join_trees(m, m->nodes[a].right, b);
        return a;
    }
    m->nodes[b].left = join_trees(m, a, m->nodes[b].left);
    return b;
}

/* Removes the extent that begins where r does, and frees its node; returns the subtree's root. */
static uint32_t erase(verify_map *m, uint32_t at, verify_range r) {
    map_node *n = &m->nodes[at];
    if (comes_before(r, n->e.range)) {
        n->left = erase(m, n->left, r);
        return at;
    }
    if (comes_before(n->e.range, r)) {
        n->right = erase(m, n->right, r);
        return at;
    }
    uint32_t rest = join_trees(m, n->left, n->right);
    n->left = m->unused;
    m->unused = at;
    return rest;
}

/* Adds an extent unless it is empty. */
static void add_extent(verify_map *m, verify_extent e) {
    uint32_t at = e.range.begin < e.range.end ? node_alloc(m, e) : 0;
    if (at) m->root = insert(m, m->root, at);
}

/* ---- the calls ---- */

/* One walk down: the leftmost extent that does not end before r. */
const verify_extent *verify_map_first(const verify_map *m, verify_range r) {
    const verify_extent *found = NULL;
    for (uint32_t at = m->root; at;) {
        const map_node *n = &m->nodes[at];
        bool ends_before =
            n->e.range.space == r.space ? n->e.range.end <= r.begin : comes_before(n->e.range, r);
        if (!ends_before) found = &n->e;
        at = ends_before ? n->right : n->left;
    }
    return found && ranges_meet(found->range, r) ? found : NULL;
}

/* What an extent has before and after r stays as two extents. */
void verify_map_drop(verify_map *m, verify_range r) {
    for (const verify_extent *e = verify_map_first(m, r); e && !m->is_out_of_memory;
         e = verify_map_first(m, r)) {
        verify_extent before = *e, behind = *e;
        m->root = erase(m, m->root, before.range);
        before.range.end = r.begin;
        behind.range.begin = r.end;
        add_extent(m, before);
        add_extent(m, behind);
    }
}

void verify_map_claim(verify_map *m, verify_range r, const void *owner) {
    verify_map_drop(m, r);
    add_extent(m, (verify_extent){.range = r, .owner = owner, .stamp = ++m->stamp});
}

void verify_map_free(verify_map *m) {
    mem_free(m->env, m->nodes, m->room * sizeof *m->nodes);
    *m = (verify_map){.env = m->env};
}
