/* import.h - how an ONNX graph becomes calls of builders.
 *
 * A file's values are known (constants, and what follows from them and from shapes) or values of a graph. A
 * node whose operands are all known is computed here, by a graph of its own (fold.c); any other one is built
 * by the row of its operator (operators.h).
 *
 * Which lengths follow the batch? Everything is built twice, in the graph that the caller wants and in a
 * shadow of it with another batch: a known number that differs between the two sides depends on the batch.
 * So there is no algebra of symbols, whatever a file computes from its shapes. */
#ifndef WEFT_INTERCHANGE_ONNX_IMPORT_IMPORT_H
#define WEFT_INTERCHANGE_ONNX_IMPORT_IMPORT_H

#include "interchange/onnx/format/file.h"
#include "interchange/onnx/format/table.h"
#include "weft/onnx.h"
#include "weft/collectives.h"
#include "weft/layers.h"
#include "weft/ops.h"
#include "weft/session.h"
#include "weft/train.h"

enum { SIDES = 2 }; /* the graph, and its shadow */

/* A value that is known while importing. */
typedef struct onnx_known {
    tensor type; /* axes may be 0 */
    void *data;  /* elements, row-major */
} onnx_known;

/* A value of a file. */
typedef struct onnx_value {
    const char *name;
    onnx_tensor *initializer;       /* may be NULL */
    const onnx_known *known[SIDES]; /* NULL: not known, or not read yet. One pointer twice: it is the same */
    weft_value *value[SIDES];       /* in the graphs; NULL: not made yet */
} onnx_value;

/* The names of a graph, of a function or of a branch. */
typedef struct onnx_frame {
    struct onnx_frame *outer; /* whose values a branch sees, too; may be NULL */
    const onnx_node *call;    /* of a function, whose attributes its nodes refer to; may be NULL */
    struct onnx_frame *call_frame;
    const onnx_function *function;
    int n_opsets;
    const onnx_opset *opsets;
    onnx_table values;
} onnx_frame;

/* A parameter or state, and where its initial value is. */
typedef struct onnx_variable {
    const char *path; /* "layer1/0/conv1/weight" */
    const onnx_tensor *initializer;
    bool is_state;
} onnx_variable;

enum { ONNX_NOTES = 2 };

struct weft_onnx {
    kit_arena arena; /* first: kit_object() */
    onnx_file file;
    int n_variables;
    onnx_variable *variables;
    onnx_table by_path; /* their initializers */
    bool is_ready;      /* apart.c, uses.c, trained.c and fuse.c have seen the graph */
    int n_norms;        /* layers into which BatchNorm was folded */
    int n_apart;        /* parameters that the file stores as one with others */
    const char *apart;  /* names of the first few */
    const char *notes[ONNX_NOTES + 1];
    onnx_frame *last; /* of the graph that was built last */
};

/* The linear layer that options.head replaces. */
typedef struct onnx_head {
    const onnx_node *last;    /* makes its result; NULL: no layer is replaced */
    const onnx_node *product; /* the node before it, which goes too; may be NULL */
    const char *x, *weight;   /* names of its operands */
} onnx_head;

/* A graph that is being built. */
typedef struct importer {
    weft_onnx *onnx;
    kit_arena *arena;
    const weft_onnx_options *options;
    const struct onnx_operator *operators; /* the table; the last row has no name */
    weft_model *model[SIDES];
    weft_graph *graph[SIDES];
    int64_t batch[SIDES];
    onnx_frame *frame;     /* the present one */
    int depth;             /* of functions and branches */
    int bodies;            /* how many functions, branches and steps of loops are built */
    int folded;            /* how many nodes are computed */
    size_t known_bytes;    /* of the elements of known values */
    const onnx_node *node; /* that is imported; NULL before the first */
    onnx_head head;
    const char *scope;      /* of the node that is built: "encoder/layer1" */
    bool is_entered[SIDES]; /* the scope is open in the graph of this side */
    bool keeps_statistics;  /* options.batch_norm_eval has had an effect */
    onnx_table ports;       /* names of inputs and outputs in Weft: their names in the file */
    weft_error *error;
} importer;

