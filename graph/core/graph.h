/* graph.h - the structures of a model: graphs of nodes, values, variables and scopes. Internal: any file may
 * read the fields; only the functions below and the passes change them.
 *
 * Invariants:
 *   I1  a node's operands come from nodes before it in the list, so a graph has no cycle;
 *   I2  every type in a graph has passed type_check, or type_check_or_empty while a program builds it;
 *   I3  the model's arenas own all nodes, values, attributes and strings; weft_model_free frees them at once;
 *   I4  a graph reads a variable through one `parameter` or `state` node, and the `assign` nodes that
 *       follow. */
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
    VARIABLE_BUCKET,    /* parameters at consecutive offsets, updated together */
    VARIABLE_SHARD,     /* the range of a bucket that this rank updates (ZeRO) */
    VARIABLE_OPTIMIZER, /* state of a bucket or shard, or a scalar of the optimizer (step, lr) */
    VARIABLE_GRADIENT,  /* accumulated gradients of a bucket */
    VARIABLE_DERIVED,   /* a parameter in the form that a kernel prefers; sessions own it, a store does not */
    VARIABLE_CONSTANT,  /* what `constant_tensor` nodes of equal bytes hold; sessions own it too */
} variable_kind;
enum { VARIABLE_KINDS = 8 };
/* Whether variables of the kind are filled by an initializer: parameters, state and optimizer state. */
bool variable_has_init(variable_kind kind);

/* A named tensor that outlives a run. Graphs of one model share variables by path; a store holds their
 * memory. */
struct weft_variable {
    weft_variable *next;      /* in order of making */
    struct weft_node *newest; /* the graph's last node for it; see weft_model.indexed */
    const char *path;         /* "generator/fc/weight" */
    variable_kind kind;
    tensor_type type;
    weft_init init;
    bool is_frozen;
    bool follows; /* parameters: only a call of optimizer_kind.follows trains it, as weft_moving_mean makes */
    const struct weft_graph *moved_in; /* the graph of the last such call; of a model that is being built */
    bool is_cut;                       /* parameters: a strategy begins a bucket with it */
    unsigned kinds;        /* parameters: what the model's calls use them for; see variable_kinds */
    int index;             /* place in the model's list, from 0 */
    weft_variable *bucket; /* the bucket that it is part of, or whose state it is; NULL: none */
    int64_t offset;        /* of its first element in the bucket, in elements */
    /* Buckets, and optimizer and gradient variables over a whole bucket: */
    int n_members;
    weft_variable **members; /* parameters, in order of their offsets */
    /* Buckets: */
    int subgraph; /* index of the subgraph in the plan */
    /* how a strategy sums its gradients over ranks, from its input to its output; NULL: by one all_reduce */
    const weft_graph *sum;
    /* Elements that each rank of the process group updates, by rank; NULL: every rank updates all. */
    const size_t *shards;
    weft_variable *own;      /* the VARIABLE_SHARD of this rank; NULL: it has none */
    const attr_bytes *bytes; /* VARIABLE_CONSTANT: what it holds */
};

/* ---- values and nodes ---- */

/* Passes walk over all nodes and values again and again, and a large graph does not fit into the caches. In
 * both structs the fields that most walks read come first and fill one cache line (MEM_ALIGN bytes). */
struct weft_value {
    alignas(MEM_ALIGN) weft_node *node; /* the node whose result it is */
    weft_value *mapped;                 /* scratch for passes: gradient, replacement, ... */
    int64_t mark;                       /* scratch for passes */
    int id;                             /* %id in dumps */
    int uses;                           /* operands and outputs that name it; set by graph_count_uses */
    /* Where the data is: in a variable's memory (parameter, state, assign, update), inside another value's
     * buffer (views, in-place results, parts of a bucket), or at an offset of its own in the arena. */
    weft_variable *variable;
    weft_value *base;
    int64_t base_offset;  /* from the base's first element, in elements of its own type */
    int64_t arena_offset; /* bytes; -1 before the memory pass, and for values with variable or base */

    int index;       /* number of the result in its node */
    bool has_layout; /* the strides are valid; set by the layout pass */
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
    int id;       /* that of its first result; unique, increases in the order of making */
    int order;    /* place in the schedule; scratch for passes before that */
    int64_t mark; /* scratch for passes */

