/* buckets.h - parameters while buckets.c cuts them into buckets and shards.c into the ranges of ranks (ZeRO).
 */
#ifndef WEFT_RUNTIME_PASSES_DISTRIBUTE_BUCKETS_H
#define WEFT_RUNTIME_PASSES_DISTRIBUTE_BUCKETS_H

#include "runtime/plan/program.h"

/* One parameter that is trained; buckets.c sorts an array of these, and shards.c deals owners to them. */
typedef struct trained {
    weft_variable *parameter; /* in the plan's model */
    int subgraph;
    int owner;          /* ZeRO, greedy: place in the largest process group of the rank that updates it */
    uint64_t signature; /* hash of the (minimize, parameter group) pairs that train it; 0: none does */
    int64_t first_use;  /* place of its first reader in the first graph that trains it */
} trained;
/* For greedy sharding: sets every parameter's owner, one subgraph after the other. Sorts the list. */
bool shards_deal(weft_plan *plan, trained *list, int count);
/* Sets s->shards, and makes the variable of this rank's range unless the range is empty. members[] is in the
 * bucket's order. */
bool shards_cut(weft_plan *plan, weft_variable *s, const trained *members);

#endif
