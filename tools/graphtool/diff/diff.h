/* diff.h - what differs between two models, or between two plans: a list of changes.
 *
 * A change of a node follows from others where shapes alone differ, and those of its operands or the batch
 * explain them, or where it reads a value that one of the two graphs has alone. All others are edits.
 * With the two exchanged the changes are the same ones, "added" and "removed" exchanged. */
#ifndef WEFT_TOOLS_GRAPHTOOL_DIFF_DIFF_H
#define WEFT_TOOLS_GRAPHTOOL_DIFF_DIFF_H

#include "runtime/plan/program.h"
#include "tools/graphtool/diff/match.h"

typedef enum diff_kind { DIFF_ADDED, DIFF_REMOVED, DIFF_CHANGED } diff_kind;
typedef enum diff_what {
    DIFF_SETTING,   /* a compile option, the flow, a setting of subgraphs or precision; path: its name */
    DIFF_PARAMETER, /* or state; path: its own */
    DIFF_GRAPH,     /* one of the two has it; path: its name */
    DIFF_SCOPE,     /* it has another name, and the same content; path: the one it had first */
    DIFF_OUTPUT,    /* path: its name */
    DIFF_NODE,      /* path: its scope, or the name of an input */
} diff_what;
extern const char *const diff_kinds[], *const diff_whats[]; /* "added", "node" */

typedef struct diff_change {
    diff_kind kind;
    diff_what what;
    bool follows;
    int graph;                /* place in the list of graphs; -1: it is of the whole */
    const weft_node *node[2]; /* in the first, in the second; NULL: it is not there */
    const char *path;         /* in the first, or in the second where the first has it not */
    const char *op;           /* of a node, the one of the first; "" of others */
    const char *text;         /* of one that is there: what it is; of a change: "stride 2,2 -> 1,1; ..." */
} diff_change;

/* A graph of either: of a model, or a program of a plan. */
typedef struct diff_graph {
    const char *name;
    program_phase phase;     /* of a program */
    const weft_graph *g[2];  /* NULL: it is not there */
    const program *p[2];     /* of plans */
    const graph_match *pair; /* NULL: one of the two has it alone */
} diff_graph;

typedef struct difference {
    int n_graphs, n;
    diff_graph *graphs; /* those of the first, then the second's own */
    size_t room;
    diff_change *v; /* settings, parameters, then by graph in the order of nodes */
} difference;

/* Both last as long as the command. The first compares graphs as they run, and all that is set. */
const difference *diff_plans(const weft_plan *a, const weft_plan *b);
/* Of graphs as they are written: those of which a program is in one of the plans. What is set is the
 * plans'. */
const difference *diff_models(const weft_model *const models[2], const weft_plan *const plans[2]);

/* ---- its parts ---- */

void diff_add(difference *d, diff_change c);
void diff_settings(difference *d, const weft_plan *const plans[2]);    /* diff_settings.c */
void diff_variables(difference *d, const weft_model *const models[2]); /* diff_variables.c */
void diff_graph_nodes(difference *d, int graph);                       /* diff_nodes.c */

/* From which length to which an axis changed. */
typedef struct diff_ratio {
    int64_t from, to;
} diff_ratio;
enum { DIFF_RATIOS = 32 };
typedef struct diff_ratios {
    int n;
    diff_ratio v[DIFF_RATIOS];
} diff_ratios;
/* diff_follow.c: notes the axes in which b differs from a; whether all in which it does differ by such
 * factors. */
void diff_note_axes(diff_ratios *r, const tensor_type *a, const tensor_type *b);
bool diff_explains(const diff_ratios *r, const tensor_type *a, const tensor_type *b);
bool diff_explains_numbers(const diff_ratios *r, const attr_ints *a, const attr_ints *b);
/* The batch, where the models' or plans' differ. */
diff_ratios diff_batches(const diff_graph *g);
/* By index of a variable of the first, of which pair[] is the one of the second: whether a change of its
 * shape follows from what is read beside it, and whether anything that is has another shape, so that initial
 * values are others. */
enum { DIFF_SHAPE_FOLLOWS = 1, DIFF_READ_WITH_OTHERS = 2 };
unsigned char *diff_explained(const difference *d, const weft_model *first, const weft_variable *const *pair);

#endif
