/* collective.h - attributes of the nodes on the communication stream. */
#ifndef WEFT_OPS_STRUCTURE_COLLECTIVE_H
#define WEFT_OPS_STRUCTURE_COLLECTIVE_H

#include "ops/kit/op_kit.h"

typedef struct collective_attrs {
    const char *path; /* the bucket */
    int64_t order;    /* among the program's collectives, from 0: the same on all ranks */
    int64_t scratch;  /* bytes; of sums */
    int64_t group;    /* of the subgraph with this index in the plan */
    int64_t root;     /* broadcast: a rank */
    bool bf16;        /* sums: it travels in bf16 */
    bool unordered;   /* sums: added in any order */
} collective_attrs;

/* Attributes of sums and of broadcasts; infer of a sum: the operand, and scratch. */
extern const op_attr sum_attr_table[];
bool infer_sum(op_call *c);

#endif
