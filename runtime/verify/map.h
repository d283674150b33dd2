/* map.h - which value owns which bytes: disjoint extents of the arena and of variables, in a search tree. The
 * proof of a program of n nodes takes about n log n steps, however many extents there are. */
#ifndef WEFT_RUNTIME_VERIFY_MAP_H
#define WEFT_RUNTIME_VERIFY_MAP_H

#include "runtime/verify/verify.h"

typedef struct verify_extent {
    verify_range range;
    /* The user's; the map only keeps it. */
    const void *owner;
    int64_t stamp; /* grows with each claim: the later of two extents has the larger one */
} verify_extent;

typedef struct verify_map {
    arena *memory;
    struct map_node *root, *unused; /* unused: the first of the list of free nodes, by `left` */
    int64_t stamp;
    uint64_t added;        /* extents ever added, from which weights come */
    bool is_out_of_memory; /* if so the map lacks extents, and no answer counts */
} verify_map;

/* Gives the range's bytes to `owner`. Extents that overlap it keep what they have outside of it. */
void verify_map_claim(verify_map *m, verify_range r, const void *owner);
/* Afterwards nobody owns the range's bytes. */
void verify_map_drop(verify_map *m, verify_range r);
/* The first extent of r.space that overlaps r; NULL: none. To find the next one, set r.begin to its end. */
const verify_extent *verify_map_first(const verify_map *m, verify_range r);

#endif
