/* diagram_runs.c - finds layers that repeat one after another within a scope (conv, norm, relu, conv, norm,
 * relu) and puts each round into a box of its own, so that diagram_collapse draws one for all.
 *
 * A run is two or more rounds of 2 to LONGEST parts, equal part by part as COLLAPSE_ALIKE defines it, and
 * each round reads what the round before it made. Two calls of one layer on different data are two branches
 * and no repetition. */
#include "tools/graphtool/diagram/diagram.h"

#include "tools/graphtool/output/end.h"

enum { LONGEST = 24 };

/* A part of a scope, in the graph's order: an item, or a child box with all that is in it. */
typedef struct part {
    int box;   /* -1: the item `first` */
    int first; /* its first item */
    uint64_t signature;
} part;

typedef struct run {
    int length, rounds;
} run;

/* Hash of a box with all items and boxes below it; names do not count. */
static uint64_t tree_signature(const diagram *s, int box) {
    uint64_t h = 11;
    for (int i = -1; (i = diagram_next_item(s, box, i)) >= 0;) h = diagram_mix(h, s->items[i].signature);
    for (int c = s->boxes[box].first_child; c >= 0; c = s->boxes[c].next)
        h = diagram_mix(h, tree_signature(s, c) + 1);
    return h;
}

/* Is the item in one of these parts? */
static bool is_in(const diagram *s, int item, const part *p, int length) {
    for (const part *end = p + length; p < end; p++)
        if (p->box < 0 ? item == p->first : diagram_box_is_in(s, s->items[item].box, p->box)) return true;
    return false;
}

/* Does a part of the second round read one of the first? p points to two rounds of `length` parts. */
static bool reads_round(const diagram *s, const part *p, int length) {
    for (int r = 0; r < s->n_reads; r++)
        if (is_in(s, s->reads[r].to, p + length, length) && is_in(s, s->reads[r].from, p, length))
            return true;
    return false;
}

static bool rounds_match(const part *p, int length) {
    for (int k = 0; k < length; k++)
        if (p[k].signature != p[length + k].signature) return false;
    return true;
}

/* The run from here that saves most. Single parts that repeat (the blocks of a GPT) are left to
 * diagram_collapse. */
static run best_run(const diagram *s, const part *p, int n) {
    run best = {0, 1};
    for (int length = 1; length <= LONGEST && 2 * length <= n; length++) {
        int rounds = 1;
        while ((rounds + 1) * length <= n && rounds_match(p + (rounds - 1) * length, length) &&
               reads_round(s, p + (rounds - 1) * length, length))
            rounds++;
        if (length * (rounds - 1) > best.length * (best.rounds - 1)) best = (run){length, rounds};
    }
    return best;
}

/* Lists the parts of a box in the graph's order, by insertion sort; returns how many. */
static int list_parts(const diagram *s, int box, part *p) {
    int n = 0;
    for (int i = -1; (i = diagram_next_item(s, box, i)) >= 0;) p[n++] = (part){-1, i, s->items[i].signature};
    for (int c = s->boxes[box].first_child; c >= 0; c = s->boxes[c].next) {
        part q = {c, s->boxes[c].low, tree_signature(s, c)};
        int at = n++;
        for (; at > 0 && p[at - 1].first > q.first; at--) p[at] = p[at - 1];
        p[at] = q;
    }
    return n;
}

/* Sets the depths of a box that has moved, and of all below it. */
static void deepen(diagram *s, int box) {
    s->boxes[box].depth = s->boxes[s->boxes[box].parent].depth + 1;
    for (int c = s->boxes[box].first_child; c >= 0; c = s->boxes[c].next) deepen(s, c);
}

static void move_part(diagram *s, int box, const part *p) {
    if (p->box < 0) {
        diagram_add_item(s, box, p->first);
        return;
    }
    diagram_add_box(s, box, p->box);
    deepen(s, p->box);
}

static const char *part_name(const diagram *s, const part *p) {
    if (p->box >= 0) return s->boxes[p->box].name;
    return s->items[p->first].node ? s->items[p->first].node->op->name : "";
}

/* Makes the box of one round, named after its first and last layers. */
static void box_round(diagram *s, int parent, int number, const part *p, int length) {
    const char *name = tool_text("%s \xe2\x80\xa6 %s", part_name(s, &p[0]), part_name(s, &p[length - 1]));
    int b = diagram_box_new(s, parent, name, s->boxes[parent].path);
    s->boxes[b].run = number;
    s->boxes[b].phase = s->boxes[parent].phase;
    for (int k = 0; k < length; k++) move_part(s, b, &p[k]);
}

/* Rebuilds the contents of a box with its runs boxed. `number` counts the runs of the diagram. */
static void find_in(diagram *s, int box, part *p, int *number) {
    int n = list_parts(s, box, p), at = 0;
    diagram_box *b = &s->boxes[box];
    b->first_child = b->last_child = -1;
    while (at < n) {
        run r = best_run(s, p + at, n - at);
        if (r.length < 2) {
            for (int k = 0; k < r.rounds; k++) move_part(s, box, &p[at++]);
            continue;
        }
        ++*number;
        for (int k = 0; k < r.rounds; k++, at += r.length) box_round(s, box, *number, p + at, r.length);
    }
}

/* The update part has no layers. */
void diagram_find_runs(diagram *s) {
    int scopes = s->n_boxes, number = 0;
    part *p = diagram_new(s, s->n_items + s->n_boxes + 1, sizeof *p);
    for (int b = 0; b < scopes; b++)
        if (s->boxes[b].phase != DIAGRAM_UPDATE) find_in(s, b, p, &number);
}
