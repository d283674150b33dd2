/* sum_ranks.h - see sum_ranks.c. */
#ifndef WEFT_OPS_STRUCTURE_SUM_RANKS_H
#define WEFT_OPS_STRUCTURE_SUM_RANKS_H

#include "ops/kit/op_kit.h"

typedef struct sum_ranks_attrs {
    const char *path; /* the scope that asks for it, for messages and traces */
    int64_t group;    /* the subgraph whose process group adds up: its index in the plan */
} sum_ranks_attrs;

#endif
