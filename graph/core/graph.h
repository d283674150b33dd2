/* graph.h - the structures of a model: graphs of nodes, variables, scopes. Internal; fields are read freely,
 * changed only by the functions below and by the passes.
 *
 * Invariants:
 *   I1  a node's operands come from nodes before it in the list (no cycles, ever);
 *   I2  every type in a graph has passed type_check;
 *   I3  one arena owns all nodes, attributes and strings of a model;
 *   I4  a variable is read through one `parameter` node a graph, or a chain of `state` / `assign` nodes.
 */
#ifndef WEFT_GRAPH_CORE_GRAPH_H
#define WEFT_GRAPH_CORE_GRAPH_H

#include "graph/core/error.h"
#include "graph/core/op.h"
#include "graph/core/table.h"
#include "weft/train.h"

#include <stdalign.h>

/* ---- variables: what a store holds ---- */

typedef enum variable_kind {
    VARIABLE_PARAMETER,
    VARIABLE_STATE,
    VARIABLE_BUCKET,    /* parameters that lie one after the other and are updated together */
    VARIABLE_SHARD,     /* the range of a bucket that this rank updates (ZeRO) */
    VARIABLE_OPTIMIZER, /* optimizer state over a bucket or shard, or a scalar of the optimizer (step, lr) */
    VARIABLE_GRADIENT,  /* accumulated gradients of a bucket */
    VARIABLE_DERIVED,   /* a parameter in a form that a kernel prefers; owned by sessions, not by the store */
} variable_kind;
enum { VARIABLE_KINDS = 7 };
bool variable_has_init(variable_kind kind);

struct weft_variable {
    weft_variable *next;      /* in order of making */
    struct weft_node *newest; /* see weft_model.indexed */
    const char *path;         /* "generator/fc/weight" */
    variable_kind kind;
    tensor_type type;
    weft_init init;
    bool is_frozen;
    int index;              /* in order of making */
    weft_variable *bucket;  /* whose parameter, shard or optimizer state this is; NULL: nobody's */
    int64_t offset;         /* where it begins there, in elements */
    /* Buckets, and optimizer and gradient variables over a whole one: */
    int n_members;
    weft_variable **members; /* parameters, in order of their offsets */
    /* Buckets: */
    int subgraph; /* index in the plan */
    /* Elements that each rank of the process group updates, in order; NULL: all do all. */
    const size_t *shards;
    weft_variable *own; /* of these the range of this rank, a VARIABLE_SHARD; NULL: it has none */
};

/* ---- values and nodes ---- */

/* Passes walk through all nodes and values time and again, and a large graph lies in no cache: of each, what most walks
 * read comes first and fills one cache line. */
struct weft_value {
    alignas(MEM_ALIGN) weft_node *node; /* that makes it */
    weft_value *mapped;                 /* scratch for passes: gradient, replacement, ... */
    int64_t mark;                       /* scratch for passes */
    int id;                             /* %id in dumps */
    int uses;                           /* operands that name it; recomputed by graph_count_uses */
    /* Where it lives: a variable's memory (parameter, state, assign, update), or inside another value's buffer
     * (views, in-place results, parts of a bucket), or its own place in the arena. */
    weft_variable *variable;
    weft_value *base;
    int64_t base_offset;  /* elements of its own type, from the base's first */
    int64_t arena_offset; /* bytes; -1 until the memory pass, and for values with a variable or a base */

    int index;       /* which of its node's results */
    bool has_layout; /* set, as the strides are, by the layout pass */
    tensor_type type;
    int64_t stride[WEFT_MAX_NDIM];
};

struct weft_node {
    alignas(MEM_ALIGN) weft_node *next;
    weft_node *prev;
    const weft_op *op;
    weft_value **in; /* NULL for a missing optional operand */
    weft_value *out; /* out[n_out] */
    int n_in, n_out;
    int id;       /* of its first result; unique and increasing as nodes are made */
    int order;    /* place in the schedule */
    int64_t mark; /* scratch for passes */

