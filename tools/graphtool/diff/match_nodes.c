/* match_nodes.c - pairs the nodes of two graphs whose scopes are paired. */
#include "tools/graphtool/diff/match.h"

#include "tools/graphtool/diff/sequence.h"
#include "tools/graphtool/output/end.h"

#include <stdlib.h>
#include <string.h>

enum { PHASES = 3 /* forward, backward, update */ };

void *match_new(arena *memory, size_t count, size_t width) {
    return tool_need(arena_new_array(memory, count + 1, width));
}

static void pair_nodes(graph_match *m, int a, int b) {
    m->side[0].other[a] = b;
    m->side[1].other[b] = a;
}

/* ---- what has a name ---- */

const char *match_path(const graph_match *m, int side, const char *path) {
    const match_side *s = &m->side[side], *to = &m->side[!side];
    for (size_t n = strlen(path); n > 0; n--) {
        if (path[n] != '/') continue;
        int at = (int)(intptr_t)table_find(&s->by_path, tool_cut(path, path + n)) - 1;
        if (at < 0 || s->scopes[at].other < 0) continue;
        const char *other = to->scopes[s->scopes[at].other].path;
        return strlen(other) == n && memcmp(other, path, n) == 0 ? path : tool_text("%s%s", other, path + n);
    }
    return path;
}

/* "parameter fc/weight": inputs and variables have names of their own. `path`: that of the variable. */
static const char *name_of_node(const weft_node *n, const char *path) {
    return tool_text("%s %s", n->op->name, n->op == &weft_op_input ? input_name(n) : path);
}

static const char *variable_path(const weft_node *n) {
    return n->op == &weft_op_input ? "" : n->variable->path;
}

/* Those whose paths lead to each other, as the scopes around them pair; then the others by one path. */
static void pair_named_nodes(graph_match *m) {
    const match_side *a = &m->side[0], *b = &m->side[1];
    name_table known = {0};
    for (int i = 0; i < b->n; i++) {
        const weft_node *n = b->nodes[i];
        if (match_is_named(n) &&
            !table_add(&known, b->memory, name_of_node(n, variable_path(n)), (void *)(intptr_t)(i + 1)))
            tool_fail("out of memory");
    }
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < a->n; i++) {
            if (!match_is_named(a->nodes[i]) || a->other[i] >= 0) continue;
            const char *path = variable_path(a->nodes[i]);
            const char *there = round ? path : match_path(m, 0, path);
            int at = (int)(intptr_t)table_find(&known, name_of_node(a->nodes[i], there)) - 1;
            bool is_free = at >= 0 && b->other[at] < 0;
            if (is_free && (round || strcmp(match_path(m, 1, there), path) == 0)) pair_nodes(m, i, at);
        }
}

/* ---- one scope with the other ---- */

typedef struct places {
    int n, *v;
} places;

static void align(graph_match *m, places a, places b, int key);

/* A node that stands in the place of another one: one of each is left between two pairs. */
static void pair_alone(graph_match *m, places a, places b) {
    if (a.n != 1 || b.n != 1) return;
    const weft_node *x = m->side[0].nodes[a.v[0]], *y = m->side[1].nodes[b.v[0]];
    if (x->n_in == y->n_in && x->n_out == y->n_out) pair_nodes(m, a.v[0], b.v[0]);
}

