/* diagram_boxes.c - items in boxes, and questions about them. */
#include "tools/graphtool/diagram/diagram.h"

#include "tools/graphtool/output/end.h"

#include <limits.h>

void *diagram_new(diagram *s, int count, size_t width) {
    return tool_need(arena_new_array(&s->arena, (size_t)count, width));
}

/* The box, and those that it is in, have items from `low` to `high`. */
static void widen(diagram *s, int box, int low, int high) {
    for (; box >= 0; box = s->boxes[box].parent) {
        if (low < s->boxes[box].low) s->boxes[box].low = low;
        if (high > s->boxes[box].high) s->boxes[box].high = high;
    }
}

void diagram_add_box(diagram *s, int parent, int b) {
    diagram_box *above = &s->boxes[parent], *box = &s->boxes[b];
    box->parent = parent;
    box->depth = above->depth + 1;
    box->next = -1;
    *(above->last_child >= 0 ? &s->boxes[above->last_child].next : &above->first_child) = b;
    above->last_child = b;
    widen(s, parent, box->low, box->high);
}

int diagram_box_new(diagram *s, int parent, const char *name, const char *path) {
    int b = s->n_boxes++;
    s->boxes[b] = (diagram_box){.name = name,
                                .path = path,
                                .parent = parent,
                                .first_child = -1,
                                .last_child = -1,
                                .next = -1,
                                .low = INT_MAX,
                                .high = -1,
                                .represented_by = b,
                                .members = 1,
                                .most_members = 1};
    if (parent >= 0) diagram_add_box(s, parent, b);
    return b;
}

void diagram_add_item(diagram *s, int box, int i) {
    s->items[i].box = box;
    widen(s, box, i, i);
}

int diagram_next_item(const diagram *s, int box, int i) {
    for (i = i < 0 ? s->boxes[box].low : i + 1; i <= s->boxes[box].high; i++)
        if (s->items[i].box == box) return i;
    return -1;
}

bool diagram_box_is_open(const diagram *s, int box) {
    return s->boxes[box].depth <= s->open_depth && !s->boxes[box].is_bare &&
           s->boxes[box].represented_by == box;
}

bool diagram_box_is_in(const diagram *s, int box, int ancestor) {
    while (s->boxes[box].depth > s->boxes[ancestor].depth) box = s->boxes[box].parent;
    return box == ancestor;
}

int diagram_box_of(const diagram *s, const diagram_unit *u) {
    if (u->box >= 0) return s->boxes[u->box].parent;
    int b = s->items[u->item].box;
    return s->boxes[b].is_bare ? s->boxes[b].parent : b;
}

diagram_phase diagram_phase_of(const weft_node *n) {
    if (!n) return DIAGRAM_FORWARD;
    return n->is_update ? DIAGRAM_UPDATE : n->is_backward ? DIAGRAM_BACKWARD : DIAGRAM_FORWARD;
}