/* A node that is being built, on one side. */
typedef struct onnx_call {
    importer *in;
    const onnx_node *node;
    int64_t opset;
    int side;
    onnx_value **operands; /* NULL: left out */
    /* A graph that computes the node from known operands, and these as constants; may be NULL. */
    weft_graph *scratch_graph;
    weft_value **scratch;
    weft_value **results;                      /* what the row has built */
    uint64_t asked_operands, asked_attributes; /* bits: what the row has looked at */
} onnx_call;

/* ---- what a row asks (call.c). Operands and attributes that no row asks for are an error: an importer that
 * passes over an attribute makes wrong numbers. ---- */

/* Operand i in the graph. NULL: it is left out, or an error stands. */
weft_value *onnx_in(onnx_call *c, int i);
bool onnx_has(const onnx_call *c, int i); /* whether operand i is given */
int onnx_operands(const onnx_call *c);    /* how many places for operands the node has, left out ones too */
/* Marks the operands from i on as looked at, for a row that has no use for them. */
void onnx_pass_over(onnx_call *c, int i);

/* What operand i is, where it is known on this side; else NULL, without an error. */
const onnx_known *onnx_known_in(onnx_call *c, int i);
/* The same as numbers, of any type; `*n` of them. NULL: an error stands, or it is left out (*n is 0).
 * Numbers that depend on the batch are an error: they are for onnx_lengths(). */
const double *onnx_numbers(onnx_call *c, int i, int *n);
const int64_t *onnx_integers(onnx_call *c, int i, int *n);
/* Integers as they are on this side, also where they depend on the batch. */
const int64_t *onnx_side_integers(onnx_call *c, int i, int *n);
/* One number; `otherwise` where the operand is left out. */
double onnx_number(onnx_call *c, int i, double otherwise);
int64_t onnx_integer(onnx_call *c, int i, int64_t otherwise);
/* Lengths of axes: a number that is the batch on both sides is WEFT_BATCH, another one that depends on the
 * batch ONNX_DEPENDS. In a graph that computes a node all of them are numbers. */
#define ONNX_DEPENDS (INT64_MIN + 1)
const int64_t *onnx_lengths(onnx_call *c, int i, int *n);

int64_t onnx_int(onnx_call *c, const char *name, int64_t otherwise);
double onnx_real(onnx_call *c, const char *name, double otherwise);
const char *onnx_word(onnx_call *c, const char *name, const char *otherwise);
const int64_t *onnx_ints(onnx_call *c, const char *name, int *n); /* NULL: not given, *n is 0 */
const float *onnx_reals(onnx_call *c, const char *name, int *n);
const onnx_attribute *onnx_attribute_of(onnx_call *c, const char *name); /* NULL: not given */

/* Integers of operand i, or of the attribute that older opsets have in its place. */
const int64_t *onnx_list(onnx_call *c, int i, const char *name, int *n);
/* n axes of a value with `ndim`, each of them once, made non-negative; list NULL: 0, 1, .... False after
 * an error. */
bool onnx_axes(onnx_call *c, const int64_t *list, int n, int ndim, int axes[WEFT_MAX_NDIM]);

/* The graph that is built. */
weft_graph *onnx_graph_of(const onnx_call *c);
/* Whether the graph trains. */
bool onnx_trains(const onnx_call *c);
/* Makes result i; result 0 is what a row returns. */
void onnx_result(onnx_call *c, int i, weft_value *value);
bool onnx_wants(const onnx_call *c, int i); /* whether the node names result i */

/* Operand i as a state, as running statistics are; an initializer of f32. NULL: it is not one. */
weft_value *onnx_state(onnx_call *c, int i);

/* A constant like `near`: its type, and no axes. */
weft_value *onnx_constant(onnx_call *c, weft_value *near, double number);
/* Makes an axis non-negative; false after an error. */
bool onnx_axis_of(onnx_call *c, int64_t axis, int ndim, int *resolved);
/* x in another shape of onnx_lengths(): one axis may be ONNX_DEPENDS. */
weft_value *onnx_reshape(onnx_call *c, weft_value *x, int n, const int64_t *lengths);
/* The lengths of x's axes, with WEFT_BATCH where one is the batch and ONNX_DEPENDS where it depends on it. */
void onnx_shape_of(onnx_call *c, int i, int64_t lengths[WEFT_MAX_NDIM]);

