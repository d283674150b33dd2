/* diagram_collapse.c - finds sibling scopes of equal structure (blocks/0 to blocks/47) and lets the first
 * represent all.
 *
 * Two boxes have equal structure when their trees agree after collapses inside them: the same ops in the same
 * order and the same child names. COLLAPSE_EQUAL also compares attributes, types and the counts of collapses.
 * Their own names must differ in numbers only. Structures are compared by 64-bit hashes. */
#include "tools/graphtool/diagram/diagram.h"

#include "tools/graphtool/output/end.h"

#include <ctype.h>

uint64_t diagram_mix(uint64_t a, uint64_t b) {
    a ^= b + 0x9e3779b97f4a7c15u + (a << 6) + (a >> 2);
    return a * 0xbf58476d1ce4e5b9u;
}

/* Hashes the attributes, except names and keys of random streams, which differ from call to call. */
static uint64_t mix_attrs(uint64_t h, const weft_node *n) {
    text t = {0};
    for (const op_attr *a = n->op->attrs; a && a->name; a++)
        if (a->kind != ATTR_KEY && a->kind != ATTR_STRING && a->kind != ATTR_SCHEDULES)
            attr_write(&t, a, n->attrs);
    return t.length ? hash_text(tool_take(&t), h) : h;
}

/* alike: rank and element type only. */
static uint64_t mix_type(uint64_t h, const tensor_type *type, bool alike) {
    return alike ? diagram_mix(h, (uint64_t)(type->ndim * 64 + type->dtype)) : hash_text(TYPE(type), h);
}

static uint64_t node_signature_of(const weft_node *n, bool alike) {
    uint64_t h = hash_text(n->op->name, 1);
    if (!alike) h = mix_attrs(h, n);
    for (int i = 0; i < n->n_in; i++) /* parameters too: weights of another shape are another layer */
        if (n->in[i]) h = mix_type(h, &n->in[i]->type, alike);
    for (int k = 0; k < n->n_out; k++) h = mix_type(h, &n->out[k].type, alike);
    for (int b = 0; b < n->n_body; b++) h = hash_text(n->body[b]->op->name, h);
    return h;
}

void diagram_sign_items(diagram *s) {
    for (int i = 0; i < s->n_items; i++) {
        const weft_node *n = s->items[i].node;
        s->items[i].signature = n ? node_signature_of(n, s->how.collapsing > COLLAPSE_EQUAL) : (uint64_t)i;
    }
}

/* Do two names differ in numbers only, as "layer10" and "layer2"? False for names without a digit. */
static bool names_count(const char *a, const char *b) {
    bool digits = false;
    while (*a || *b) {
        if (isdigit((unsigned char)*a) && isdigit((unsigned char)*b)) {
            digits = true;
            while (isdigit((unsigned char)*a)) a++;
            while (isdigit((unsigned char)*b)) b++;
        } else if (*a != *b) {
            return false;
        } else {
            a++;
            b++;
        }
    }
    return digits;
}

static int next_drawn(const diagram *s, int c) {
    while (c >= 0 && s->boxes[c].represented_by != c) c = s->boxes[c].next;
    return c;
}

/* Makes the items of `a` represent those of `b`, and likewise below (equal trees: I2). */
static void pair_up(diagram *s, int a, int b) {
    int i = -1, j = -1;
    while ((i = diagram_next_item(s, a, i)) >= 0 && (j = diagram_next_item(s, b, j)) >= 0)
        s->items[j].representative = i;
    int c = next_drawn(s, s->boxes[a].first_child), d = next_drawn(s, s->boxes[b].first_child);
    for (; c >= 0 && d >= 0; c = next_drawn(s, s->boxes[c].next), d = next_drawn(s, s->boxes[d].next)) {
        diagram_box *one = &s->boxes[c], *other = &s->boxes[d];
        if (other->most_members > one->most_members) {
            one->most_members = other->most_members;
            one->last_name = other->last_name;
        }
        if (other->members < one->members) one->members = other->members;
        pair_up(s, c, d);
    }
}

/* Hashes a child's name; with COLLAPSE_RUNS without digits, as layers count on from round to round (up1, bn1;
 * up2, bn2). */
static uint64_t mix_name(const diagram *s, uint64_t h, const char *name) {
    if (s->how.collapsing < COLLAPSE_RUNS) return hash_text(name, h);
    for (; *name; name++)
        if (!isdigit((unsigned char)*name)) h = diagram_mix(h, (unsigned char)*name);
    return h;
}