    weft_graph *graph;
    void *attrs;                      /* op->attrs_bytes, never NULL */
    weft_variable *variable;          /* parameter, state, assign: which; update ops: the bucket */
    const struct weft_kernel *kernel; /* from the layout pass on */
    /* Nodes that must run before this one though it reads nothing of theirs: graph_order_edges. */
    weft_node **after;
    int n_after;
    int n_body;
    /* `fused` nodes: the pointwise nodes inside, in order; their operands are this node's operands or each
     * other; this node's results are some of theirs (body_out[k] makes result k). */
    weft_node **body;
    bool is_backward; /* made by autodiff */
    bool is_update;   /* made by the optimizer pass */
    bool stays_f32; /* part of the gradient of an op that runs in f32: so does this; for the precision pass */

    weft_value **body_out;
    weft_node *fused;     /* the fused node that took this one in, or NULL */
    const char *scope;    /* path, "" at the top; interned: equal paths are equal pointers */
    const char *declined; /* why faster kernels were passed over, NULL if none was; from the layout pass on */
    size_t workspace_bytes;   /* from the memory pass on */
    int64_t workspace_offset; /* bytes in the arena */
    const char *file;         /* caller's place, NULL when unknown */
    int line;
};

typedef struct graph_output {
    struct graph_output *next;
    const char *name;
    weft_value *value;
} graph_output;

typedef struct scope_entry {
    struct scope_entry *parent;
    const char *path; /* interned */
    const char *file; /* where it was entered, NULL when unknown */
    int line;
} scope_entry;

struct weft_graph {
    weft_graph *next;
    weft_model *model;
    const char *name;
    weft_mode mode;
    weft_node *first, *last;
    int n_nodes;       /* in the list */
    weft_node *cursor; /* new nodes go after it; NULL: at the end. For passes. */
    graph_output *outputs, **outputs_end;
    name_table by_name; /* outputs */
    name_table inputs;  /* nodes, by their names */
    scope_entry *scope; /* present scope; never NULL */
    int next_id;
    int next_random;                                       /* ordinal of the next random call */
    bool building_backward, building_update, building_f32; /* stamps nodes */
    bool is_expanded;                                      /* autodiff has run */
};

struct weft_model {
    weft_env env;
    arena nodes, values; /* side by side in the order of making: passes walk through them time and again */
    arena arena;         /* all else; last, since for C++ the name hides the type */
    const char *name;
    int64_t batch;    /* what WEFT_BATCH means */
    bool is_unsealed; /* from a model.bin of version 1: nothing proves that it is whole */
    weft_graph *graphs, **graphs_end;
    weft_variable *variables, **variables_end;
    int n_variables;
    name_table scopes;   /* every interned path */
    name_table by_path;  /* variables */
    name_table by_name;  /* graphs */
    weft_graph *indexed; /* whose last parameter, state or assign node of each variable is variable->newest */
    struct ddp_entry *ddps, **ddps_end;                   /* what weft_ddp said: graph/core/ddp.h */
    struct precision_entry *precisions, **precisions_end; /* what weft_precision said: graph/core/precision.h */
    weft_error error;                                     /* the first one; WEFT_OK: none */
    const char *file; /* the caller's place, from weft_at; used by the next builder */
    int line;
};

