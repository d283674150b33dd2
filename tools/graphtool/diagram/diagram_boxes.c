/* diagram_boxes.c - items in boxes, and questions about them. */
#include "tools/graphtool/diagram/diagram.h"

#include "tools/graphtool/output/end.h"

#include <limits.h>

void *diagram_new(diagram *s, int count, size_t width) {
    return tool_need(arena_new_array(&s->arena, (size_t)count, width));
}

/* The box, and those that it is in, have items from `low` to `high`. */
static void widen(diagram_box *box, int low, int high) {
    for (; box; box = box->parent) {
        if (low < box->low) box->low = low;
        if (high > box->high) box->high = high;
    }
}

void diagram_add_box(diagram_box *parent, diagram_box *box) {
    box->parent = parent;
    box->depth = parent->depth + 1;
    box->level = parent->level + !box->run;
    box->next = NULL;
    *(parent->last_child ? &parent->last_child->next : &parent->first_child) = box;
    parent->last_child = box;
    widen(parent, box->low, box->high);
}

diagram_box *diagram_box_new(diagram *s, diagram_box *parent, const char *name, const char *path) {
    diagram_box *b = &s->boxes[s->n_boxes++];
    *b = (diagram_box){
        .name = name, .path = path, .low = INT_MAX, .high = -1, .represented_by = b, .members = 1};
    if (parent) diagram_add_box(parent, b);
    return b;
}

void diagram_add_item(diagram *s, diagram_box *box, diagram_item *item) {
    int place = (int)(item - s->items);
    item->box = box;
    widen(box, place, place);
}

diagram_item *diagram_next_item(const diagram *s, const diagram_box *box, const diagram_item *item) {
    for (int i = item ? (int)(item - s->items) + 1 : box->low; i <= box->high; i++)
        if (s->items[i].box == box) return &s->items[i];
    return NULL;
}

bool diagram_box_is_open(const diagram_box *box) {
    return !box->is_closed && !box->is_bare && box->represented_by == box;
}

bool diagram_box_is_in(const diagram_box *box, const diagram_box *ancestor) {
    while (box->depth > ancestor->depth) box = box->parent;
    return box == ancestor;
}

diagram_box *diagram_box_of(const diagram_unit *u) {
    if (u->box) return u->box->parent;
    return u->item->box->is_bare ? u->item->box->parent : u->item->box;
}