/* Pairs nodes of equal keys, and those between them by the next one. */
static void align(graph_match *m, places a, places b, int key) {
    arena memory;
    if (!a.n || !b.n) return;
    if (key == MATCH_KEYS) {
        pair_alone(m, a, b);
        return;
    }
    arena_init(&memory, NULL);
    uint64_t *keys[2] = {match_new(&memory, (size_t)a.n, sizeof(uint64_t)),
                         match_new(&memory, (size_t)b.n, sizeof(uint64_t))};
    int *pair = match_new(&memory, (size_t)a.n, sizeof *pair);
    for (int i = 0; i < a.n; i++) keys[0][i] = m->side[0].key[key][a.v[i]];
    for (int i = 0; i < b.n; i++) keys[1][i] = m->side[1].key[key][b.v[i]];
    sequence_match(keys[0], a.n, keys[1], b.n, pair);
    for (int i = 0, from = 0, next = 0; i <= a.n; i++) {
        if (i < a.n && pair[i] < 0) continue;
        int until = i < a.n ? pair[i] : b.n;
        align(m, (places){i - from, a.v + from}, (places){until - next, b.v + next}, key + 1);
        if (i < a.n) pair_nodes(m, a.v[i], b.v[until]);
        from = i + 1, next = until + 1;
    }
    arena_free(&memory);
}

/* The nodes of each scope and phase that have no name, in order: of scope s and phase p at s * PHASES + p. */
static places *nodes_by_scope(const match_side *s) {
    places *all = match_new(s->memory, (size_t)s->n_scopes * PHASES, sizeof *all);
    int *list = match_new(s->memory, (size_t)s->n, sizeof *list), used = 0;
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < s->n; i++) {
            const weft_node *n = s->nodes[i];
            if (match_is_named(n)) continue;
            places *p = &all[s->scope[i] * PHASES + (n->is_update ? 2 : n->is_backward)];
            if (round) p->v[p->n] = i;
            p->n++;
        }
        for (int k = 0; !round && k < s->n_scopes * PHASES; k++) {
            all[k].v = list + used;
            used += all[k].n;
            all[k].n = 0;
        }
    }
    return all;
}

/* ---- one of an op ---- */

/* The one node of that key among some; -1: there is none, or there are several. */
static int only_with(const match_side *s, places p, uint64_t key) {
    int found = -1;
    for (int i = 0; i < p.n; i++) {
        if (s->other[p.v[i]] >= 0 || s->key[KEY_OP][p.v[i]] != key) continue;
        if (found >= 0) return -1;
        found = p.v[i];
    }
    return found;
}

static places unpaired_of(const match_side *s, places p) {
    places left = {.v = match_new(s->memory, (size_t)p.n, sizeof *left.v)};
    for (int i = 0; i < p.n; i++)
        if (s->other[p.v[i]] < 0) left.v[left.n++] = p.v[i];
    return left;
}

/* Passes make nodes again, in another order: of a scope's nodes that are left, the only ones of an op. */
static void pair_only(graph_match *m, places a, places b) {
    enum { FEW = 256 };
    a = unpaired_of(&m->side[0], a), b = unpaired_of(&m->side[1], b);
    if (a.n > FEW || b.n > FEW) return;
    for (int i = 0; i < a.n; i++) {
        uint64_t key = m->side[0].key[KEY_OP][a.v[i]];
        int other = only_with(&m->side[1], b, key);
        if (other >= 0 && only_with(&m->side[0], a, key) == a.v[i]) pair_nodes(m, a.v[i], other);
    }
}

/* ---- all scopes ---- */

typedef enum pairing_way { IN_ORDER, ONLY_ONES } pairing_way;

/* Within every pair of scopes, phase by phase. */
static void pair_within(graph_match *m, pairing_way way) {
    const places *a = nodes_by_scope(&m->side[0]), *b = nodes_by_scope(&m->side[1]);
    for (int s = 0; s < m->side[0].n_scopes; s++) {
        int other = m->side[0].scopes[s].other;
        for (int p = 0; p < PHASES && other >= 0; p++)
            if (way == IN_ORDER)
                align(m, a[s * PHASES + p], b[other * PHASES + p], KEY_EXACT);
            else
                pair_only(m, a[s * PHASES + p], b[other * PHASES + p]);
    }
}

/* ---- what is left ---- */

/* A node that has no pair, by what it computes of which nodes. */
typedef struct leftover {
    uint64_t key;
    int place;
} leftover;

