/* diagram_runs.c - finds layers that repeat one after another within a scope (conv, norm, relu, conv, norm,
 * relu) and puts each round into a box of its own, so that diagram_collapse draws one for all.
 *
 * A run is two or more rounds of 2 to LONGEST parts, equal part by part as COLLAPSE_ALIKE defines it. The
 * parts of a round are joined to each other, and each round reads what the round before it made. Two calls of
 * one layer on different data are two branches and no repetition. */
#include "tools/graphtool/diagram/diagram.h"

#include "tools/graphtool/output/end.h"

enum { LONGEST = 24 };

/* A part of a scope, in the graph's order: an item, or a child box with all that is in it. */
typedef struct part {
    diagram_item *item; /* the one it is; the other is NULL */
    diagram_box *box;
    int first; /* the place of its first item */
    uint64_t signature;
} part;

typedef struct run {
    int length, rounds;
} run;

/* Hash of a box with all items and boxes below it; names do not count. */
static uint64_t tree_signature(const diagram *s, const diagram_box *box) {
    uint64_t h = 11;
    for (const diagram_item *i = NULL; (i = diagram_next_item(s, box, i));) h = diagram_mix(h, i->signature);
    for (const diagram_box *c = box->first_child; c; c = c->next)
        h = diagram_mix(h, tree_signature(s, c) + 1);
    return h;
}

/* Which of these parts the item is in; -1: none. */
static int place_in(const diagram_item *item, const part *p, int length) {
    for (int k = 0; k < length; k++)
        if (p[k].box ? diagram_box_is_in(item->box, p[k].box) : item == p[k].item) return k;
    return -1;
}

/* Does a part of the second round read one of the first? p points to two rounds of `length` parts. */
static bool reads_round(const diagram *s, const part *p, int length) {
    for (const diagram_read *r = s->reads; r < s->reads + s->n_reads; r++)
        if (place_in(r->to, p + length, length) >= 0 && place_in(r->from, p, length) >= 0) return true;
    return false;
}

/* Are the parts of a round joined to each other? Those that are joined to the first have joined[k]. */
static bool is_joined(const diagram *s, const part *p, int length) {
    bool joined[LONGEST] = {true}, grows = true;
    int n = 1;
    while (grows && n < length) {
        grows = false;
        for (const diagram_read *r = s->reads; r < s->reads + s->n_reads; r++) {
            int from = place_in(r->from, p, length), to = place_in(r->to, p, length);
            if (from < 0 || to < 0 || joined[from] == joined[to]) continue;
            joined[from] = joined[to] = grows = true;
            n++;
        }
    }
    return n == length;
}

static bool rounds_match(const part *p, int length) {
    for (int k = 0; k < length; k++)
        if (p[k].signature != p[length + k].signature) return false;
    return true;
}

static diagram_phase part_phase(const part *p) {
    return p->box ? p->box->phase : diagram_phase_of(p->item->node);
}

/* The run from here that saves most, of one phase. Single parts that repeat (the blocks of a GPT) are left to
 * diagram_collapse. */
static run best_run(const diagram *s, const part *p, int n) {
    run best = {0, 1};
    for (int length = 1; length <= LONGEST && 2 * length <= n; length++) {
        int rounds = 1;
        if (part_phase(&p[length - 1]) != part_phase(&p[0])) break;
        while ((rounds + 1) * length <= n && rounds_match(p + (rounds - 1) * length, length) &&
               reads_round(s, p + (rounds - 1) * length, length))
            rounds++;
        if (length * (rounds - 1) > best.length * (best.rounds - 1) &&
            (length == 1 || is_joined(s, p, length)))
            best = (run){length, rounds};
    }
    return best;
}

/* Lists the parts of a box in the graph's order, by insertion sort; returns how many. */
static int list_parts(const diagram *s, const diagram_box *box, part *p) {
    int n = 0;
    for (diagram_item *i = NULL; (i = diagram_next_item(s, box, i));)
        p[n++] = (part){i, NULL, (int)(i - s->items), i->signature};
    for (diagram_box *c = box->first_child; c; c = c->next) {
        int at = n++;
        for (; at > 0 && p[at - 1].first > c->low; at--) p[at] = p[at - 1];
        p[at] = (part){NULL, c, c->low, tree_signature(s, c)};
    }
    return n;
}

/* Sets the depths of a box that has moved, and of all below it. */
static void deepen(diagram_box *box) {
    box->depth = box->parent->depth + 1;
    box->level = box->parent->level + !box->run;
    for (diagram_box *c = box->first_child; c; c = c->next) deepen(c);
}

static void move_part(diagram *s, diagram_box *box, const part *p) {
    if (p->item) {
        diagram_add_item(s, box, p->item);
        return;
    }
    diagram_add_box(box, p->box);
    deepen(p->box);
}

static const char *part_name(const part *p) {
    return p->box ? p->box->name : p->item->node ? p->item->node->op->name : "";
}

/* Makes the box of one round, named after its first and last layers. */
static void box_round(diagram *s, diagram_box *parent, int number, const part *p, int length) {
    const char *name = tool_text("%s \xe2\x80\xa6 %s", part_name(&p[0]), part_name(&p[length - 1]));
    diagram_box *b = diagram_box_new(s, parent, name, parent->path);
    b->run = number;
    b->level = parent->level;
    b->phase = part_phase(&p[0]);
    for (int k = 0; k < length; k++) move_part(s, b, &p[k]);
}

/* Rebuilds the contents of a box with its runs boxed. `number` counts the runs of the diagram. */
static void find_in(diagram *s, diagram_box *box, part *p, int *number) {
    int n = list_parts(s, box, p), at = 0;
    box->first_child = box->last_child = NULL;
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
    for (diagram_box *b = s->boxes; b < s->boxes + scopes; b++)
        if (b->phase != DIAGRAM_UPDATE) find_in(s, b, p, &number);
}
