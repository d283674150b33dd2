/* buckets.h - parameters that are being cut into buckets, and into the ranges of ranks (ZeRO). */
#ifndef WEFT_RUNTIME_PASSES_DISTRIBUTE_BUCKETS_H
#define WEFT_RUNTIME_PASSES_DISTRIBUTE_BUCKETS_H

#include "runtime/plan/program.h"

/* One parameter of a bucket that is being cut; shards.c deals owners to them. */
typedef struct trained {
    weft_variable *parameter; /* in the plan's model */
    int subgraph;
    int owner;          /* ZeRO, greedy: a place in the largest process group */
    uint64_t signature; /* of the (minimize, group) pairs that train it; 0: none */
    int64_t first_use;  /* place in its first minimizing graph */
} trained;
/* Greedy: gives each an owner, subgraph by subgraph. */
bool shards_deal(weft_plan *plan, trained *list, int count);
/* Sets s->shards, and makes the variable of this rank's range unless that is empty. */
bool shards_cut(weft_plan *plan, weft_variable *s, const trained *members);

#endif
