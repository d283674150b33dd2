/* map.h - which bytes belong to whom: extents of the arena and of variables that never overlap. A search tree, so
 * that the proof of a program of n nodes takes about n log n steps however many extents are alive.
 */
#ifndef WEFT_RUNTIME_VERIFY_MAP_H
#define WEFT_RUNTIME_VERIFY_MAP_H

#include "runtime/verify/verify.h"

typedef struct verify_extent {
    verify_range range;
    const void *owner;
    int64_t stamp; /* counts the claims: the later of two extents has the larger one */
} verify_extent;

typedef struct verify_map {
    const weft_env *env;
    struct map_node *nodes; /* numbered from 1 */
    size_t room;
    uint32_t count, root, unused;
    int64_t stamp;
    uint64_t added;        /* nodes so far, for their weights */
    bool is_out_of_memory; /* from then on it holds too little */
} verify_map;

/* Gives the range's bytes to `owner`, whoever had them; what the others had beside them they keep. */
void verify_map_claim(verify_map *m, verify_range r, const void *owner);
/* From now on the range's bytes belong to nobody. */
void verify_map_drop(verify_map *m, verify_range r);
/* The first extent of r.space that meets r; NULL: none. Goes on behind it with r.begin at its end. */
const verify_extent *verify_map_first(const verify_map *m, verify_range r);
void verify_map_free(verify_map *m);

#endif
