/* ddp.h - the options of a subgraph as a model keeps them: a struct described field by field like an op's
 * attributes, so that the same code prints, parses, saves and compares them. */
#ifndef WEFT_GRAPH_SETTINGS_DDP_H
#define WEFT_GRAPH_SETTINGS_DDP_H

#include "graph/core/graph.h"
#include "weft/ddp.h"

/* The fields of ddp_list.h. process_group is NULL for the world; it is never "" in a model. */
typedef struct ddp_attrs {
#define X(name, type, ...) type name;
#include "graph/settings/ddp_list.h"
#undef X
} ddp_attrs;
extern const op_attr ddp_attr_table[];
extern const char *const shard_words[]; /* in the order of weft_shard; NULL ends them */
/* by index in the table: whether the option acts in a world of one rank */
extern const bool ddp_acts_alone[];
/* Not an op of any graph: a weft_op that holds the table above, since the helpers for attributes
 * (attrs_write, attrs_parse, ...) take one. */
extern const weft_op ddp_fields;

/* The options of one path. A model lists its entries in the order of the first call on each path. */
typedef struct ddp_entry {
    struct ddp_entry *next;
    const char *path; /* a scope; "": the whole model */
    ddp_attrs attrs;
} ddp_entry;

enum {
    DDP_MAX_RANKS = 1 << 20,       /* numbers of ranks in a process group are below this */
    DDP_MAX_TEXT_BYTES = 64 << 10, /* longest process group, and longest options as text */
};

/* The options of a program as attributes; its strings stay the caller's. */
ddp_attrs ddp_attrs_of(const weft_ddp_options *options);
/* Checks the options and copies them into the model, replacing those of the path; the one way in. false after
 * recording the model's error. */
bool ddp_set(weft_model *m, const char *path, const ddp_attrs *attrs);
/* The entry of exactly this path ("/" is ""), or NULL. */
ddp_entry *ddp_at(const weft_model *m, const char *path);
/* The entry whose path is the longest scope of `parameter`, or NULL. */
const ddp_entry *ddp_find(const weft_model *m, const char *parameter);
/* The length of the path of `parameter`'s subgraph, which is the beginning of its own: the entry's that
 * claims it, or its top-level scope's; 0: of the whole model, and of parameters outside any scope. A path
 * that ends with '/' asks for a scope. */
size_t ddp_subgraph(const weft_model *m, const char *parameter);
/* Writes "ddp generator zero=1\n"; the path of the whole model is "/". */
void ddp_write(text *t, const ddp_entry *e);

/* Finds the group of `rank` in a text like "0-3;4-7": fills ranks[] in the order written and returns how
 * many. NULL and "" mean all ranks, 0 to world - 1; a rank that the text does not name is in a group of its
 * own. ranks[] needs room for `world` numbers, all of which may be overwritten. Returns 0 and sets *why when
 * the text is malformed, or names a rank twice or one that is not below `world`. */
int process_group_of(const char *groups, int world, int rank, int *ranks, const char **why);
/* WEFT_ARGUMENT or WEFT_MEMORY with *why: what is wrong with such a text in a world of any size. NULL
 * and "" are good. */
weft_status process_group_check(const weft_env *env, const char *groups, const char **why);
/* The number of ranks in the group of `rank`, of a text that has been checked; 0 with *why where it
 * names a rank that is not below `world`, and with `alike` where a rank of the world is in a group of
 * another size. */
int process_group_size(const char *groups, int world, int rank, bool alike, const char **why);
/* The number of ranks in the largest group of such a text. */
int process_group_largest(const char *groups, int world);

#endif
