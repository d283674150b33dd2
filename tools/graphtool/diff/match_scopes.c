/* match_scopes.c - pairs the scopes of two graphs, from the root down: within a pair, the scopes in them. */
#include "tools/graphtool/diff/match.h"

#include "tools/graphtool/diff/sequence.h"
#include "tools/graphtool/output/end.h"

#include <ctype.h>
#include <string.h>

static void pair_scopes(graph_match *m, int a, int b) {
    m->side[0].scopes[a].other = b;
    m->side[1].scopes[b].other = a;
}

/* The scopes in one, of those that are in no pair. */
typedef struct children {
    int n, *v;
    uint64_t *key, *calls;
} children;

static children unpaired_in(const match_side *s, int scope) {
    children c = {0};
    int n = 0;
    for (int i = s->scopes[scope].first; i >= 0; i = s->scopes[i].next) n++;
    c.v = match_new(s->memory, (size_t)n, sizeof *c.v);
    c.key = match_new(s->memory, (size_t)n, sizeof *c.key);
    c.calls = match_new(s->memory, (size_t)n, sizeof *c.calls);
    for (int i = s->scopes[scope].first; i >= 0; i = s->scopes[i].next)
        if (s->scopes[i].other < 0) c.v[c.n++] = i;
    return c;
}

/* The scope of that name in another one; -1: there is none. */
static int child_named(const match_side *s, int scope, const char *name) {
    const char *path = s->scopes[scope].path;
    const char *whole = *path ? tool_text("%s/%s", path, name) : name;
    return (int)(intptr_t)table_find(&s->by_path, whole) - 1;
}

/* A name without its digits: "block" for "block12"; equal in layers that are counted. */
uint64_t match_stem(const char *name, uint64_t h) {
    for (; *name; name++)
        if (!isdigit((unsigned char)*name)) h = match_mix(h, (unsigned char)*name);
    return h;
}

static bool has_digit(const char *name) {
    return name[strcspn(name, "0123456789")] != 0;
}

/* Of the scopes in one that are in no pair, those with numbers in their names. Keys have the stem, too. */
static children counted_in(const match_side *s, int scope) {
    children all = unpaired_in(s, scope);
    int kept = 0;
    for (int i = 0; i < all.n; i++) {
        const match_scope *it = &s->scopes[all.v[i]];
        if (!has_digit(it->name)) continue;
        all.v[kept] = all.v[i];
        all.key[kept] = match_stem(it->name, it->content);
        all.calls[kept++] = match_stem(it->name, it->calls);
    }
    all.n = kept;
    return all;
}

/* Layers that are counted: where one was inserted, the names of those after it have moved, their contents
 * have not. Between those of equal contents, the ones that differ in shapes alone. */
static void pair_counted(graph_match *m, int a, int b) {
    const children one = counted_in(&m->side[0], a), other = counted_in(&m->side[1], b);
    int *pair = match_new(m->side[0].memory, (size_t)one.n, sizeof *pair);
    int *between = match_new(m->side[0].memory, (size_t)one.n, sizeof *between);
    sequence_match(one.key, one.n, other.key, other.n, pair);
    for (int i = 0, from = 0, next = 0; i <= one.n; i++) {
        if (i < one.n && pair[i] < 0) continue;
        int until = i < one.n ? pair[i] : other.n;
        sequence_match(one.calls + from, i - from, other.calls + next, until - next, between);
        for (int k = from; k < i; k++)
            if (between[k - from] >= 0) pair_scopes(m, one.v[k], other.v[next + between[k - from]]);
        if (i < one.n) pair_scopes(m, one.v[i], other.v[until]);
        from = i + 1, next = until + 1;
    }
}

static void pair_named(graph_match *m, int a, int b) {
    const children of = unpaired_in(&m->side[0], a);
    for (int i = 0; i < of.n; i++) {
        int same = child_named(&m->side[1], b, m->side[0].scopes[of.v[i]].name);
        if (same >= 0 && m->side[1].scopes[same].other < 0) pair_scopes(m, of.v[i], same);
    }
}

/* Scopes of these two that no name pairs, where the contents are equal whole: the first with the first. One
 * that holds a single node says too little. */
static void pair_renamed(graph_match *m, const children *a, const children *b) {
    enum { MOST = 1 << 24 }; /* each is compared with each */
    if ((int64_t)a->n * b->n > MOST) return;
    for (int i = 0; i < a->n; i++) {
        const match_scope *it = &m->side[0].scopes[a->v[i]];
        for (int k = 0; k < b->n && it->other < 0 && it->nodes > 1; k++) {
            const match_scope *as = &m->side[1].scopes[b->v[k]];
            if (as->other < 0 && as->content == it->content && as->nodes > 1)
                pair_scopes(m, a->v[i], b->v[k]);
        }
    }
}

/* Those of equal content are in pairs all the way down. */
static void pair_children(graph_match *m, int a, int b) {
    pair_counted(m, a, b);
    pair_named(m, a, b);
    const children left = unpaired_in(&m->side[0], a), right = unpaired_in(&m->side[1], b);
    pair_renamed(m, &left, &right);
}

/* All scopes without a pair in a scope with one: the tops of what is in one graph alone. */
static children tops_of(const match_side *s) {
    children c = {.v = match_new(s->memory, (size_t)s->n_scopes, sizeof *c.v)};
    for (int i = 1; i < s->n_scopes; i++)
        if (s->scopes[i].other < 0 && s->scopes[s->scopes[i].parent].other >= 0) c.v[c.n++] = i;
    return c;
}

static void pair_below(graph_match *m, int from) {
    for (int a = from; a < m->side[0].n_scopes; a++)
        if (m->side[0].scopes[a].other >= 0) pair_children(m, a, m->side[0].scopes[a].other);
}

/* Scopes come after those around them, so one walk meets each pair after it was made. */
void match_pair_scopes(graph_match *m) {
    pair_scopes(m, 0, 0);
    pair_below(m, 0);
    const children left = tops_of(&m->side[0]), right = tops_of(&m->side[1]);
    if (!left.n || !right.n) return;
    pair_renamed(m, &left, &right);
    pair_below(m, 0);
}
