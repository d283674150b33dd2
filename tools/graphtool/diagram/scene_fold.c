/* scene_fold.c - finds sibling scopes of one structure (blocks/0 to blocks/47) and lets the first stand for all.
 *
 * Two boxes have one structure when their trees agree: the same ops with the same attributes and types in
 * the same order, the same child names. Their own names must differ in a number only. */
#include "tools/graphtool/diagram/scene.h"

#include <ctype.h>
#include <string.h>

static uint64_t mix(uint64_t a, uint64_t b) {
    a ^= b + 0x9e3779b97f4a7c15u + (a << 6) + (a >> 2);
    return a * 0xbf58476d1ce4e5b9u;
}

/* Attributes count, but for names and random streams, which differ from call to call. */
static uint64_t node_signature_of(const weft_node *n) {
    uint64_t h = hash_text(n->op->name, 1);
    for (const op_attr *a = n->op->attrs; a && a->name; a++) {
        const char *at = (const char *)n->attrs + a->offset;
        const attr_ints *ints = (const attr_ints *)at;
        switch (a->kind) {
        case ATTR_KEY:
        case ATTR_STRING:
            break;
        case ATTR_INT:
            h = mix(h, (uint64_t) * (const int64_t *)at);
            break;
        case ATTR_REAL: {
            uint64_t bits;
            memcpy(&bits, at, sizeof bits);
            h = mix(h, bits);
            break;
        }
        case ATTR_BOOL:
            h = mix(h, *(const bool *)at);
            break;
        case ATTR_DTYPE:
            h = mix(h, *(const weft_dtype *)at);
            break;
        case ATTR_INTS:
            for (int i = 0; i < ints->n; i++) h = mix(h, (uint64_t)ints->v[i]);
            break;
        }
    }
    for (int i = 0; i < n->n_in; i++) /* parameters among them: weights of another shape are another layer */
        if (n->in[i]) h = hash_text(TYPE(&n->in[i]->type), h);
    for (int k = 0; k < n->n_out; k++) h = hash_text(TYPE(&n->out[k].type), h);
    for (int b = 0; b < n->n_body; b++) h = hash_text(n->body[b]->op->name, h);
    return h;
}

/* Children come after their parent, so going backwards meets them first. */
static void sign_boxes(scene *s) {
    for (int i = 0; i < s->n_items; i++)
        s->items[i].signature = s->items[i].node ? node_signature_of(s->items[i].node) : (uint64_t)i;
    for (int b = s->n_boxes - 1; b >= 0; b--) {
        scene_box *box = &s->boxes[b];
        box->signature = 7;
        box->items = 0;
        for (int i = box->first_item; i >= 0; i = s->items[i].next, box->items++)
            box->signature = mix(box->signature, s->items[i].signature);
        for (int c = box->first_child; c >= 0; c = s->boxes[c].next) {
            box->signature = mix(hash_text(s->boxes[c].name, box->signature), s->boxes[c].signature);
            box->items += s->boxes[c].items;
        }
    }
}

/* "layer10" and "layer2" have one stem; a name without a digit has none in common with any. */
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

/* Lets the items of `b` and below be drawn as those of `a` (equal trees: I2). */
static void pair_up(scene *s, int a, int b) {
    int i = s->boxes[a].first_item, j = s->boxes[b].first_item;
    for (; i >= 0 && j >= 0; i = s->items[i].next, j = s->items[j].next) s->items[j].twin = s->items[i].twin;
    int c = s->boxes[a].first_child, d = s->boxes[b].first_child;
    for (; c >= 0 && d >= 0; c = s->boxes[c].next, d = s->boxes[d].next) pair_up(s, c, d);
}

void scene_fold(scene *s) {
    enum { WORTH = 2 }; /* a scope of one node is as small as the picture of its fold */
    sign_boxes(s);
    /* Parents before children: inside a folded box the twins are set already, and chains of twins stay short. */
    for (int b = 0; b < s->n_boxes; b++) {
        int first = s->boxes[b].first_child;
        for (int c = first < 0 ? -1 : s->boxes[first].next; c >= 0; c = s->boxes[c].next) {
            scene_box *one = &s->boxes[first], *other = &s->boxes[c];
            if (one->items >= WORTH && one->items == other->items && one->signature == other->signature &&
                names_count(one->name, other->name)) {
                other->represented_by = first;
                one->members++;
                one->last_name = other->name;
            } else {
                first = c;
            }
        }
    }
    for (int b = s->n_boxes - 1; b >= 0;
         b--) /* innermost folds first, so that outer ones take their twins over */
        if (s->boxes[b].represented_by != b) pair_up(s, s->boxes[b].represented_by, b);
}

bool scene_edge_repeats(const scene *s, int item_a, int item_b) {
    int a = s->items[item_a].box, b = s->items[item_b].box;
    while (s->boxes[a].depth > s->boxes[b].depth) a = s->boxes[a].parent;
    while (s->boxes[b].depth > s->boxes[a].depth) b = s->boxes[b].parent;
    for (; a != b && a > 0 && b > 0; a = s->boxes[a].parent, b = s->boxes[b].parent)
        if (s->boxes[a].represented_by == s->boxes[b].represented_by) return true;
    return false;
}
