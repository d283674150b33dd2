/* descriptor.c - see descriptor.h. One row per field says what a difference in it is called; the order of
 * the rows is the order of importance. */
#include "dist/core/descriptor.h"

#include <stdio.h>
#include <string.h>

void text_cut(char *to, const char *from, size_t room) {
    size_t n = from ? strlen(from) : 0;
    if (n >= room) n = room - 1;
    if (n) memcpy(to, from, n);
    to[n] = 0;
}

/* 0 for the equal cut (no list). */
static uint64_t hash_counts(const weft_collective *c, int n) {
    uint64_t h = 0;
    for (int i = 0; c->counts && i < n; i++) h = (h ^ c->counts[i]) * 0x9e3779b97f4a7c15u + 1;
    return h;
}

descriptor descriptor_of(const weft_collective *c, int world) {
    descriptor f;
    memset(&f, 0, sizeof f); /* padding and text tails are sent too: no stale bytes */
    f.kind = (int32_t)c->kind;
    f.order = c->order;
    f.run = c->run;
    text_cut(f.program, c->program, sizeof f.program);
    text_cut(f.name, c->name, sizeof f.name);
    f.elements = c->count;
    f.counts_hash = hash_counts(c, world);
    if (c->kind == WEFT_COLLECTIVE_BARRIER) return f;
    f.dtype = (int32_t)c->dtype;
    f.wire = (int32_t)c->wire;
    f.root = c->kind == WEFT_COLLECTIVE_REDUCE || c->kind == WEFT_COLLECTIVE_BROADCAST ? c->root : 0;
    f.unordered = c->unordered;
    return f;
}

/* The name comes from another process too, so SHOW makes it safe to print. */
title descriptor_title(const descriptor *f) {
    title t;
    int n = snprintf(t.text, sizeof t.text, "%s #%llu", weft_collective_name((weft_collective_kind)f->kind),
                     (unsigned long long)f->order);
    if (*f->name) snprintf(t.text + n, sizeof t.text - (size_t)n, " (%s)", SHOW(f->name));
    return t;
}

/* ---- differences ---- */

/* The first difference in words: its name and both values. */
typedef struct pair {
    char what[40], mine[NAME_BYTES + 20], theirs[NAME_BYTES + 20];
} pair;

/* Fills d when the two numbers differ. */
static bool numbers_differ(pair *d, const char *what, uint64_t mine, uint64_t theirs) {
    if (mine == theirs) return false;
    text_cut(d->what, what, sizeof d->what);
    snprintf(d->mine, sizeof d->mine, "%llu", (unsigned long long)mine);
    snprintf(d->theirs, sizeof d->theirs, "%llu", (unsigned long long)theirs);
    return true;
}

/* Fills d when the two names differ in their first NAME_BYTES bytes; "" reads "none". */
static bool texts_differ(pair *d, const char *what, const char *mine, const char *theirs) {
    if (strncmp(mine, theirs, NAME_BYTES) == 0) return false;
    text_cut(d->what, what, sizeof d->what);
    text_cut(d->mine, *mine ? SHOW(mine) : "none", sizeof d->mine);
    text_cut(d->theirs, *theirs ? SHOW(theirs) : "none", sizeof d->theirs);
    return true;
}

/* Finds the first difference, the coarsest first: a different run or program explains all the others. */
static bool descriptor_differ(pair *d, const descriptor *a, const descriptor *b) {
    return texts_differ(d, "program", a->program, b->program) || numbers_differ(d, "run", a->run, b->run) ||
           numbers_differ(d, "order number", a->order, b->order) ||
           texts_differ(d, "kind", weft_collective_name((weft_collective_kind)a->kind),
                        weft_collective_name((weft_collective_kind)b->kind)) ||
           texts_differ(d, "name", a->name, b->name) ||
           numbers_differ(d, "number of elements", a->elements, b->elements) ||
           numbers_differ(d, "hash of the ranks' counts", a->counts_hash, b->counts_hash) ||
           numbers_differ(d, "element type", (uint64_t)a->dtype, (uint64_t)b->dtype) ||
           numbers_differ(d, "type on the wire", (uint64_t)a->wire, (uint64_t)b->wire) ||
           numbers_differ(d, "root", (uint64_t)a->root, (uint64_t)b->root) ||
           numbers_differ(d, "order of the sum (1: any)", (uint64_t)a->unordered, (uint64_t)b->unordered);
}

weft_status descriptor_compare(const descriptor *mine, const descriptor *theirs, const rendezvous *m,
                               weft_error *error) {
    pair d;
    if (!descriptor_differ(&d, mine, theirs)) return WEFT_OK;
    return error_set(
        error, WEFT_PEER,
        "ranks disagree on collective %llu of %s: rank %d is at %s, rank %d at %s; the first difference "
        "is the %s: %s on rank %d, %s on rank %d",
        (unsigned long long)m->sequence, m->group, m->rank, descriptor_title(mine).text, m->other,
        descriptor_title(theirs).text, d.what, d.mine, m->rank, d.theirs, m->other);
}

weft_collective group_barrier(const int *ranks, int n, char list[NAME_BYTES]) {
    weft_collective barrier = {.kind = WEFT_COLLECTIVE_BARRIER, .name = list};
    int length = snprintf(list, NAME_BYTES, "group of");
    for (int i = 0; i < n; i++) {
        barrier.count = barrier.count * 1000003u + (size_t)ranks[i] + 1;
        if (length < NAME_BYTES)
            length += snprintf(list + length, (size_t)(NAME_BYTES - length), " %d", ranks[i]);
    }
    return barrier;
}
