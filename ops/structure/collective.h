/* collective.h - attributes of the nodes that run on the communication stream. Such a node starts a
 * collective; a `wait` node, or a later reader, finishes it. */
#ifndef WEFT_OPS_STRUCTURE_COLLECTIVE_H
#define WEFT_OPS_STRUCTURE_COLLECTIVE_H

#include "ops/kit/op_kit.h"

typedef struct collective_attrs {
    const char *path; /* the bucket, or for small sums and broadcasts a scope */
    int64_t order;    /* place among the program's collectives, from 0: the same on all ranks */
    int64_t scratch;  /* sums: bytes of scratch, which is result 1 */
    int64_t group;    /* index in plan->subgraphs of the process group that takes part */
    /* What an op over ranks names: process groups, or "world"; NULL: a pass's, and the path's subgraph
     * says. */
    const char *over;
    int64_t root;   /* broadcast: the rank that sends */
    bool bf16;      /* sums: values are sent in bf16 */
    bool unordered; /* sums: may be added in any order */
} collective_attrs;

/* The bucket that an op's path names; NULL after op_fail. */
const weft_variable *op_bucket(const op_call *c);

/* The table of attributes of sums and broadcasts, and their infer: result 0 is like the operand, result 1 the
 * scratch u8[scratch]. */
extern const op_attr sum_attr_table[];
bool infer_sum(op_call *c);

/* The fields that all have that start a collective in place: it overwrites its operand, on all ranks or
 * on some. Their samples: no bucket and no scope has that path. */
#define STARTS_IN_PLACE                                                                                      \
    .min_in = 1, .flags = OP_VARIABLE | OP_EFFECT | OP_NO_GRADIENT | OP_COMPILER | OP_COMMUNICATES,          \
    OP_ATTRS(collective_attrs, sum_attr_table), .writes = 1
extern const op_sample start_samples[];

#endif
