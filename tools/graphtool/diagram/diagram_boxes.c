/* diagram_boxes.c - items in boxes, and questions about them. */
#include "tools/graphtool/diagram/diagram.h"

#include "tools/graphtool/output/end.h"

void *diagram_new(diagram *s, int count, size_t width) {
    return tool_need(arena_new_array(&s->arena, (size_t)count, width));
}

void diagram_add_box(diagram *s, int parent, int b) {
    diagram_box *above = &s->boxes[parent];
    s->boxes[b].parent = parent;
    s->boxes[b].depth = above->depth + 1;
    s->boxes[b].next = -1;
    if (above->last_child >= 0)
        s->boxes[above->last_child].next = b;
    else
        above->first_child = b;
    above->last_child = b;
}

/* Appends a box; boxes are never removed. */
int diagram_box_new(diagram *s, int parent, const char *name, const char *path) {
    int b = s->n_boxes++;
    s->boxes[b] = (diagram_box){.name = name,
                                .path = path,
                                .parent = parent,
                                .first_child = -1,
                                .last_child = -1,
                                .next = -1,
                                .first_item = -1,
                                .last_item = -1,
                                .represented_by = b,
                                .members = 1,
                                .most_members = 1};
    if (parent >= 0) diagram_add_box(s, parent, b);
    return b;
}

void diagram_add_item(diagram *s, int box, int i) {
    diagram_box *b = &s->boxes[box];
    s->items[i].box = box;
    s->items[i].next = -1;
    if (b->last_item >= 0)
        s->items[b->last_item].next = i;
    else
        b->first_item = i;
    b->last_item = i;
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

diagram_phase diagram_phase_of(const diagram_item *i) {
    return !i->node               ? DIAGRAM_FORWARD
           : i->node->is_update   ? DIAGRAM_UPDATE
           : i->node->is_backward ? DIAGRAM_BACKWARD
                                  : DIAGRAM_FORWARD;
}
