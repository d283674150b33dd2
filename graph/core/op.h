/* op.h - what an op is: one constant struct in a file of the op's name, listed once in ops/list.h.
 *
 * The struct holds all that the engine may know of an op: its attributes and their ranges, its shapes, its
 * gradient, its reference kernel, and samples that the generic test runs. Ops do not register themselves;
 * faster kernels are rows of the backend's table (ops/cpu/list.h). */
#ifndef WEFT_GRAPH_CORE_OP_H
#define WEFT_GRAPH_CORE_OP_H

#include "graph/core/type.h"

typedef struct weft_op weft_op;
typedef struct weft_node weft_node;
typedef struct weft_variable weft_variable;

/* Most results of a node, and most operands and members of a `fused` node. */
enum { OP_MAX_OUT = 64, FUSED_MAX_IN = 12, FUSED_MAX_BODY = 32 };

/* ---- attributes ----
 * Each op has a struct for them and a table of its fields, so that one code prints, parses, saves and
 * compares the attributes of all ops. */

typedef struct attr_ints {
    int n;
    int64_t v[WEFT_MAX_NDIM];
} attr_ints;

/* The bytes of a tensor, owned by the model; `hash` is theirs (attr_bytes_of), and with it alone, without
 * `data`, a dump names bytes that another line of it holds. */
typedef struct attr_bytes {
    size_t n; /* 0: none */
    const uint8_t *data;
    uint64_t hash;
} attr_bytes;

typedef enum attr_kind {
    ATTR_INT,       /* int64_t, in [min, max] */
    ATTR_REAL,      /* double, finite unless the row says `any_real`, in [min, max] */
    ATTR_BOOL,      /* bool */
    ATTR_DTYPE,     /* weft_dtype */
    ATTR_INTS,      /* attr_ints, each in [min, max]; WEFT_BATCH is allowed where max is INT64_MAX */
    ATTR_STRING,    /* const char *, owned by the model; NULL is "" */
    ATTR_KEY,       /* uint64_t: key of a stream of random numbers; printed in hex */
    ATTR_SCHEDULES, /* as STRING, of graph/settings/schedule.h; a message in model.bin */
    ATTR_BYTES,     /* attr_bytes; printed in hex, or by hash where they are many */
} attr_kind;

typedef struct op_attr {
    const char *name; /* NULL ends the list */
    attr_kind kind;
    size_t offset;            /* in the op's attribute struct */
    int64_t min, max;         /* both 0: any */
    const char *const *words; /* ATTR_INT: names of 0, 1, ... in text, NULL ends; NULL: printed as numbers */
    bool always;              /* written when it is 0, too, which is not its default */
    bool by_passes; /* only the compiler sets it: a model that does is refused, as an OP_COMPILER op is */
    bool any_real;  /* ATTR_REAL: infinities and NaN are values too; a NaN has no sign and no payload */
} op_attr;
/* The field of an attribute struct that `f` describes, as an lvalue of `type`. */
#define ATTR_FIELD(type, attrs, f) (*(type *)((char *)(attrs) + (f)->offset))

/* ---- inferring shapes: every node is made through its op's infer ---- */

/* The operands and attributes of a node to be made. infer fills in the types of its results; it finds one
 * result, of the type of operand 0. */
typedef struct op_call {
    const weft_op *op;
    weft_graph *graph;
    int n_in;
    weft_value *const *in; /* never NULL */
    const void *attrs;     /* ranges already checked */
    /* to be filled by infer: */
    int n_out;
    tensor_type out[OP_MAX_OUT];
} op_call;

