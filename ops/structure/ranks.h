/* ranks.h - what ops over ranks share: their attributes, and which ranks take part. They are mathematics
 * until the pass `collectives` makes starts and waits of them (runtime/passes/distribute/collectives.c).
 * All ranks merge and drop them by the same rules, since their graphs are the same. */
#ifndef WEFT_OPS_STRUCTURE_RANKS_H
#define WEFT_OPS_STRUCTURE_RANKS_H

#include "ops/kit/op_kit.h"

typedef struct ranks_attrs {
    const char *group; /* process groups, "0-3;4-7"; NULL: all ranks */
    /* Of a node that a pass made: the bucket or the scope that needs it, whose subgraph's ranks take part; it
     * names the node in messages and traces. */
    const char *path;
    int64_t root; /* broadcast_ranks: the place in the group of the rank whose value it is */
    bool mean;    /* sums: divided by the number of ranks */
    bool stacked; /* gather_ranks: along a new axis in front */
} ranks_attrs;

/* The rows of `group` in tables of attributes. */
#define RANKS_GROUP_ROW                                                                                      \
    { "group", ATTR_STRING, offsetof(ranks_attrs, group) }

/* The number of ranks in this rank's group, 1 while a model is built; 0 after op_fail. `alike`: the
 * groups must be of one size, since the number is in a shape, and shapes are the same on all ranks. */
int ranks_of_call(const op_call *c, bool alike);
/* The number of ranks in a group of the model's rank, of a text that has been checked; 1 where the model
 * has one rank, whatever the text. 0 with *why where it does not fit the world. */
int ranks_in(const weft_model *m, const char *group, bool alike, const char **why);
/* For infer: operand 0 is of a type that ranks can add, and the group is good. */
bool infer_ranks_sum(op_call *c);
/* For infer: the number of ranks in *n, and operand 0 has an axis 0; false after op_fail. */
bool infer_ranks_cut(op_call *c, int *n);
/* The value itself where the world has one rank, else NULL: `simplify` of these ops. */
weft_value *simplify_one_rank(weft_node *n);
/* The numbers of a rank_rows node on the rank with this place in its group. */
weft_value *rank_rows_value(weft_node *n, int rank);

#endif
