/* placement.h - finds the lowest offset in the arena at which a buffer overlaps no other that lives at the
 * same time, without comparing it to each of those. */
#ifndef WEFT_RUNTIME_PASSES_PLACEMENT_H
#define WEFT_RUNTIME_PASSES_PLACEMENT_H

#include "graph/core/mem.h"

typedef struct placement {
    arena memory;
    struct run_set *over, *within; /* by node of the tree; node 1 is its root */
    int steps;                     /* a power of two */
    int64_t probes;                /* how many more look-ups the exact search may cost */
} placement;

/* A lifetime is the steps [first, last], both in [0, steps). Returns false when memory is out;
 * placement_close frees it in either case. */
bool placement_open(placement *p, const weft_env *env, int steps, int buffers);
/* Bytes [begin, end) are occupied in the steps [first, last]; false when memory is out. */
bool placement_add(placement *p, int first, int last, int64_t begin, int64_t end);
/* The lowest offset from `floor` on at which `bytes` bytes are free in all these steps. */
int64_t placement_find(placement *p, int first, int last, int64_t bytes, int64_t floor);
void placement_close(placement *p);

#endif
