/* view.h - what the page of `graphtool view` shows, as plain numbers: what the steps below collect, one after
 * another, and data.c writes as JSON.
 *
 *   state  a graph after a pass that changed it; the last one runs
 *   node   of any state. One that survives a pass is one node of the view
 *   value  a result of a node of the view
 *   cell   what is drawn in a scope: a node of its own, or a scope in it that is closed
 *
 * Invariants:
 *   I1  a node's operands have smaller numbers than itself: nodes of the last state come first, in the order
 *       of the schedule, then those of earlier states, the later ones first; what a node reads lives at least
 *       as long;
 *   I2  -1 means that there is no such thing; text 0 is "", scope 0 the root. */
#ifndef WEFT_TOOLS_GRAPHTOOL_VIEW_VIEW_H
#define WEFT_TOOLS_GRAPHTOOL_VIEW_VIEW_H

#include "runtime/plan/program.h"
#include "tools/graphtool/options/options.h"
#include "tools/graphtool/output/output.h"

enum { VIEW_FORWARD, VIEW_BACKWARD, VIEW_UPDATE, VIEW_PHASES };

/* Texts, each once. */
typedef struct view_texts {
    arena memory;
    name_table by_text;
    const char **v;
    int n;
} view_texts;

typedef struct view_node {
    const weft_op *kind;
    int next_alike; /* another node of the same number of making: one is fused into the other; -1 */
    int op, attrs, kernel, source, declined, collective; /* texts */
    int form; /* text: the attributes without names and keys, and how a body is wired */
    int scope, phase;
    int first, last; /* states */
    int step, lane, parameter, bucket, waits_for;
    int reads, n_reads, values, n_values; /* the first of each, and how many */
    int64_t flop;
    int64_t us, begin_us; /* -1: not measured */
} view_node;

typedef struct view_value {
    int node, name, type; /* texts: "%12" or the name of an output; "f32[8,64]:nhwc" */
    int base;             /* the value whose buffer holds it */
    int from, until;      /* steps between which its buffer is needed; -1: it is not in the arena */
    int64_t bytes, offset;
} view_value;

/* An operand, in the states from `since` to the last one of its node. */
typedef struct view_read {
    int value, since;
} view_read;

/* An operand of earlier states only. */
typedef struct view_earlier {
    int node, place, value, first, last;
    int before; /* another one of this node */
} view_earlier;

typedef struct view_workspace {
    int node;
    int64_t offset, bytes;
} view_workspace;

typedef struct view_output {
    int name, value;
} view_output;

typedef struct view_scope {
    int path, name; /* texts */
    int parent, same, nodes;
    int depth;
    int first_child, next; /* scopes in it, in the order of their first nodes */
    int begin, end;        /* its nodes and those below it: places in view_graph.by_scope */
    int row[VIEW_PHASES], column[VIEW_PHASES];
} view_scope;

typedef struct view_graph {
    struct view_plan *of;
    arena memory;
    const char *name;
    weft_mode mode;
    program_phase phase;
    int64_t arena_bytes;
    bool is_measured;
    int64_t total_us;
    int peak_step, deferred, loss; /* deferred: the first step of the deferred part */
    int n_states, n_nodes, n_values, n_reads, n_earlier, n_workspaces, n_outputs, n_scopes;
    int *states; /* texts: names of passes, in their order */
    view_node *nodes;
    view_value *values;
    view_read *reads;
    view_earlier *earlier;
    view_workspace *workspaces;
    view_output *outputs;
    view_scope *scopes;
    name_table by_path; /* scopes */
    /* Nodes by scope, those of a scope before those of the scopes in it; and the place of each node there. */
    int *by_scope, *place;
    int *row, *column; /* of nodes */
    /* While states are collected, the last one first: by number of making, a node; by node, the last of its
     * `earlier`; the value of each id in this state; and the name of the output that is minimized. */
    int n_made, n_ids, *of_made, *earlier_of, *value_of_id, minimized;
} view_graph;

/* A parameter, a state, or a bucket of parameters. */
typedef struct view_variable_row {
    int path, kind, type; /* texts */
    int subgraph, bucket;
    int64_t bytes;
} view_variable_row;

typedef struct view_plan {
    arena memory;
    view_texts *texts;
    const char *name;
    const weft_plan *plan;
    int n_graphs, n_parameters, n_buckets;
    view_graph *graphs;
    view_variable_row *parameters, *buckets;
    name_table by_path; /* of both */
} view_plan;

/* ---- texts.c ---- */
/* The number of a text, which is copied; NULL and "" are 0. */
int view_text(view_texts *t, const char *text);
/* The same of what was gathered, which it empties; blanks at its start are left out. */
int view_take(view_texts *t, text *gathered);
/* Memory of the view, zeroed. */
void *view_new(arena *a, int64_t count, size_t width);
/* array[count] with room for one more. */
void *view_grow(arena *a, void *array, int count, size_t width);

/* ---- the steps ---- */
/* collect.c: compiles the model, up to each pass that may change nodes, and collects all states. */
view_plan *view_collect(view_texts *texts, const weft_model *m, const options *o);
/* variables.c: the parameters and buckets of the plan; the number of one of either kind, -1: there is
 * none. */
void view_variables(view_plan *v);
int view_variable(const view_plan *v, const char *path);
/* scopes.c: the number of a scope, which is made if there is none. */
int view_scope_of(view_graph *g, const char *path);
/* After the last state: counts, the children of each scope, and nodes by scope. */
void view_scopes_finish(view_graph *g);
/* places.c: offsets and lives, of the program that runs, whose nodes are the first of g. */
void view_places(view_graph *g, const program *p);
/* reasons.c: why a collective is there; a text, 0 for other nodes. */
int view_reason(view_texts *t, const weft_plan *plan, const weft_node *n);
/* equal.c: which sibling scopes are equal. */
void view_equal(view_graph *g);
/* layout.c: rows and columns. */
void view_layout(view_graph *g);
/* columns.c: a list of numbers in the shortest of three forms: [...], {"runs": [...]}, {"delta": [...]};
 * at: the first, `stride` bytes apart, of `width` bytes each. */
json_t *view_column(const void *at, int count, size_t stride, size_t width);
/* measure.c: the times of --profile. */
void view_measure(view_plan *v, weft_model *m, const options *o);
/* difference.c: what differs between two plans, by nodes of the view. */
json_t *view_difference(const weft_plan *a, const weft_plan *b);
/* data.c: a text as JSON, whatever bytes it has. */
json_t *view_string(const char *s);
/* All of it, as the page reads it (page/README.md). NULL: out of memory. */
json_t *view_json(const view_texts *texts, view_plan *const *plans, int n_plans);
/* page.c: the page with its data, which it releases. */
void view_write(const char *path, json_t *data);

#endif
