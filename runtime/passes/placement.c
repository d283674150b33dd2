/* placement.c - a segment tree over the steps of a schedule. A node covers a stretch of steps and keeps two
 * sets of runs (byte ranges without a gap): `over`, bytes occupied in all of its steps, and `within`, bytes
 * occupied in any of them. The bytes occupied somewhere in [first, last] are the `within` of the nodes that
 * make it up and the `over` of the nodes above these: about 4 log n sets. Neighbouring runs are merged, so
 * where buffers are close together there are few.
 *
 * Scattered runs cost look-ups, which are counted. After a few thousand for each buffer, the remaining
 * buffers are put on top of all that they would overlap. So any graph is placed in linear time, and a usual
 * one in the memory of exact first fit by size. */
#include "runtime/passes/placement.h"

#include <string.h>

typedef struct run {
    int64_t begin, end;
} run;

typedef struct run_set {
    run *v; /* ascending, with gaps between them */
    int count, room;
} run_set;

enum { PROBES = 4096 /* for each buffer */, MOST_SETS = 160 };

/* ---- runs ---- */

/* The index of the first run that ends after `at`. Binary search. */
static int run_behind(const run_set *s, int64_t at) {
    int low = 0, high = s->count;
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (s->v[middle].end <= at)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool make_room(placement *p, run_set *s) {
    if (s->count < s->room) return true;
    int room = s->room ? 2 * s->room : 2;
    run *more = arena_new_array(&p->memory, room, sizeof *more);
    if (!more) return false;
    if (s->count) memcpy(more, s->v, (size_t)s->count * sizeof *more);
    s->v = more;
    s->room = room;
    return true;
}

/* Inserts r into a set and merges it with runs that touch it. Moving the tail of the array counts as
 * look-ups. */
static bool add_run(placement *p, run_set *s, run r) {
    int at = run_behind(s, r.begin - 1), end = at; /* runs [at, end) touch r and are merged with it */
    for (; end < s->count && s->v[end].begin <= r.end; end++) {
        if (s->v[end].begin < r.begin) r.begin = s->v[end].begin;
        if (s->v[end].end > r.end) r.end = s->v[end].end;
    }
    if (at == end && !make_room(p, s)) return false;
    memmove(s->v + at + 1, s->v + end, (size_t)(s->count - end) * sizeof *s->v);
    p->probes -= (s->count - end) / 8;
    s->count += 1 - (end - at);
    s->v[at] = r;
    return true;
}

/* ---- the tree ---- */

/* A stretch of steps; a node of the tree with its own stretch. */
typedef struct stretch {
    int first, last;
} stretch;

typedef struct place_in_tree {
    int node;
    stretch own;
} place_in_tree;

static bool is_apart(stretch a, stretch b) {
    return a.last < b.first || b.last < a.first;
}

static bool is_whole(stretch part, stretch of) {
    return of.first <= part.first && part.last <= of.last;
}

static place_in_tree child(place_in_tree t, int right) {
    int middle = t.own.first + (t.own.last - t.own.first) / 2;
    stretch half = right ? (stretch){middle + 1, t.own.last} : (stretch){t.own.first, middle};
    return (place_in_tree){2 * t.node + right, half};
}

/* Enters run r into every node that the lifetime touches: two paths down from the root. */
static bool add_to_tree(placement *p, place_in_tree t, stretch life, run r) {
    if (is_apart(t.own, life)) return true;
    if (!add_run(p, &p->within[t.node], r)) return false;
    if (is_whole(t.own, life)) return add_run(p, &p->over[t.node], r);
    return add_to_tree(p, child(t, 0), life, r) && add_to_tree(p, child(t, 1), life, r);
}

/* Collects the sets to ask about a lifetime into list[n ..]; returns how many there are. */
static int collect_runs(const placement *p, place_in_tree t, stretch life, const run_set **list, int n) {
    if (is_apart(t.own, life)) return n;
    bool whole = is_whole(t.own, life);
    const run_set *s = whole ? &p->within[t.node] : &p->over[t.node];
    if (s->count && n < MOST_SETS) list[n++] = s;
    if (whole) return n;
    return collect_runs(p, child(t, 1), life, list, collect_runs(p, child(t, 0), life, list, n));
}

static place_in_tree root_of(const placement *p) {
    return (place_in_tree){1, {0, p->steps - 1}};
}

/* ---- the calls ---- */

bool placement_open(placement *p, const weft_env *env, int steps, int buffers) {
    *p = (placement){.steps = 1, .probes = PROBES * (int64_t)(buffers + 1)};
    arena_init(&p->memory, env);
    while (p->steps < steps) p->steps *= 2;
    p->over = arena_new_array(&p->memory, 2 * p->steps, sizeof *p->over);
    p->within = arena_new_array(&p->memory, 2 * p->steps, sizeof *p->within);
    return p->over && p->within;
}

bool placement_add(placement *p, int first, int last, int64_t begin, int64_t end) {
    return add_to_tree(p, root_of(p), (stretch){first, last}, (run){begin, end});
}

/* Goes through the sets in turn, moving `at` up past each run that overlaps, until all agree. */
int64_t placement_find(placement *p, int first, int last, int64_t bytes, int64_t floor) {
    const run_set *list[MOST_SETS];
    int n = collect_runs(p, root_of(p), (stretch){first, last}, list, 0), free_of = 0;
    int64_t at = floor;
    for (int i = 0; n && free_of < n && p->probes > 0; i = (i + 1) % n, free_of++, p->probes--) {
        int k = run_behind(list[i], at);
        if (k == list[i]->count || list[i]->v[k].begin >= at + bytes) continue;
        at = list[i]->v[k].end;
        free_of = -1; /* `at` has moved: all sets must be asked again */
    }
    for (int i = 0; i < n && p->probes <= 0; i++) {
        int64_t top = list[i]->v[list[i]->count - 1].end;
        if (top > at) at = top;
    }
    return at;
}

void placement_close(placement *p) {
    arena_free(&p->memory);
}
