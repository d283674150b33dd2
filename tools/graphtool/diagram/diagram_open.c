/* diagram_open.c - opens boxes, the outer ones first, while the units are few. Where not all boxes of a level
 * can be open, those that train come first, then the rest of the forward pass, then updates; a scope opens
 * together with its backward. */
#include "tools/graphtool/diagram/diagram.h"

#include <stdlib.h>
#include <string.h>

/* Boxes that open together: the first of them, and how soon. */
typedef struct opening {
    diagram_box *first;
    int rank, items;
} opening;

/* Are these a scope and its backward? */
static bool opens_with(const diagram_box *a, const diagram_box *b) {
    return a->level == b->level && a->run == b->run && strcmp(a->path, b->path) == 0 &&
           (a->phase == DIAGRAM_UPDATE) == (b->phase == DIAGRAM_UPDATE);
}

static int by_rank(const void *a, const void *b) {
    const opening *x = a, *y = b;
    if (x->rank != y->rank) return x->rank - y->rank;
    if (x->items != y->items) return x->items - y->items;
    return (x->first > y->first) - (x->first < y->first);
}

/* Could it be drawn open, with all around it open? */
static bool is_candidate(const diagram_box *b, int level) {
    if (b->level != level || b->is_bare || b->represented_by != b || !b->is_closed) return false;
    for (const diagram_box *p = b->parent; p; p = p->parent)
        if (p->is_closed || p->represented_by != p) return false;
    return true;
}

/* Lists what can open on a level, in that order; returns how many. */
static int list_openings(const diagram *s, int level, opening *all) {
    int n = 0, k;
    for (diagram_box *b = s->boxes + 1; b < s->boxes + s->n_boxes; b++) {
        if (!is_candidate(b, level)) continue;
        for (k = 0; k < n && !opens_with(all[k].first, b); k++) {
        }
        if (k == n) all[n++] = (opening){b, b->phase == DIAGRAM_UPDATE ? 2 : 1, 0};
        all[k].items += b->items;
        if (b->phase == DIAGRAM_BACKWARD) all[k].rank = 0;
    }
    qsort(all, (size_t)n, sizeof *all, by_rank);
    return n;
}

/* Opens or closes a box and those that go with it. */
static void set_closed(diagram *s, const opening *o, int level, bool is_closed) {
    for (diagram_box *b = s->boxes + 1; b < s->boxes + s->n_boxes; b++)
        if (b->level == level && opens_with(o->first, b) && b->represented_by == b) b->is_closed = is_closed;
}

static bool units_fit(diagram *s) {
    diagram_cut_units(s);
    return s->n_units <= s->how.max_nodes;
}

/* Opens all of a level or, where these are too many, one after another of them. */
static void open_level(diagram *s, int level, opening *all) {
    int n = list_openings(s, level, all);
    for (int k = 0; k < n; k++) set_closed(s, &all[k], level, false);
    if (units_fit(s)) return;
    s->is_cut = true;
    for (int k = 0; k < n; k++) set_closed(s, &all[k], level, true);
    for (int k = 0; k < n; k++) {
        set_closed(s, &all[k], level, false);
        if (!units_fit(s)) set_closed(s, &all[k], level, true);
    }
}

void diagram_open(diagram *s) {
    opening *all = diagram_new(s, s->n_boxes, sizeof *all);
    int deepest = 0;
    for (diagram_box *b = s->boxes; b < s->boxes + s->n_boxes; b++) {
        b->is_closed = b->level > 0 && !b->run && !b->is_expanded; /* a round is as open as its scope */
        if (b->level > deepest) deepest = b->level;
    }
    if (s->how.depth >= 0 && s->how.depth < deepest) deepest = s->how.depth;
    for (int level = 1; level <= deepest; level++) open_level(s, level, all);
    s->is_cut |= !units_fit(s);
}