    weft_graph *graph;
    void *attrs;                      /* op->attrs_bytes bytes; never NULL */
    weft_variable *variable;          /* that it reads or writes; update ops: the bucket */
    const struct weft_kernel *kernel; /* selected by the layout pass */
    /* Nodes that must run before this one though it reads none of their results: graph_order_edges. */
    weft_node **after;
    int n_after;
    int n_body;
    /* `fused` nodes: the pointwise nodes inside, in order. Their operands are operands of this node or
     * results of earlier body nodes; body_out[k] is the body's value that becomes result k. */
    weft_node **body;
    bool is_backward; /* made by autodiff */
    bool is_update;   /* made by the optimizer pass */
    /* part of the gradient of an op that runs in f32, so the precision pass keeps it in f32 */
    bool stays_f32;
    bool is_of_nothing; /* stands for a result of a call with an empty operand: graph/core/empty.c */

    weft_value **body_out;
    weft_node *fused;         /* the fused node whose body holds this one, or NULL */
    const char *scope;        /* path, "" at the top; interned, so equal paths are equal pointers */
    const char *declined;     /* why faster kernels declined, NULL: none did; set by the layout pass */
    size_t workspace_bytes;   /* scratch of its kernel; set by the memory pass */
    int64_t workspace_offset; /* bytes in the arena */
    const char *file;         /* source line of the builder call; NULL: unknown */
    int line;
    int made; /* number in the order of making, which no pass changes; of fused ones the last */
};

/* A value that weft_output has named. Names are unique in a graph. */
typedef struct graph_output {
    struct graph_output *next;
    const char *name;
    weft_value *value;
} graph_output;

/* One level of a graph's stack of open scopes; the top level has the path "" and no parent. */
typedef struct scope_entry {
    struct scope_entry *parent;
    const char *path; /* interned */
    const char *file; /* source line of weft_scope_enter; NULL: unknown */
    int line;
} scope_entry;

struct weft_graph {
    weft_graph *next;
    weft_model *model;
    const char *name;
    weft_mode mode;
    weft_node *first, *last;
    int n_nodes;       /* in the list */
    weft_node *cursor; /* passes: new nodes go after this one; NULL: at the end */
    graph_output *outputs, **outputs_end;
    name_table by_name; /* outputs */
    name_table inputs;  /* nodes, by their names */
    scope_entry *scope; /* innermost open scope; never NULL */
    int next_id, next_made;
    int next_random;                                       /* ordinal of the next random call */
    bool building_backward, building_update, building_f32; /* copied into new nodes */
    bool is_expanded;                                      /* autodiff has run */
    /* graph/core/twin.c: the same calls at another batch, up to twin_last; their values by the ids here */
    weft_graph *twin;
    const weft_node *twin_last;
    weft_value **twin_values;
    int twin_room;
};

/* The ops, kernels and optimizers that there are, as tables that end with NULL. A layer above has them
 * (ops/catalog); a model carries them, so that what is read from a text or a file is found by its name. */
typedef struct op_catalog {
    const weft_op *const *ops;
    const struct weft_kernel *const *cpu, *const *cuda; /* best first */
    const struct weft_kernel *reference;                /* of the CPU: runs every op */
    const struct weft_kernel *own;                      /* the same for ops of a program */
    const struct optimizer_kind *const *optimizers;     /* graph/settings/minimize.h */
} op_catalog;
/* NULL when there is none. */
const weft_op *op_find(const op_catalog *c, const char *name, size_t length);
/* The same among the catalog's and the program's (weft_env.ops), and what an error says where there is none
 * (graph/core/own_op.c). */
const weft_op *model_op(const weft_model *m, const char *name, size_t length);
typedef struct op_missing_text {
    char text[500];
} op_missing_text;
op_missing_text op_missing(const weft_model *m, const char *name, size_t length);
bool op_is_of_program(const weft_op *op);