/* Signs a box whose children are done. */
static void sign_box(diagram *s, int b) {
    diagram_box *box = &s->boxes[b];
    box->signature = 7;
    for (int i = -1; (i = diagram_next_item(s, b, i)) >= 0; box->items++)
        box->signature = diagram_mix(box->signature, s->items[i].signature);
    for (int c = box->first_child; c >= 0; c = s->boxes[c].next) {
        const diagram_box *child = &s->boxes[c];
        box->items += child->items;
        if (child->represented_by != c) continue;
        if (!child->run) box->signature = mix_name(s, box->signature, child->name);
        box->signature = diagram_mix(box->signature, child->signature);
        if (s->how.collapsing == COLLAPSE_EQUAL)
            box->signature = diagram_mix(box->signature, (uint64_t)child->members);
    }
}

/* Are there items of the parent between two scopes? They would be drawn between a collapse and itself. */
static bool is_parted(const diagram *s, int before, int after) {
    int i = diagram_next_item(s, s->boxes[before].parent, s->boxes[before].high);
    return i >= 0 && i < s->boxes[after].low;
}

static bool is_next_of(const diagram *s, const diagram_box *one, const diagram_box *other) {
    enum { WORTH = 2 }; /* items; a scope of one node is no larger than the picture of a collapse */
    if (one->items < WORTH || one->is_bare || other->is_bare || one->signature != other->signature ||
        one->run != other->run)
        return false;
    if (s->how.collapsing == COLLAPSE_EQUAL && one->items != other->items) return false;
    return one->run || names_count(one->name, other->name);
}

/* Collapses the children of a box, deepest first, and then signs it: its signature depends on the collapsed
 * children. */
static void collapse_box(diagram *s, int b) {
    int first = s->boxes[b].first_child, last = first;
    for (int c = first; c >= 0; last = c, c = s->boxes[c].next) {
        collapse_box(s, c);
        if (c == first) continue;
        if (!is_next_of(s, &s->boxes[first], &s->boxes[c]) || is_parted(s, last, c)) {
            first = c;
            continue;
        }
        s->boxes[c].represented_by = first;
        s->boxes[first].most_members = ++s->boxes[first].members;
        s->boxes[first].last_name = s->boxes[c].last_name ? s->boxes[c].last_name : s->boxes[c].name;
        pair_up(s, first, c);
    }
    sign_box(s, b);
}

bool diagram_collapses_by_op(const diagram *s, const diagram_item *i) {
    return s->how.collapsing > COLLAPSE_EQUAL && i->node &&
           (i->node->is_update || i->node->op->flags & OP_COMMUNICATES);
}

/* The exception of I2, within one box. */
static void collapse_by_op(diagram *s, int box) {
    for (int i = -1; (i = diagram_next_item(s, box, i)) >= 0;) {
        if (!diagram_collapses_by_op(s, &s->items[i])) continue;
        int j = diagram_next_item(s, box, -1);
        while (!diagram_collapses_by_op(s, &s->items[j]) || s->items[j].node->op != s->items[i].node->op)
            j = diagram_next_item(s, box, j);
        if (s->items[i].representative == i) s->items[i].representative = j;
    }
}

/* Follows chains of representatives to their ends, and links all items that one represents. */
static void link_representatives(diagram *s) {
    for (int i = 0; i < s->n_items; i++) {
        int t = i;
        while (s->items[t].representative != t) t = s->items[t].representative;
        s->items[i].representative = t;
    }
    for (int i = s->n_items - 1; i >= 0; i--) {
        diagram_item *representative = &s->items[s->items[i].representative];
        if (s->items[i].representative == i) continue;
        s->items[i].also = representative->also;
        representative->also = i;
    }
}

void diagram_collapse(diagram *s) {
    collapse_box(s, 0);
    for (int b = 0; b < s->n_boxes; b++) collapse_by_op(s, b);
    link_representatives(s);
}

/* Climbs from both ends to siblings below a common parent. */
bool diagram_edge_repeats(const diagram *s, int item_a, int item_b) {
    int a = s->items[item_a].box, b = s->items[item_b].box;
    while (s->boxes[a].depth > s->boxes[b].depth) a = s->boxes[a].parent;
    while (s->boxes[b].depth > s->boxes[a].depth) b = s->boxes[b].parent;
    for (; a != b && a > 0 && b > 0; a = s->boxes[a].parent, b = s->boxes[b].parent)
        if (s->boxes[a].represented_by == s->boxes[b].represented_by) return true;
    return false;
}
