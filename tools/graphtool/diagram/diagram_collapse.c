/* diagram_collapse.c - finds sibling scopes of equal structure (blocks/0 to blocks/47) and lets the first
 * represent all.
 *
 * Two boxes have equal structure when their trees agree after collapses inside them: the same ops in the same
 * order and the same child names. COLLAPSE_EQUAL also compares attributes, types and the counts of collapses.
 * Their own names must differ in numbers only, and each operand must be of the member before it, or of the
 * same outside. Structures are compared by 64-bit hashes. */
#include "tools/graphtool/diagram/diagram.h"

#include "tools/graphtool/output/end.h"

#include <ctype.h>
#include <string.h>

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

static diagram_box *next_drawn(diagram_box *c) {
    while (c && c->represented_by != c) c = c->next;
    return c;
}

/* Makes the items of `a` represent those of `b`, and likewise below (equal trees: I2). */
static void pair_up(diagram *s, diagram_box *a, diagram_box *b) {
    diagram_item *i = NULL, *j = NULL;
    while ((i = diagram_next_item(s, a, i)) && (j = diagram_next_item(s, b, j))) j->representative = i;
    diagram_box *one = next_drawn(a->first_child), *other = next_drawn(b->first_child);
    for (; one && other; one = next_drawn(one->next), other = next_drawn(other->next)) {
        diagram_box *last = one;
        while (last->twin) last = last->twin;
        last->twin = other;
        pair_up(s, one, other);
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
static void sign_box(diagram *s, diagram_box *box) {
    uint64_t h = 7;
    for (const diagram_item *i = NULL; (i = diagram_next_item(s, box, i)); box->items++)
        h = diagram_mix(h, i->signature);
    for (const diagram_box *c = box->first_child; c; c = c->next) {
        box->items += c->items;
        if (c->represented_by != c) continue;
        if (!c->run) h = mix_name(s, h, c->name);
        h = diagram_mix(h, c->signature);
        if (s->how.collapsing == COLLAPSE_EQUAL) h = diagram_mix(h, (uint64_t)c->members);
    }
    box->signature = h;
}

/* Are there items of the parent between two scopes? They would be drawn between a collapse and itself. */
static bool is_parted(const diagram *s, const diagram_box *before, const diagram_box *after) {
    const diagram_item *last = before->high < 0 ? NULL : &s->items[before->high];
    const diagram_item *i = diagram_next_item(s, before->parent, last);
    return i && i - s->items < after->low;
}

/* ---- what members read, and what reads them ---- */

/* The siblings that are to be one count, as they were made: from `first` to `last`, and `next`. */
typedef struct count {
    const diagram *s;
    const diagram_box *first, *last, *next;
} count;

static const diagram_item *root_of(const diagram_item *i) {
    while (i->representative != i) i = i->representative;
    return i;
}

/* The member of the count that the item is in; NULL: it is outside. */
static const diagram_box *member_of(const count *c, const diagram_item *i) {
    const diagram_box *b = i->box;
    while (b->depth > c->first->depth) b = b->parent;
    return b == c->next || b->represented_by == c->first ? b : NULL;
}

/* Reads of an item, in the order of its operands; they are listed by reader. */
static int reads_of(const diagram *s, const diagram_item *i, const diagram_read **reads) {
    int low = 0, high = s->n_reads, n = 0;
    while (low < high) {
        int middle = (low + high) / 2;
        if (s->reads[middle].to < i)
            low = middle + 1;
        else
            high = middle;
    }
    *reads = &s->reads[low];
    while (low + n < s->n_reads && s->reads[low + n].to == i) n++;
    return n;
}

/* Two reads that are drawn as one: each within its member, or each of the member before it, which `first` has
 * not, or both of the same outside. What a gradient reads of the forward is what its layer reads or makes. */
static bool reads_are_alike(const count *c, const diagram_read *a, const diagram_read *b) {
    diagram_phase own = diagram_phase_of(a->to->node);
    if (diagram_phase_of(a->from->node) != own && diagram_phase_of(b->from->node) != own) return true;
    const diagram_box *of_a = member_of(c, a->from), *of_b = member_of(c, b->from);
    if (of_b == c->next) return of_a == c->last;
    if (of_b == c->last) return c->last == c->first ? !of_a : of_a && of_a->next == c->last;
    return !of_a && !of_b && root_of(a->from) == root_of(b->from);
}

static bool items_read_alike(const count *c, const diagram_item *a, const diagram_item *b) {
    const diagram_read *x, *y;
    int n = reads_of(c->s, a, &x);
    if (n != reads_of(c->s, b, &y)) return false;
    for (int i = 0; i < n; i++)
        if (!reads_are_alike(c, &x[i], &y[i])) return false;
    return true;
}

/* Compares the items of two boxes of equal trees. */
static bool boxes_read_alike(const count *c, diagram_box *a, diagram_box *b) {
    diagram_item *i = NULL, *j = NULL;
    while ((i = diagram_next_item(c->s, a, i)) && (j = diagram_next_item(c->s, b, j)))
        if (!items_read_alike(c, i, j)) return false;
    diagram_box *one = next_drawn(a->first_child), *other = next_drawn(b->first_child);
    for (; one && other; one = next_drawn(one->next), other = next_drawn(other->next))
        if (!boxes_read_alike(c, one, other)) return false;
    return true;
}

static bool is_next_of(const diagram *s, const diagram_box *one, const diagram_box *other) {
    enum { WORTH = 2 }; /* items; a scope of one node is no larger than the picture of a collapse */
    if (one->is_expanded || other->is_expanded) return false;
    if (one->items < WORTH || one->is_bare || other->is_bare || one->signature != other->signature ||
        one->run != other->run)
        return false;
    if (s->how.collapsing == COLLAPSE_EQUAL && one->items != other->items) return false;
    return one->run || names_count(one->name, other->name);
}

/* Collapses the children of a box, deepest first, and then signs it: its signature depends on the collapsed
 * children. */
static void collapse_box(diagram *s, diagram_box *b) {
    diagram_box *first = b->first_child, *last = first;
    for (diagram_box *c = first; c; last = c, c = c->next) {
        collapse_box(s, c);
        if (c == first) continue;
        if (!is_next_of(s, first, c) || is_parted(s, last, c) ||
            !boxes_read_alike(&(count){s, first, last, c}, last, c)) {
            first = c;
            continue;
        }
        c->represented_by = first;
        first->members++;
        first->last_name = c->last_name ? c->last_name : c->name;
        pair_up(s, first, c);
    }
    sign_box(s, b);
}

bool diagram_collapses_by_op(const diagram *s, const diagram_item *i) {
    return s->how.is_brief && i->node && !i->host &&
           (i->node->is_update || i->is_upkeep || i->node->op->flags & OP_COMMUNICATES);
}

/* The top-level scope of the variable that a node names. */
static const char *scope_of_variable(const weft_node *n) {
    const char *path = n->op->flags & OP_VARIABLE && n->variable ? n->variable->path : "";
    return tool_cut(path, path + strcspn(path, "/"));
}

/* Sets what items that collapse by op have in common: the op, and for upkeep all that it computes but the
 * names of parameters: target/... = 0.99 target/... + 0.01 online/... Keys of operands come first, so items
 * of one key never read each other. */
static void find_keys(diagram *s) {
    for (diagram_item *i = s->items; i < s->items + s->n_items; i++) {
        const weft_node *n = i->node;
        if (!n) continue;
        i->key = hash_text(n->op->name, i->is_upkeep);
        if (!i->is_upkeep) continue;
        i->key = hash_text(scope_of_variable(n), mix_attrs(i->key, n));
        for (int b = 0; b < n->n_body; b++)
            i->key = mix_attrs(hash_text(n->body[b]->op->name, i->key), n->body[b]);
    }
    for (const diagram_read *r = s->reads; r < s->reads + s->n_reads; r++) {
        uint64_t key = r->from->is_upkeep ? r->from->key : (uint64_t)(r->from - s->items);
        if (r->to->is_upkeep) r->to->key = diagram_mix(r->to->key, key);
    }
}

/* The exception of I2, within one box. */
static void collapse_by_op(diagram *s, const diagram_box *box) {
    for (diagram_item *i = NULL; (i = diagram_next_item(s, box, i));) {
        if (!diagram_collapses_by_op(s, i)) continue;
        diagram_item *j = diagram_next_item(s, box, NULL);
        while (!diagram_collapses_by_op(s, j) || j->key != i->key) j = diagram_next_item(s, box, j);
        if (i->representative == i) i->representative = j;
    }
}

/* Follows chains of representatives to their ends, and links all items that one represents. */
static void link_representatives(diagram *s) {
    for (diagram_item *i = s->items; i < s->items + s->n_items; i++)
        while (i->representative->representative != i->representative)
            i->representative = i->representative->representative;
    for (diagram_item *i = s->items + s->n_items; i-- > s->items;) {
        if (i->representative == i) continue;
        i->also = i->representative->also;
        i->representative->also = i;
    }
}

void diagram_collapse(diagram *s) {
    find_keys(s);
    for (int b = 0; b < s->n_boxes; b++) collapse_by_op(s, &s->boxes[b]);
    collapse_box(s, s->boxes);
    link_representatives(s);
}

/* Climbs from both ends to siblings below a common parent. */
bool diagram_repeats(const diagram_item *from, const diagram_item *to) {
    const diagram_box *a = from->box, *b = to->box;
    while (a->depth > b->depth) a = a->parent;
    while (b->depth > a->depth) b = b->parent;
    for (; a != b; a = a->parent, b = b->parent)
        if (a->represented_by == b->represented_by) return true;
    return false;
}