struct weft_model {
    weft_env env;
    const op_catalog *catalog;
    /* apart from the rest and in the order of making, because passes walk over them often */
    arena nodes, values;
    arena scratch; /* of the pass that runs: the caller frees this afterwards */
    arena arena;   /* strings, attributes and lists; last, since in C++ this field's name hides the type */
    const char *name;
    int64_t batch;    /* the size that WEFT_BATCH stands for */
    bool is_bound;    /* a copy of the compiler's: no other batch or world will be bound */
    int world, rank;  /* of the plan that the model is a copy for; 1 and 0 while it is built */
    bool names_batch; /* a node has WEFT_BATCH among its attributes */
    bool names_ranks; /* a node runs over the ranks of a process group */
    bool needs_world; /* a shape in it depends on the world: its text says both */
    bool is_twin;
    weft_model *twin; /* where the twins of its graphs are (graph/core/twin.c); NULL: none was asked for */
    weft_graph *graphs, **graphs_end;
    weft_variable *variables, **variables_end;
    int n_variables;
    name_table scopes;   /* every interned path */
    name_table by_path;  /* variables */
    name_table in_files; /* parameters and state by their names in files */
    name_table by_name;  /* graphs */
    /* the graph for which variable->newest (its last parameter, state or assign node) holds */
    weft_graph *indexed;
    struct ddp_entry *ddps, **ddps_end; /* options of weft_model_set_ddp: graph/settings/ddp.h */
    const char *strategy; /* text of weft_model_strategy: graph/settings/strategy.h; NULL: none */
    /* settings of weft_model_set_precision: graph/settings/precision.h */
    struct precision_entry *precisions, **precisions_end;
    struct flow_entry *flows, **flows_end; /* of weft_model_set_flow: graph/settings/flow.h */
    struct own_optimizer *own;             /* of weft_define_optimizer: graph/settings/minimize.h */
    weft_error error;                      /* the first error, which later calls keep; WEFT_OK: none */
    const char *file;                      /* source line from weft_at, for all nodes until the next one */
    int line;
};

/* weft_model_new_in with a catalog. */
weft_model *model_new(const char *name, const weft_env *env, const op_catalog *catalog);

/* ---- errors ---- */
/* Records the model's first error with the source line and the open scope of `g` (which may be NULL). Later
 * errors are ignored. Always returns NULL, so that a caller can fail in one line. */