/* Records the model's sticky error ("gan.c:31: in generator/fc: add: <message>") and returns false. */
bool op_fail(const op_call *c, weft_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The type of operand i. */
const tensor_type *op_in(const op_call *c, int i);
/* Common infer functions and checks. */
/* They return false after op_fail. Results get the element type of operand 0. */
bool infer_same(op_call *c);      /* result 0 has the type of operand 0, which op_want_number allows */
bool infer_broadcast(op_call *c); /* operands of one such type; the result has their broadcast shape */
bool infer_alike(op_call *c);     /* operands of one such type and shape; the result has it too */
bool op_want_float(const op_call *c, int i);
/* A float type, and i32 or i64 where the op has `integer`. */
bool op_want_number(const op_call *c, int i);
bool op_want_same_dtype(const op_call *c);          /* over all operands */
bool op_want_axis(const op_call *c, int64_t *axis); /* makes *axis one of operand 0 */
/* Operand i is missing, or has the element type of operand `of`, or is f32 where that one is reduced. */
bool op_want_beside(const op_call *c, int i, int of);

/* Copies a caller's shape into an attribute, where WEFT_BATCH stays symbolic; false after recording the
 * error. */
bool shape_attr(weft_graph *g, const char *op, attr_ints *into, int ndim, const int64_t *shape);
/* For infer: replaces WEFT_BATCH in `type` by the model's batch. Always true, so that infer can return it. */
bool shape_bind(const op_call *c, tensor_type *type);

/* ---- running ---- */

/* A tensor with memory. Strides are in elements; a broadcast axis has stride 0. */
typedef struct tensor {
    void *data;
    tensor_type type;
    int64_t stride[WEFT_MAX_NDIM];
} tensor;

/* Numbers of one run of a graph that all its nodes share. Random ops draw by seed, step and micro. */
typedef struct run_state {
    uint64_t seed;
    int64_t step;          /* the graph's saved step counter */
    int64_t micro;         /* number of the micro-batch in the step, counted over all ranks */
    int64_t local;         /* its number among this rank's micro-batches of the step */
    const double *carried; /* what `guard` made of the step's earlier micro-batches; NULL: nothing */
} run_state;

/* What a kernel gets for one run of one node. */
typedef struct kernel_call {
    const weft_node *node;
    const void *attrs;
    int n_in, n_out;
    const tensor *in; /* in[i].data is NULL for a missing optional operand */
    const tensor *out;
    void *workspace; /* the bytes that weft_kernel.workspace asked for, aligned to 64 */
    int threads;
    const run_state *run; /* on a GPU this is in device memory, as are in[], out[] and the workspace */
    weft_error *error;
    int64_t *broken;                 /* where kernel_fail_at leaves its number; NULL: nobody asks */
    const struct cuda_context *cuda; /* its stream takes the work of a run on a GPU; NULL: CPU */
} kernel_call;

/* Reports that a value breaks a rule at run time (a label out of range): fills call->error, returns
 * WEFT_DATA. */
weft_status kernel_fail(const kernel_call *c, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The same of element `number` of operand 1, in row-major order: its ids or labels. */
weft_status kernel_fail_at(const kernel_call *c, int64_t number, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* ---- samples: what the generic per-op test runs ---- */
typedef struct op_sample {
    const char *in;       /* types of the operands: "f32[2,3], i64[2]"; NULL ends the list; "" for none */
    const char *attrs;    /* as in dumps: "stride=2,2 pad=1,1"; NULL: none */
    const char *out;      /* expected types of the results: "f32[2,3]"; NULL: not checked */
    const char *error;    /* a part of the expected error text; if set, this sample must fail */
    double low, high;     /* range of floating-point operands; both 0: [-2, 2) */
    int64_t least, below; /* integer operands are in [least, below); both 0: [0, 4) */
    bool no_gradient;     /* skip the gradient checks for this sample (say why in a comment) */
} op_sample;

/* ---- the op ---- */

enum {
    OP_POINTWISE = 1 << 0,   /* element i of the result depends on elements i of the (broadcast) operands */
    OP_COMMUTES = 1 << 1,    /* two operands may be swapped */
    OP_RANDOM = 1 << 2,      /* draws random numbers: never merged or dropped */
    OP_EFFECT = 1 << 3,      /* has effects besides its results: never merged or dropped */
    OP_NO_GRADIENT = 1 << 4, /* its gradient is zero by definition (argmax, comparisons, random) */
    /* Its gradient is a function of result 0: a second gradient by the result reaches it, as in PyTorch. */
    OP_FROM_RESULT = 1 << 5,
    OP_VIEW = 1 << 6,        /* the result can share the operand's memory: see view() */
    OP_VARIABLE = 1 << 7,    /* names a variable: its attributes begin with `const char *path` */
    OP_IS_VARIABLE = 1 << 9, /* result 0 is that variable's memory */
    /* Overwrites that variable (or optimizer state), so it is ordered after earlier readers. */
    OP_WRITES = 1 << 8,
    OP_COMPILER = 1 << 10, /* only passes make these; model.bin may not hold them */
    /* The session's communicator runs it on the communication stream; no kernel does. */
    OP_COMMUNICATES = 1 << 11,
    /* Divides by operand 1: where that is an integer 0, the run fails (WEFT_DATA). */
    OP_DIVIDES = 1 << 12,
    OP_MOVES =
        1 << 13, /* computes with no element but casts, so it takes dtype_is_data too, as OP_VIEW does */
};

/* How the precision pass (runtime/passes/precision.c) treats an op in a scope with a reduced type, bf16 or
 * f16. A value that the user has cast to a reduced type keeps it: the pass changes only f32 values. */
typedef enum op_precision {
    PRECISION_F32,     /* runs in f32: operands that the pass made reduced are cast up */
    PRECISION_REDUCED, /* runs in the reduced type: operands are cast down, but those of f32_in */
    /* Runs in the reduced type when every float operand, but those of f32_in, is reduced already (constants
     * follow the other operands), else in f32. */
    PRECISION_FOLLOWS,
} op_precision;

/* What code that knows ops by their descriptors alone must tell apart. */
typedef enum op_role {
    ROLE_OTHER,
    ROLE_CAST,     /* operand 0 in another element type */
    ROLE_SUM,      /* operand 0 plus operand 1 */
    ROLE_PRODUCT,  /* operand 0 times operand 1 */
    ROLE_CONSTANT, /* one number in all elements */
    ROLE_REORDER,  /* operand 0 in another layout */
    ROLE_DECLARES, /* that the graph trains, or differentiates: a pass replaces it by what does so */
} op_role;

/* What a result that has elements is where an operand has none: the definition of the op over nothing, as in
 * PyTorch (graph/core/empty.c). */
typedef enum op_empty {
    EMPTY_REFUSED, /* there is no value: an error */
    EMPTY_ZEROS,
    EMPTY_ONES,
    EMPTY_MEAN,   /* 0, but NaN where the attribute `mean` is set or `reduction` is a mean */
    EMPTY_FALSE,  /* of bool; refused of others */
    EMPTY_TRUE,   /* likewise */
    EMPTY_FILL,   /* the attribute `value` */
    EMPTY_ADDED,  /* operand 2, which is added to a sum of products; 0 where it is left out */
    EMPTY_FIRST,  /* operand 0 */
    EMPTY_OTHERS, /* the op of the other operands */
} op_empty;

enum { OP_KINDS = 4 };

/* An op. Pointers may be NULL where an op has no such part; infer, and one of reference and scalar unless the
 * op runs without a kernel, are always there. */
struct weft_op {
    const char *name;
    const char *summary; /* one line for docs/ops.md: "max(x, 0)" */
    const char *torch;   /* PyTorch's function: "torch.nn.functional.relu"; NULL: it has none */
    int min_in, max_in;  /* operands; max_in 0: as min_in, -1: any number */
    unsigned flags;
    op_role role;
    op_empty of_nothing;
    size_t attrs_bytes;
    const op_attr *attrs; /* NULL: none */

    /* Operands and results (bit i) of four or five axes that are stored channels-last whatever the kernel.
     * All others are row-major, except that results of pointwise ops have the layout of their operands, and
     * that a kernel may take operands at any strides: graph/core/kernel.h. */
    unsigned image_in, image_out;
    /* operands that the reference kernel takes at any strides; for pointwise ops it takes all so */
    unsigned reference_strided;
    /* operands (values of `state` nodes) that a run overwrites in place: optimizer updates */
    unsigned writes;
    /* bit i: result `in_place_result` may share the memory of operand i (same type); implied if pointwise */
    unsigned in_place;
    int in_place_result;

    /* Where it runs in the reduced type, its float operands and results have that type, but those of f32_in
     * and f32_out are f32 (the weight and the statistics of a norm). Sums are in f32 at least. The attribute
     * `f32_output` (BOOL), if the op has it, makes result 0 f32 even then. infer accepts all of these
     * mixtures. */
    op_precision precision;
    unsigned f32_in, f32_out; /* bit i: operand i, result i */

    /* What a parameter is for that is operand i: bits WEFT_PARAMS_...; that of depthwise convolutions counts
     * for those alone (graph/core/kinds.c). */
    unsigned char kinds[OP_KINDS];

    /* Checks the operands' types and fills n_out and out[]; false after op_fail. */
    bool (*infer)(op_call *c);
    /* Builds din[i], the gradient of operand i (node->in[i]), for every wanted[i], with the public builders.
     * dout[k] is the gradient of result k (&node->out[k]), NULL where no gradient reaches it; at least one is
     * not NULL. A din[i] left NULL means zero. */
    void (*gradient)(weft_node *node, weft_value *const *dout, const bool *wanted, weft_value **din);
    /* An equal but cheaper value for result 0 (an operand, or a new node): x * 1 is x. NULL: there is
     * none. */
    weft_value *(*simplify)(weft_node *node);
    /* Reference kernel for f32 and f64: plain and obviously right, not fast. */
    weft_status (*reference)(const kernel_call *c);
    /* Pointwise ops have this instead of reference: computes one element; x[i] is that of operand i as a
     * double. */
    double (*scalar)(const double *x, const void *attrs);
    /* The same of i32 and i64 (node_is_integer), exactly: what leaves the result's type wraps around. NULL:
     * they go through `scalar`, or infer refuses them. */
    int64_t (*integer)(const int64_t *x, const void *attrs);
    /* OP_VIEW: strides and offset of the result inside operand 0, in elements; false when a copy is
     * needed. */
    bool (*view)(const weft_node *node, const int64_t *in_stride, int64_t *out_stride, int64_t *offset);
    const op_sample *samples;
    const struct own_op *own; /* the program's definition of it (graph/core/own_op.h); NULL: it is Weft's */
};

static inline int op_max_in(const weft_op *op) {
    return op->max_in ? op->max_in : op->min_in;
}

/* The name of an `input` node. */
const char *input_name(const weft_node *n);

/* The attributes of every OP_VARIABLE op begin with these fields. */
typedef struct variable_attrs {
    const char *path;
} variable_attrs;
extern const op_attr variable_attr_table[];

/* The ops that a graph is made of: what it is fed, the variables that it reads and writes, and nodes that the
 * compiler has put into one (weft_node.body). The graph layer knows all others by their descriptors. */
extern const weft_op weft_op_input, weft_op_parameter, weft_op_state, weft_op_assign, weft_op_fused;

/* ---- attribute helpers (graph/core/attrs.c) ---- */
typedef struct text text;
/* " stride=2,2 pad=1,1": fields that are not zero, in order */
void attrs_write(text *t, const weft_op *op, const void *attrs);
/* Whether dumps and files have the field: it is not zero, or of a kind whose 0 is a value. */
bool attr_is_set(const op_attr *field, const void *attrs);
size_t attr_width(const op_attr *field);                           /* its bytes in the attribute struct */
void attr_write(text *t, const op_attr *field, const void *attrs); /* attrs_write of one field */
/* The attribute of that name, or of an older name that files may still hold; NULL: the op has none. */
const op_attr *attr_find(const weft_op *op, const char *name, size_t length);
/* Parses text of attrs_write up to the end of the line, after zeroing `attrs`; strings go to `a`. Moves *at.
 * False: *why holds the reason. */
bool attrs_parse(const char **at, const weft_op *op, void *attrs, arena *a, char why[200]);
/* The same without zeroing; fields are separated by any of the characters in `between`. */
bool attrs_change(const char **at, const char *between, const weft_op *op, void *attrs, arena *a,
                  char why[200]);
/* Write and read a number as in dumps: the shortest text of at least 6 digits that reads back to the same
 * double, with '.' in any locale. */
void real_write(text *t, double v);
bool real_parse(const char **at, double *v);
/* NULL when every field is in its range, else `why` with the reason in it. */
const char *attrs_check(const weft_op *op, const void *attrs, char why[200]);
bool attrs_equal(const weft_op *op, const void *a, const void *b);
/* The first field in which a and b differ, or NULL. */
const op_attr *attrs_difference(const weft_op *op, const void *a, const void *b);
/* Whether a number of an ATTR_INTS field is WEFT_BATCH. */
bool attrs_name_batch(const weft_op *op, const void *attrs);
uint64_t attrs_hash(const weft_op *op, const void *attrs); /* equal ones have equal hashes */
/* Whether the op has an ATTR_KEY field. A reader of a saved model counts the calls of such ops, so that later
 * calls get the keys that building would have given them. */
bool op_draws_random(const weft_op *op);

/* ---- bytes of tensors (graph/core/bytes.c) ---- */
attr_bytes attr_bytes_of(const void *data, size_t n); /* borrows `data` */
bool bytes_equal(const attr_bytes *a, const attr_bytes *b);
/* Whether a dump has them in a line of their own, and names them "@0123456789abcdef" in the node's. */
bool bytes_are_many(const attr_bytes *v);
void bytes_write(text *t, const attr_bytes *v); /* "0000803f" */
/* Read what bytes_write writes, into `a`, and the name, whose number is the hash. Move *at. */
bool bytes_parse(const char **at, attr_bytes *v, arena *a);
bool bytes_name_parse(const char **at, uint64_t *hash);

#endif
