/* sum_ranks.h - attributes of sum_ranks, for the passes that make and replace it; see sum_ranks.c. */
#ifndef WEFT_OPS_STRUCTURE_SUM_RANKS_H
#define WEFT_OPS_STRUCTURE_SUM_RANKS_H

#include "ops/kit/op_kit.h"

typedef struct sum_ranks_attrs {
    const char *path; /* the scope that needs the sum, for messages and traces */
    int64_t group;    /* index in the plan of the subgraph whose process group takes part */
} sum_ranks_attrs;

#endif