void *model_fail(weft_model *m, weft_graph *g, weft_status status, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* The same for a graph and its model, and for the graph of x. */
void *graph_fail(weft_graph *g, weft_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void *value_fail(const weft_value *x, weft_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* reserved_check() of options of a builder. */
bool value_reserved(const weft_value *x, const char *builder, const uint64_t *reserved, size_t bytes);
/* Zeroed arrays of at least one element, for as long as the model lives, and in m->scratch; NULL: no
 * memory. */
void *model_array(weft_model *m, int64_t count, size_t width);
void *scratch_array(weft_model *m, int64_t count, size_t width);
/* "gan.c:31"; "" where the file is unknown. */
typedef struct shown_place {
    char text[160];
} shown_place;
shown_place show_place(const char *file, int line);
/* model_fail with the source line and scope of node `n`, for errors found after building. The graph of `n`
 * may belong to another model. */
void *node_fail(weft_model *m, const weft_node *n, weft_status status, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
bool model_ok(const weft_model *m); /* false for NULL too */

/* ---- where passes build (graph/core/scope.c) ---- */
/* Between build_begin and build_end new nodes of `g` go after `after` (NULL: to the end of the list), in
 * their order of making, and get the scope `path`, which must be interned. build_end restores the scope, the
 * cursor, the source line and the stamps (g->building_...). */
typedef struct build_place {
    weft_graph *g;
    scope_entry here, *scope;
    weft_node *cursor;
    const char *file;
    int line;
    bool backward, update, f32;
} build_place;
void build_begin(build_place *b, weft_graph *g, const char *path, weft_node *after);
void build_end(build_place *b);

/* ---- nodes ---- */
/* Makes a node, the only way to do so: checks the number of operands and the ranges of attributes, infers the
 * result types and inserts the node at the cursor. Attributes are copied (NULL: all zero). Returns NULL after
 * recording the error; a NULL operand that is required is an error too, unless an earlier call failed: then
 * that error stays. */
weft_node *node_new(weft_graph *g, const weft_op *op, int n_in, weft_value *const *in, const void *attrs);
/* The same, but the results get the caller's types instead of inferred ones: for reading back nodes made by
 * passes (`fused` nodes, operands that were packed). No file of a user reaches this function. */
weft_node *node_new_typed(weft_graph *g, const weft_op *op, int n_in, weft_value *const *in,
                          const void *attrs, int n_out, const tensor_type *types);
/* Infers a node's result types again after a pass has changed its operands or attributes. Only element types
 * may change: false after recording an error, which another number of results or another shape is too. */
bool node_retype(weft_node *n);
/* Whether the op's `integer` computes the node: it has an i32 or i64 operand, and nothing of a float type. */
bool node_is_integer(const weft_node *n);
/* Pointer to the attribute `f32_output` of a node, which makes result 0 f32 although the operands are
 * reduced; NULL: its op has no such attribute. */
bool *node_f32_output(const weft_node *n);
/* Result k of a node that node_new has just made, or what stands for it (graph/core/empty.c). */
weft_value *node_result(weft_node *n, int k);
/* node_new for ops with one result. */
weft_value *node_value(weft_graph *g, const weft_op *op, int n_in, weft_value *const *in, const void *attrs);
/* The graph of a builder's operands. NULL after recording which required operand is NULL; where all are NULL
 * there is no model to record an error in, and an earlier call has recorded one. */
weft_graph *op_graph(const weft_op *op, int n_in, weft_value *const *in);
/* node_value in the graph of the operands: the whole body of a builder that makes one node. */
weft_value *op_value(const weft_op *op, int n_in, weft_value *const *in, const void *attrs);
/* For passes that reorder nodes: the list becomes list[0 .. count), or empty (count 0) and graph_append then
 * fills it. Both leave the number of nodes as it is. */
void graph_relink(weft_graph *g, weft_node *const *list, int count);
void graph_append(weft_graph *g, weft_node *n);
void node_remove(weft_node *n);                       /* unlinks it; the arena keeps its memory */
void node_move_after(weft_node *n, weft_node *place); /* place NULL: to the front */
/* Makes every operand (also in fused bodies) and output that names `from` name `to`. Walks over the whole
 * graph, so a pass that replaces many values sets value->mapped instead and calls the two functions below
 * before and after. */
void graph_replace(weft_graph *g, weft_value *from, weft_value *to);
void graph_clear_mapped(weft_graph *g);
void graph_replace_mapped(weft_graph *g); /* not in fused bodies */
void node_replace_mapped(weft_node *n);   /* the same for the operands of one node */
void graph_count_uses(weft_graph *g);     /* sets value->uses; an output counts as a use */
int graph_node_count(const weft_graph *g);
void graph_number(weft_graph *g); /* node->mark becomes its place in the list, from 0 */
/* Moves nodes only so far that each comes after its operands and `after` nodes; false (with an error) on a
 * cycle (graph/core/sort.c). */
bool graph_sort(weft_graph *g);
/* The same, but a cycle is not an error: then *circle is a node of it and the list stays as it was, else
 * *circle is NULL. False when memory is out. */
bool graph_sort_unless(weft_graph *g, const weft_node **circle);
weft_graph *graph_find(const weft_model *m, const char *name);
/* Writes "conv2d %12 (discriminator/conv1)" into `buffer` and returns it, for messages. */
const char *node_show(const weft_node *n, char buffer[200]);

/* ---- scopes and names (graph/core/scope.c) ---- */
const char *scope_intern(weft_model *m, const char *path); /* equal paths give equal pointers */
bool name_is_valid(const char *name);                      /* 1-200 letters, digits, '_', '-', '.' */
bool path_is_valid(const char *path);                      /* valid names with '/' between */
/* '*' matches any characters. A pattern without '*' matches the path itself and all paths below it; NULL or
 * "" matches all. Several patterns have ',' between them. */
bool path_matches(const char *pattern, const char *path);
/* Copies the next of several patterns, and moves *at, which begins as 0, past it; false at the end. One that
 * is empty beside others becomes ",", which matches nothing. */
enum { PATTERN_ROOM = 1100 /* longer than any path */ };
bool pattern_next(const char *patterns, size_t *at, char one[PATTERN_ROOM]);
/* For errors about a pattern that matches nothing: the parameter that it is nearest to, by its path, a scope
 * or its last name; else the first parameter. NULL: the model has none. */
const weft_variable *pattern_nearest(const weft_model *m, const char *one);
/* WEFT_ORDER where a scope was entered and not left: later parameters would get unintended paths. */
weft_status scopes_check(const weft_model *m, weft_error *error);
/* Key of the random stream for the next random call in the present scope; counts the calls. */
uint64_t random_key(weft_graph *g);

/* ---- variables ---- */
const char *init_name(weft_init_kind kind);         /* "kaiming_uniform"; "?" outside the list */
const char *variable_kind_name(variable_kind kind); /* "parameter"; "?" outside the list */
/* NULL when there is none. */
weft_variable *variable_find(const weft_model *m, const char *path);
/* Whether a node of the graph reads it; one that only writes it does not. */
bool graph_reads(const weft_graph *g, const weft_variable *v);
/* The name of a path in files: "net.fc.weight". NULL: no memory. */
char *file_name_of(arena *a, const char *path);
/* Appends a variable without looking for one of the same path. A parameter or state whose name in files
 * another has is an error. NULL after an error. */
weft_variable *variable_new(weft_model *m, const char *path, variable_kind kind, const tensor_type *type,
                            weft_init init);
/* The same; errors name the line of a call in graph g. */
weft_variable *variable_append(weft_model *m, weft_graph *g, const char *path, variable_kind kind,
                               const tensor_type *type, weft_init init);
/* variable_new for variables that the compiler makes: an existing variable of that path is an error. */
weft_variable *variable_made(weft_model *m, const char *path, variable_kind kind, const tensor_type *type,
                             weft_init init);
/* The same, but returns an existing variable of that path if it has this kind and type. */
weft_variable *variable_shared(weft_model *m, const char *path, variable_kind kind, const tensor_type *type,
                               weft_init init);
/* false after recording why `init` cannot fill `path`, which has ndim axes. g may be NULL. */
bool init_is_valid(weft_model *m, weft_graph *g, const char *path, weft_init init, const tensor_type *type);
/* Whether a program may name it: parameters and state, not the compiler's variables. */
bool variable_is_named(variable_kind kind);
/* Whether its memory is a range of its bucket's: parameters and shards. */
bool variable_is_part(const weft_variable *v);
/* Whether sessions own its memory, and a store knows nothing of it. */
bool variable_is_sessions(const weft_variable *v);
/* The value that the variable has at the end of the graph so far: that of its parameter node, or of its
 * newest state / assign node. Makes a parameter or state node if there is none. */
weft_value *variable_value(weft_graph *g, weft_variable *v);
/* The same without making a node; NULL: the graph does not read the variable. */
weft_value *variable_in_graph(weft_graph *g, const weft_variable *v);
/* Gives the variable a new value, which it returns; NULL for NULL. */
weft_value *variable_assign(weft_graph *g, const weft_variable *v, weft_value *value);
/* weft_parameter for layers. `said` is the caller's initializer; where it is NULL a new parameter gets
 * `otherwise`, and an existing one keeps the initializer that it has. */
weft_value *parameter_or_else(weft_value *near, const char *name, int ndim, const int64_t *shape,
                              const weft_init *said, weft_init otherwise);
/* Keep variable->newest right: the node has been added to its graph's list, or is about to be removed. */
void variable_note_added(weft_node *n);
void variable_note_removed(const weft_node *n);

/* ---- kinds of parameters, bits WEFT_PARAMS_... (graph/core/kinds.c) ---- */
/* Notes what a new node of a model, not of the compiler's copy, uses its parameters for. */
void variable_note_kinds(const weft_node *n);
/* What the calls so far use a parameter for, and what its shape says. */
unsigned variable_kinds(const weft_variable *v);

/* ---- lengths that follow the batch (graph/core/twin.c) ---- */
/* The type of x at another batch and number of ranks than those that the model is built with: what differs
 * follows them. NULL: nothing follows, as in a model of the compiler, or a call on the way to x fits only the
 * numbers it was built with, or memory is out, which is recorded. */
const tensor_type *value_twin(const weft_value *x);

/* ---- whole graphs ---- */
/* A graph that is not in the model's list, so that no program is made of it. NULL: no memory. */
weft_graph *graph_apart(weft_model *m, const char *name, weft_mode mode);
/* Repeats one call in graph g, with its scope and source line. map[id] is the copy of the source's value
 * with that id. */
bool node_replay(const weft_node *n, weft_graph *g, weft_value **map);
/* Repeats all calls and outputs of `from` in the empty graph g. False after recording the model's error. */
bool graph_replay_into(const weft_graph *from, weft_graph *g);
/* Repeats the builder calls of `from` in `model` as graph `name`, at the batch size of `model`, which must
 * hold the variables already. NULL after recording an error. */
weft_graph *graph_replay(const weft_graph *from, weft_model *model, const char *name);
/* Whether all nodes and variables come from builders, so that the model can be replayed and saved; false for
 * a model read from a plan's dump, which holds nodes made by passes. */
bool model_is_as_built(const weft_model *m);
/* Whether the model is being built with a batch of 1 that the compiler may replace: a rule that only a batch
 * of 1 breaks is then left to the compiler. */
bool model_awaits_batch(const weft_model *m);

/* Checks the rules G1 to G7 and G9, which hold after every pass (graph/core/check.c); `after` names the
 * pass in the error. */
bool graph_check(weft_graph *g, const char *after);
/* Checks rule G8: before autodiff, the copy g of `source` still has every value that the user's calls
 * name. */
bool graph_check_names(const weft_graph *source, weft_graph *g, const char *after);

#endif