/* ---- errors (errors.c) ---- */

/* "model.onnx: node 12 'fc' (Gemm): " and why; returns NULL, so that a row refuses in one line. */
weft_value *onnx_refuse(onnx_call *c, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Names that an error lists, and the one that is nearest to a wrong one: begin with {.word = ...}. */
typedef struct onnx_choice {
    const char *word, *near; /* near NULL: no name is near */
    int n;
    kit_line all;
} onnx_choice;
void onnx_choice_add(onnx_choice *c, const char *name);
/* "m.onnx: there is no input 'imgae': did you mean 'image'? There are image, mask"; false. */
bool onnx_choice_refuse(importer *in, onnx_choice *c, const char *what);
/* Whether two graphs of the file are the same calls (same.c); false: they are not, or an error stands. */
bool onnx_same_graphs(importer *in, const weft_graph *a, const weft_graph *b);
/* Whether a model has recorded an error, which becomes the import's; `c` may be NULL. */
bool onnx_failed(importer *in, int side, const onnx_call *c);

/* ---- names (names.c) ---- */

/* A frame like `like`; NULL: out of memory. */
onnx_frame *onnx_frame_new(kit_arena *arena, onnx_frame like);
/* The value that a name means here; NULL: no such value. */
onnx_value *onnx_find(onnx_frame *frame, const char *name);
onnx_value *onnx_define(importer *in, onnx_frame *frame, const char *name);
/* A file's name as a name in Weft: '/', ':' and what names may not have become '_'. */
const char *onnx_name(importer *in, const char *name);
/* "layer1.0.conv1.weight" -> "layer1/0/conv1/weight" */
const char *onnx_path(importer *in, const char *name);
/* The module of PyTorch that a node is of, "layer1.0.conv1"; NULL: unknown. */
const char *onnx_module_of(importer *in, const onnx_node *node);
/* The name, or another one at the most as long that a table does not have: "w_1". */
const char *onnx_unlike(importer *in, const onnx_table *taken, const char *name);
/* The scope of a node, by its name. */
const char *onnx_scope_of(importer *in, const onnx_node *node);
/* Enters and leaves the scopes of a path. */
void onnx_enter(importer *in, const char *path, int side);
void onnx_leave(importer *in, const char *path, int side);

/* ---- known values (known.c, follow.c, fold.c) ---- */

/* What a value is; NULL: not known, or an error stands. */
const onnx_known *onnx_known_of(importer *in, onnx_value *v, int side);
/* Whether it is trained: an initializer of floating point with more than one element. */
bool onnx_is_parameter(const onnx_value *v);
/* How many bytes the known values of a graph may have, and how many nodes may be computed. */
#define ONNX_KNOWN_BYTES ((size_t)1 << 31)
enum { ONNX_FOLDED = 100000 };
onnx_known *onnx_known_new(importer *in, const tensor *type);
bool onnx_known_equal(const onnx_known *a, const onnx_known *b); /* false where one is NULL */
double onnx_known_number(const onnx_known *k, int64_t i);        /* element i, exact up to 2^53 */
/* A known value that differs between the sides as one of the graph; NULL: there is no such value. */
weft_value *onnx_following(importer *in, const onnx_value *v, int side);
/* Whether there is one, of what it is on the two sides. */
bool onnx_follows(importer *in, const onnx_known *here, const onnx_known *there);
/* Computes a node whose operands are known. Results whose shape follows the batch and large ones stay
 * unknown. */
bool onnx_fold(onnx_call *c, const struct onnx_operator *op, onnx_value **results);

/* ---- values of the graphs (values.c, initial.c, inputs.c) ---- */

/* A value as one of the graph on a side; NULL: an error stands. */
weft_value *onnx_value_in(importer *in, onnx_value *v, int side);
/* The same of an initializer that is a state. */
weft_value *onnx_state_in(importer *in, onnx_value *v, int side);
/* The path of an initializer as a parameter, which no other one has. */
const char *onnx_path_for(importer *in, const onnx_tensor *t);
/* Vectors that the file stores once for several layers become an initializer for each (apart.c). */
bool onnx_take_apart(importer *in, onnx_graph *g);
/* What a user should know of the graph as it now is (notes.c). */
bool onnx_write_notes(importer *in, const onnx_graph *g);
/* Whether a node may read an initializer as a weight (trained.c). */
bool onnx_reads_weight(const onnx_node *n, const onnx_tensor *t);
/* What its first elements are like: as kept, or read. Other types than float are finite, with n 0. */
onnx_sample onnx_sample_of(importer *in, const onnx_tensor *t, weft_error *error);
/* How a variable begins without weights. */
weft_init onnx_initial(importer *in, const onnx_tensor *t, bool is_state);
/* Define the inputs of a graph, and its initializers or these alone; name its outputs. */
bool onnx_inputs(importer *in, const onnx_graph *graph);
bool onnx_initializers(importer *in, const onnx_graph *graph);
bool onnx_outputs(importer *in, const onnx_graph *graph);
bool onnx_is_initializer(const onnx_graph *g, const char *name);

/* ---- before nodes are built (uses.c, trained.c, fuse.c, head.c) ---- */

/* What makes and reads a name of a graph. */
typedef struct onnx_use {
    int maker; /* index of the node; -1: no node */
    int uses;  /* by nodes, and one of an output */
    bool is_output;
    onnx_tensor *initializer; /* NULL: it is not one */
} onnx_use;

typedef struct onnx_uses {
    kit_arena *arena;
    onnx_table table;
    bool has_bodies; /* a node has a graph, which may read any name */
} onnx_uses;

bool onnx_uses_of(onnx_uses *u, kit_arena *arena, const onnx_graph *g); /* false: out of memory */
onnx_use *onnx_use_of(onnx_uses *u, const char *name);                  /* NULL: out of memory */
/* Results that nothing reads are left out, but a node's first: exporters name the mask of each Dropout. */
void onnx_leave_out_unread(onnx_uses *u, onnx_graph *g);
/* Marks the initializers of a graph that are constants. */
void onnx_find_parameters(importer *in, onnx_uses *u, const onnx_graph *g);
/* Replaces parts of a graph by nodes of the domain "weft". */
void onnx_fuse(importer *in, onnx_uses *u, onnx_graph *graph);
/* Finds the layer that options.head names; false after an error. */
bool onnx_head_find(importer *in);
/* Builds the new layer, on each side. */
bool onnx_head_build(importer *in);

/* ---- nodes (nodes.c), and graphs within a graph (bodies.c) ---- */

/* The version of a domain's operators that nodes of a frame are of; 0: the file does not name it. */
int64_t onnx_opset_of(const onnx_frame *frame, const char *domain);
/* Builds the nodes of a graph in the present frame. */
bool onnx_nodes(importer *in, const onnx_graph *graph);

enum { ONNX_DEEPEST = 32 };
/* How many bodies of functions and nodes a file may build: a loop has one for each step. */
enum { ONNX_BODIES = 1 << 15 };
/* The file's function of a node's domain, name and overload; NULL: the file lacks it. */
const onnx_function *onnx_function_of(const onnx_file *file, const onnx_node *node);
/* Builds the body of a function in the place of its call. */
bool onnx_inline(onnx_call *c, const onnx_function *f);
/* The graph that an attribute is; NULL: an error stands. */
const onnx_graph *onnx_body_of(onnx_call *c, const char *attribute);
/* Builds it in the place of the node, once for both sides. Puts what its outputs are into `outputs`. */
bool onnx_body(onnx_call *c, const onnx_graph *body, onnx_value *const *inputs, onnx_value **outputs);
/* Makes result i of the node a value, on both sides. */
bool onnx_result_is(onnx_call *c, int i, const onnx_value *value);

#endif
