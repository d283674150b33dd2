/* ddp.h - the options of a subgraph as a model keeps them, described field by field like an op's attributes, so that
 * they print, parse, save and compare with the same code. */
#ifndef WEFT_GRAPH_DDP_H
#define WEFT_GRAPH_DDP_H

#include "graph/graph.h"
#include "weft/ddp.h"

typedef struct ddp_attrs {
    double bucket_cap_mb;
    int64_t zero, shard;
    bool broadcast_buffers, find_unused_parameters, sync_batch_norm;
    bool bf16_wire;
    const char *process_group;
} ddp_attrs;
extern const op_attr ddp_attr_table[];

/* In a model's list, in order of the first call on each path. */
struct ddp_entry {
    struct ddp_entry *next;
    const char *path; /* a scope; "": the whole model */
    ddp_attrs attrs;
};

/* The entry with the longest path that `parameter` lies under, or NULL. */
const struct ddp_entry *ddp_find(const weft_model *m, const char *parameter);
/* "ddp generator zero=1\n" */
void ddp_write(text *t, const struct ddp_entry *e);

/* The group of `rank` in a text like "0-3;4-7", in the order written; NULL, "" : 0 to world - 1; a rank that is not named: {rank}.
 * Fills ranks[world], returns how many; 0 with *why when the text is malformed, names a rank twice or one that is
 * not below world. */
int process_group_of(const char *groups, int world, int rank, int *ranks, const char **why);

#endif
