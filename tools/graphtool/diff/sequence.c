/* sequence.c - see sequence.h. What both begin and end with is the same; elements that the other one lacks
 * are left out; what remains goes through the greedy algorithm of Myers ("An O(ND) difference algorithm and
 * its variations", 1986). */
#include "tools/graphtool/diff/sequence.h"

#include "tools/graphtool/output/end.h"

#include <stdlib.h>
#include <string.h>

/* The records of a search take the square of this many edits, elements of one of the two alone: then what has
 * come furthest is taken, and the search begins there again. */
enum { MOST_EDITS = 1000 };

/* Elements that may have a counterpart: their keys, and their places in the whole sequence. */
typedef struct part {
    int n;
    uint64_t *key;
    int *place;
} part;

static int keys_in_order(const void *pa, const void *pb) {
    uint64_t a = *(const uint64_t *)pa, b = *(const uint64_t *)pb;
    return (a > b) - (a < b);
}

/* Of keys[n], those that are among others[m], which are sorted. */
static part shared_part(arena *memory, const uint64_t *keys, int n, const uint64_t *others, int m) {
    part p = {.key = tool_need(arena_new_array(memory, n, sizeof *p.key)),
              .place = tool_need(arena_new_array(memory, n, sizeof *p.place))};
    for (int i = 0; i < n; i++) {
        if (!bsearch(&keys[i], others, (size_t)m, sizeof *others, keys_in_order)) continue;
        p.key[p.n] = keys[i];
        p.place[p.n++] = i;
    }
    return p;
}

static uint64_t *sorted_keys(arena *memory, const uint64_t *keys, int n) {
    uint64_t *copy = tool_need(arena_new_array(memory, n, sizeof *copy));
    if (n) memcpy(copy, keys, (size_t)n * sizeof *copy);
    qsort(copy, (size_t)n, sizeof *copy, keys_in_order);
    return copy;
}

/* ---- Myers ---- */

/* reach[d][k + d]: how far in a the furthest way of d edits comes on diagonal k, which is the place in a less
 * that in b. */
typedef struct ways {
    const part *a, *b;
    int *reach[MOST_EDITS + 1];
} ways;

/* Whether a way of d edits comes to diagonal k from the one above: by an element of b alone. */
static bool comes_down(const int *before, int d, int k) {
    if (k == -d) return true;
    return k != d && before[k - 1 + d - 1] < before[k + 1 + d - 1];
}

/* Fills reach[d]; true where a way is at both ends. */
static bool extend_ways(ways *w, int d) {
    const int *before = d ? w->reach[d - 1] : NULL;
    for (int k = -d; k <= d; k += 2) {
        int x = 0;
        if (d) x = comes_down(before, d, k) ? before[k + 1 + d - 1] : before[k - 1 + d - 1] + 1;
        while (x < w->a->n && x - k < w->b->n && x - k >= 0 && w->a->key[x] == w->b->key[x - k]) x++;
        w->reach[d][k + d] = x;
        if (x >= w->a->n && x - k >= w->b->n) return true;
    }
    return false;
}

/* Walks back from places x and y, after d edits: what is on a diagonal is equal. */
static void note_pairs(const ways *w, int d, int x, int y, int *pair) {
    for (; d >= 0; d--) {
        int k = x - y, from = 0, last = 0;
        if (d) {
            const int *before = w->reach[d - 1];
            last = comes_down(before, d, k) ? k + 1 : k - 1;
            from = before[last + d - 1];
        }
        int start = !d ? 0 : last == k + 1 ? from : from + 1;
        while (x > start) x--, y--, pair[w->a->place[x]] = w->b->place[y];
        x = from, y = d ? from - last : 0;
    }
}

/* Of the ways of d edits, the place in a of the one that has come furthest in both; *y: that in b. */
static int furthest(const ways *w, int d, int *y) {
    int best = 0;
    *y = 0;
    for (int k = -d; k <= d; k += 2) {
        int x = w->reach[d][k + d];
        if (x > w->a->n || x - k > w->b->n || x + x - k <= best + *y) continue;
        best = x, *y = x - k;
    }
    return best;
}

/* Finds pairs from the beginnings on, to both ends or until there are MOST_EDITS; leaves in *a and *b what is
 * after them. */
static void match_shortest(part *a, part *b, int *pair) {
    arena memory;
    ways w = {.a = a, .b = b};
    int d = 0, x = a->n, y = b->n;
    arena_init(&memory, NULL);
    for (;; d++) {
        w.reach[d] = tool_need(arena_new_array(&memory, 2 * (size_t)d + 1, sizeof *w.reach[d]));
        if (extend_ways(&w, d)) break;
        if (d < MOST_EDITS) continue;
        x = furthest(&w, d, &y);
        break;
    }
    note_pairs(&w, d, x, y, pair);
    arena_free(&memory);
    *a = (part){a->n - x, a->key + x, a->place + x};
    *b = (part){b->n - y, b->key + y, b->place + y};
}

void sequence_match(const uint64_t *a, int n, const uint64_t *b, int m, int *pair) {
    arena memory;
    int first = 0, last = 0; /* equal elements at both beginnings, at both ends */
    for (int i = 0; i < n; i++) pair[i] = -1;
    for (; first < n && first < m && a[first] == b[first]; first++) pair[first] = first;
    for (; last < n - first && last < m - first && a[n - 1 - last] == b[m - 1 - last]; last++)
        pair[n - 1 - last] = m - 1 - last;
    n -= first + last, m -= first + last;
    if (!n || !m) return;
    arena_init(&memory, NULL);
    part pa = shared_part(&memory, a + first, n, sorted_keys(&memory, b + first, m), m);
    part pb = shared_part(&memory, b + first, m, sorted_keys(&memory, a + first, n), n);
    for (int i = 0; i < pa.n; i++) pa.place[i] += first;
    for (int i = 0; i < pb.n; i++) pb.place[i] += first;
    while (pa.n && pb.n) match_shortest(&pa, &pb, pair);
    arena_free(&memory);
}
