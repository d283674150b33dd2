/* over_ranks.h - models with ops over ranks, on any device: one whose outputs are what each op gives, and one
 * whose loss needs the gradient of each, so that ranks that share a batch train as one rank with the
 * whole. */
#ifndef WEFT_TEST_OVER_RANKS_H
#define WEFT_TEST_OVER_RANKS_H

#include "support/world.h"

typedef struct over_ranks {
    const char *group;
    int n; /* ranks of a group; rank r of the world is its rank r % n */
    weft_dtype dtype;
} over_ranks;

/* A graph "eval" with each op of x, of that type. Free with weft_model_free. */
weft_model *over_ranks_values(const over_ranks *v);
/* A job's `run` of it, with the over_ranks as the context: compares each output with a loop over the
 * ranks. */
void over_ranks_check(world_rank *r);

enum { OVER_RANKS_BATCH = 12 /* of all ranks together */ };
/* A graph "step" that trains; its second gradients too go over ranks. */
weft_model *over_ranks_model(void);
/* A job's `run` of it: this rank's rows of each whole micro-batch. */
void over_ranks_train(world_rank *r);

#endif
