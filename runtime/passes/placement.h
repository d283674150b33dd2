/* placement.h - the lowest place in the arena where a buffer meets no other that lives at the same time, without a look at
 * each of those. */
#ifndef WEFT_RUNTIME_PASSES_PLACEMENT_H
#define WEFT_RUNTIME_PASSES_PLACEMENT_H

#include "graph/core/mem.h"

typedef struct placement {
    arena memory;
    struct run_set *over, *within; /* by node of the tree, 1 is its root */
    int steps;                     /* a power of two */
    int64_t probes;                /* that are left */
} placement;

/* Lifetimes are steps [first, last], both in [0, steps). false when memory is out; to be closed in any case. */
bool placement_open(placement *p, const weft_env *env, int steps, int buffers);
/* Bytes [begin, end) are somebody's in those steps; false when memory is out. */
bool placement_add(placement *p, int first, int last, int64_t begin, int64_t end);
/* The lowest place from `floor` on where `bytes` bytes are nobody's. */
int64_t placement_find(placement *p, int first, int last, int64_t bytes, int64_t floor);
void placement_close(placement *p);

#endif