static int by_leftover(const void *pa, const void *pb) {
    const leftover *a = pa, *b = pb;
    if (a->key != b->key) return a->key < b->key ? -1 : 1;
    return a->place - b->place;
}

/* Of call and operands, these by their places in the first graph; false where one of them has no pair. Nodes
 * that read nothing are not known by it. */
static bool reading_key(const graph_match *m, int side, int i, uint64_t *key) {
    const match_side *s = &m->side[side];
    const weft_node *n = s->nodes[i];
    uint64_t h = s->key[KEY_CALL][i];
    for (int k = 0; k < n->n_in; k++) {
        int from = n->in[k] ? s->of_value[n->in[k]->id] : -1;
        if (from >= 0 && side) from = s->other[from];
        if (n->in[k] && from < 0) return false;
        h = match_mix(h, (uint64_t)(from + 1) << 8 | (uint64_t)(n->in[k] ? n->in[k]->index : 0));
    }
    *key = h;
    return n->n_in > 0;
}

static bool is_left(const match_side *s, int i) {
    return s->other[i] < 0 && !match_is_named(s->nodes[i]);
}

/* Nodes that moved, in their scope or to another one. A pair makes more operands known. */
static void pair_moved(graph_match *m) {
    const match_side *a = &m->side[0], *b = &m->side[1];
    leftover *left = match_new(a->memory, (size_t)a->n, sizeof *left);
    uint64_t key;
    int n = 0;
    for (int i = 0; i < a->n; i++)
        if (is_left(a, i) && reading_key(m, 0, i, &key)) left[n++] = (leftover){key, i};
    qsort(left, (size_t)n, sizeof *left, by_leftover);
    for (int i = 0; n && i < b->n; i++) {
        if (!is_left(b, i) || !reading_key(m, 1, i, &key)) continue;
        int low = 0, high = n;
        while (low < high) {
            int middle = low + (high - low) / 2;
            if (left[middle].key < key)
                low = middle + 1;
            else
                high = middle;
        }
        while (low < n && left[low].key == key && a->other[left[low].place] >= 0) low++;
        if (low < n && left[low].key == key) pair_nodes(m, left[low].place, i);
    }
}

void match_pair_nodes(graph_match *m) {
    pair_named_nodes(m);
    pair_within(m, IN_ORDER);
    pair_moved(m);
    if (m->side[0].g->model->is_bound && m->side[1].g->model->is_bound) pair_within(m, ONLY_ONES);
}

/* ---- the whole ---- */

static void free_memory(void *memory) {
    arena_free(memory);
}

/* Of all nodes, with their scopes. */
static uint64_t whole_key(const match_side *s) {
    uint64_t h = (uint64_t)s->n;
    for (int i = 0; i < s->n; i++) h = hash_text(s->nodes[i]->scope, match_mix(h, s->key[KEY_EXACT][i]));
    return h;
}

/* Of several subsequences as long a search finds one, which depends on what comes first: so the graph with
 * the lower key does (M2). */
graph_match graph_match_of(const weft_graph *a, const weft_graph *b) {
    graph_match m = {0};
    const weft_graph *g[2] = {a, b};
    for (int i = 0; i < 2; i++) {
        m.side[i].memory = tool_keep(tool_new(1, sizeof(arena)), free_memory);
        match_read_side(&m.side[i], g[i]);
    }
    bool is_swapped = whole_key(&m.side[0]) > whole_key(&m.side[1]);
    graph_match way = {{m.side[is_swapped], m.side[!is_swapped]}};
    match_pair_scopes(&way);
    match_pair_nodes(&way);
    return (graph_match){{way.side[is_swapped], way.side[!is_swapped]}};
}

const weft_node *match_other(const graph_match *m, int side, const weft_node *n) {
    int other = m->side[side].other[match_place(&m->side[side], n)];
    return other < 0 ? NULL : m->side[!side].nodes[other];
}