/* ---- errors ---- */
/* Records the model's first error with place and scope; always returns NULL. g may be NULL. */
void *model_fail(weft_model *m, weft_graph *g, weft_status status, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* "gan.c:31"; "" where the file is not known. */
typedef struct shown_place {
    char text[160];
} shown_place;
shown_place show_place(const char *file, int line);
/* The same where the builder call of `n` stands, for what shows only later; its graph may be another model's. */
void *node_fail(weft_model *m, const weft_node *n, weft_status status, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
bool model_ok(const weft_model *m); /* false for NULL too */

/* ---- where passes build (graph/core/scope.c) ---- */
/* From build_begin to build_end new nodes of `g` stand behind `after` (NULL: at the end of the list) in the scope `path`, which
 * is interned. build_end brings back what was before, the stamps (g->building_...) too. In between `after` is g->cursor. */
typedef struct build_place {
    weft_graph *g;
    scope_entry here, *scope;
    weft_node *cursor;
    bool backward, update, f32;
} build_place;
void build_begin(build_place *b, weft_graph *g, const char *path, weft_node *after);
void build_end(build_place *b);

/* ---- nodes (graph/core/node.c) ---- */
/* The only way a node is made: checks operand count, attribute ranges, runs infer, appends at the cursor.
 * Attributes are copied (NULL: zeroes). NULL after recording the error, which a NULL operand in a required place is
 * too (unless an earlier call failed: then that one stands). */
weft_node *node_new(weft_graph *g, const weft_op *op, int n_in, weft_value *const *in, const void *attrs);
/* The same with results of the caller's types in place of infer's: for reading back what passes made (`fused`
 * nodes, operands that were packed). Nothing that a user's file can reach goes through here. */
weft_node *node_new_typed(weft_graph *g, const weft_op *op, int n_in, weft_value *const *in,
                          const void *attrs, int n_out, const tensor_type *types);
/* Infers a node's types again, after a pass has changed its operands or attributes; false after recording the error,
 * which a different number of results or another shape is too. */
bool node_retype(weft_node *n);
/* The attribute of a node that makes result 0 of reduced operands f32; NULL: its op has none. */
bool *node_f32_output(const weft_node *n);
/* node_new for ops with one result. */
weft_value *node_value(weft_graph *g, const weft_op *op, int n_in, weft_value *const *in, const void *attrs);
/* The graph of a builder's operands; NULL after recording which required one is NULL. Where all are NULL there is no
 * model to record it in: the caller's NULL passes through. */
weft_graph *op_graph(const weft_op *op, int n_in, weft_value *const *in);
/* node_value in that graph: what a builder of one node is. */
weft_value *op_value(const weft_op *op, int n_in, weft_value *const *in, const void *attrs);
/* For passes that put the same nodes in another order: the list becomes `list`, or empty and is filled node by node. */
void graph_relink(weft_graph *g, weft_node *const *list, int count);
void graph_append(weft_graph *g, weft_node *n);
void node_remove(weft_node *n);                       /* unlinks; memory stays with the arena */
void node_move_after(weft_node *n, weft_node *place); /* place NULL: to the front */
/* Every operand and output that names `from` names `to` from now on (fused bodies included). It walks through the whole
 * graph: a pass that replaces many sets their value->mapped instead, between these two. */
void graph_replace(weft_graph *g, weft_value *from, weft_value *to);
void graph_clear_mapped(weft_graph *g);
void graph_replace_mapped(weft_graph *g); /* not in fused bodies */
void node_replace_mapped(weft_node *n);   /* its operands alone */
void graph_count_uses(weft_graph *g);     /* value->uses, outputs counted */
int graph_node_count(const weft_graph *g);
/* Sets node->after: readers and writers of one variable keep the order in which they were built, and copies what is read
 * behind a write that the reader waits for. Sorts. */
bool graph_order_edges(weft_graph *g);
/* Puts operands and `after` nodes first, otherwise keeps the order; false (with an error) on a cycle (graph/passes/sort.c). */
bool graph_sort(weft_graph *g);
/* The same, or leaves the list as it is where a node waits for itself: *circle, else NULL. False: memory was out. */
bool graph_sort_unless(weft_graph *g, const weft_node **circle);
weft_graph *graph_find(const weft_model *m, const char *name);
/* "conv2d %12 (discriminator/conv1)" for messages */
const char *node_show(const weft_node *n, char buffer[200]);

/* A new value that is v: where a caller gets what he may name, though nothing is to be done. */
weft_value *value_again(weft_value *v);

/* ---- scopes and names (graph/core/scope.c) ---- */
const char *scope_intern(weft_model *m, const char *path); /* equal paths give equal pointers */
bool name_is_valid(const char *name);                      /* 1-200 letters, digits, '_', '-', '.' */
bool path_is_valid(const char *path);                      /* valid names with '/' between */
/* '*' matches any characters. A pattern without '*' matches the path itself and everything below it. */
bool path_matches(const char *pattern, const char *path);
/* WEFT_ORDER where a scope was entered and not left: what is built next would get names in it. */
weft_status scopes_check(const weft_model *m, weft_error *error);
/* Stream of random numbers of the next random call in the present scope. */
uint64_t random_key(weft_graph *g);

/* ---- variables (graph/core/variable.c) ---- */
weft_variable *variable_find(const weft_model *m, const char *path);
weft_variable *variable_new(weft_model *m, const char *path, variable_kind kind, const tensor_type *type,
                            weft_init init);
/* For the compiler's own: a path that is taken is an error. */
weft_variable *variable_made(weft_model *m, const char *path, variable_kind kind, const tensor_type *type,
                             weft_init init);
/* The same where it may have been made before, of this kind and type. */
weft_variable *variable_shared(weft_model *m, const char *path, variable_kind kind, const tensor_type *type,
                               weft_init init);
/* false after recording why `init` cannot fill `path`, which has ndim axes. g may be NULL. */
bool init_is_valid(weft_model *m, weft_graph *g, const char *path, weft_init init, int ndim);
/* Whether it lies in its bucket's memory. */
bool variable_is_part(const weft_variable *v);
/* The graph's present value of a variable: its parameter node, or the newest state / assign result; made if there is none. */
weft_value *variable_value(weft_graph *g, weft_variable *v);
/* The same; NULL: the graph does not read it. */
weft_value *variable_in_graph(weft_graph *g, const weft_variable *v);
/* weft_parameter for layers: `said` is the caller's initializer; NULL: `otherwise`, and one that is found keeps its own. */
weft_value *parameter_or_else(weft_value *near, const char *name, int ndim, const int64_t *shape,
                              const weft_init *said, weft_init otherwise);
/* A node has come into its graph's list, or goes: keeps what those two look up. */
void variable_note_added(weft_node *n);
void variable_note_removed(const weft_node *n);

/* ---- whole graphs ---- */
/* Copies `from` into `model` (its variables already there) as `name`, call by call at that model's batch. */
weft_graph *graph_replay(const weft_graph *from, weft_model *model, const char *name);
/* Only what builders made can be repeated or saved: not what passes leave behind, as in a plan's dump. */
bool model_is_as_built(const weft_model *m);
/* A model with the same variables and options of subgraphs, and no graphs. NULL when memory is out. */
weft_model *model_clone_variables(const weft_model *from, int64_t batch);

/* ---- dumps (graph/text/write.c, graph/text/read.c) ---- */
void graph_write(text *t, const weft_graph *g);
void variable_write(text *t, const weft_variable *v);
const char *init_name(weft_init_kind kind);         /* "kaiming_uniform"; "?" outside the list */
const char *variable_kind_name(variable_kind kind); /* "parameter"; "?" outside the list */
/* "conv2d(f32[8,3,12,12]:nhwc, f32[8,3,3,3]) stride=1,1 pad=1,1": a node apart from its graph */
void node_signature(text *t, const weft_node *n);
/* A node of that signature in a graph of its own model: operands are inputs named "0", "1", ... */
weft_node *node_from_signature(const char *signature, const weft_env *env, weft_error *error);

/* What must hold after every pass (graph/passes/check.c lists the rules); `after` names the pass in the error. */
bool graph_check(weft_graph *g, const char *after);
/* Until gradients are made, whatever the calls of `source` name stands for itself in its copy g (rule G8). */
bool graph_check_names(const weft_graph *source, weft_graph *g, const char *after);

/* ---- passes on one graph; false after recording the model's error ---- */
bool pass_simplify(weft_graph *g); /* constants, identities, common subexpressions, dead nodes */
/* Expands `gradients` nodes and the gradients of `minimize`; `seed` is d loss / d loss of the latter: 1, or 1/k
 * when k micro-batches make a step, times the number f64[] that `factor` gives for the node, if it gives one. */
bool pass_autodiff(weft_graph *g, double seed,
                   weft_value *(*factor)(const weft_node *minimize, const void *of), const void *of);
bool pass_fuse(weft_graph *g); /* pointwise chains become `fused` nodes */
void graph_remove_dead(weft_graph *g);

#endif
