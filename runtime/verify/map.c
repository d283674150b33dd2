/* map.c - a treap (Seidel and Aragon 1996) of extents, ordered by space and first byte. Weights come from a
 * counter, so that two proofs of one plan do the same steps. Expected depth is O(log n). */
#include "runtime/verify/map.h"

typedef struct map_node {
    verify_extent e;
    struct map_node *left, *right;
    uint32_t weight; /* at least that of every node below it */
} map_node;

/* The order of the tree. Extents in it are disjoint, so their first bytes suffice. */
static bool comes_before(verify_range a, verify_range b) {
    if (a.space != b.space) return (uintptr_t)a.space < (uintptr_t)b.space;
    return a.begin < b.begin;
}

/* ---- nodes ---- */

/* A node from the free list, or a new one; NULL and is_out_of_memory when memory is out. */
static map_node *node_alloc(verify_map *m, verify_extent e) {
    map_node *n = m->unused ? m->unused : arena_new(m->memory, sizeof *n);
    if (!n) return m->is_out_of_memory = true, NULL;
    if (m->unused) m->unused = n->left;
    /* A multiplicative hash of the count: deterministic, and as good as random for balance. */
    uint64_t random = ++m->added * 0x9e3779b97f4a7c15u;
    *n = (map_node){.e = e, .weight = (uint32_t)((random ^ random >> 29) >> 8)};
    return n;
}

/* Returns the root of the subtree with node `added` in it. A child that is heavier than its parent goes up,
 * by a rotation, which keeps the order. */
static map_node *insert(map_node *at, map_node *added) {
    if (!at) return added;
    bool is_left = comes_before(added->e.range, at->e.range);
    map_node **side = is_left ? &at->left : &at->right, *up = *side = insert(*side, added);
    if (up->weight <= at->weight) return at;
    map_node **inner = is_left ? &up->right : &up->left;
    *side = *inner;
    *inner = at;
    return up;
}

/* One tree of two, where all of `a` comes before all of `b`. */
static map_node *join_trees(map_node *a, map_node *b) {
    if (!a || !b) return a ? a : b;
    if (a->weight > b->weight) {
        a->right = join_trees(a->right, b);
        return a;
    }
    b->left = join_trees(a, b->left);
    return b;
}

/* Removes the extent that begins where r does, and frees its node. */
static void erase(verify_map *m, verify_range r) {
    map_node **link = &m->root, *n;
    while (comes_before(r, (n = *link)->e.range) || comes_before(n->e.range, r))
        link = comes_before(r, n->e.range) ? &n->left : &n->right;
    *link = join_trees(n->left, n->right);
    n->left = m->unused;
    m->unused = n;
}

/* Adds an extent unless it is empty. */
static void add_extent(verify_map *m, verify_extent e) {
    map_node *n = e.range.begin < e.range.end ? node_alloc(m, e) : NULL;
    if (n) m->root = insert(m->root, n);
}

/* ---- the calls ---- */

/* One walk down: the leftmost extent that does not end before r. */
const verify_extent *verify_map_first(const verify_map *m, verify_range r) {
    const verify_extent *found = NULL;
    for (const map_node *n = m->root; n;) {
        bool ends_before =
            n->e.range.space == r.space ? n->e.range.end <= r.begin : comes_before(n->e.range, r);
        if (!ends_before) found = &n->e;
        n = ends_before ? n->right : n->left;
    }
    return found && ranges_meet(found->range, r) ? found : NULL;
}

/* What an extent has before and after r stays as two extents. */
void verify_map_drop(verify_map *m, verify_range r) {
    for (const verify_extent *e; (e = verify_map_first(m, r)) && !m->is_out_of_memory;) {
        verify_extent before = *e, behind = *e;
        erase(m, before.range);
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
