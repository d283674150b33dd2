/* ddp.h - the options of a subgraph as a model keeps them, described field by field like an op's attributes, so that
 * they print, parse, save and compare with the same code. */
#ifndef WEFT_GRAPH_CORE_DDP_H
#define WEFT_GRAPH_CORE_DDP_H

#include "graph/core/graph.h"
#include "weft/ddp.h"

/* Fields are those of ddp_list.h; process_group is NULL for the world, never "" in a model. */
typedef struct ddp_attrs {
#define X(name, type, ...) type name;
#include "graph/core/ddp_list.h"
#undef X
} ddp_attrs;
extern const op_attr ddp_attr_table[];
extern const bool ddp_acts_alone[]; /* by place in the table: whether it matters in a world of one rank */
/* No op, and in no list: what the helpers for attributes (attrs_write, attrs_parse, ...) ask for. */
extern const weft_op ddp_fields;

/* In a model's list, in order of the first call on each path. */
typedef struct ddp_entry {
    struct ddp_entry *next;
    const char *path; /* a scope; "": the whole model */
    ddp_attrs attrs;
} ddp_entry;

enum {
    DDP_MAX_RANKS = 1 << 20,       /* ranks in a process group are below it */
    DDP_MAX_TEXT_BYTES = 64 << 10, /* of a process group, of options as text */
};

/* weft_ddp behind the public struct: checks, then copies into the model. false after recording the model's error. */
bool ddp_set(weft_model *m, const char *path, const ddp_attrs *attrs);
/* The entry of exactly this path ("/" is ""), or NULL. */
ddp_entry *ddp_at(const weft_model *m, const char *path);
/* The entry with the longest path that `parameter` lies under, or NULL. */
const ddp_entry *ddp_find(const weft_model *m, const char *parameter);
/* "ddp generator zero=1\n"; the whole model is "/" */
void ddp_write(text *t, const ddp_entry *e);

/* The group of `rank` in a text like "0-3;4-7", in the order written. NULL and "": 0 to world - 1; a rank that is not
 * named: {rank}. Fills ranks[world], of which the rest may be overwritten, and returns how many; 0 with *why when the
 * text is malformed, names a rank twice or one that is not below world. */
int process_group_of(const char *groups, int world, int rank, int *ranks, const char **why);
/* How many ranks the largest group of such a text has. */
int process_group_largest(const char *groups, int world);

#endif
