/* op.h - what an op is: one constant struct in ops/<name>.c, listed once in ops/list.h.
 *
 * The struct says everything that the rest of the engine may know of an op: its attributes and their ranges,
 * its shapes, its gradient, its reference kernel, and samples that the generic test runs. Nothing registers
 * itself; faster kernels are in the backend's table (ops/cpu/table.c).
 */
#ifndef WEFT_GRAPH_CORE_OP_H
#define WEFT_GRAPH_CORE_OP_H

#include "graph/core/type.h"

typedef struct weft_op weft_op;
typedef struct weft_node weft_node;
typedef struct weft_variable weft_variable;

enum { OP_MAX_OUT = 64, FUSED_MAX_IN = 12, FUSED_MAX_BODY = 32 };

/* ---- attributes: a struct an op, described field by field so that they print, parse, save and compare ---- */

typedef struct attr_ints {
    int n;
    int64_t v[WEFT_MAX_NDIM];
} attr_ints;

typedef enum attr_kind {
    ATTR_INT,    /* int64_t, in [min, max] */
    ATTR_REAL,   /* double, finite, in [min, max] */
    ATTR_BOOL,   /* bool */
    ATTR_DTYPE,  /* weft_dtype */
    ATTR_INTS,   /* attr_ints, each in [min, max]; WEFT_BATCH is allowed where max is INT64_MAX */
    ATTR_STRING, /* const char *, owned by the model; NULL is "" */
    ATTR_KEY,    /* uint64_t: which stream of random numbers; printed in hex */
} attr_kind;

typedef struct op_attr {
    const char *name; /* NULL ends the list */
    attr_kind kind;
    size_t offset;            /* in the op's attribute struct */
    int64_t min, max;         /* both 0: any */
    const char *const *words; /* ATTR_INT, NULL: numbers; else what 0, 1, ... are called in text, NULL ends */
} op_attr;

/* ---- inferring shapes: the only gate through which a node comes into being ---- */

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
bool infer_same(op_call *c);      /* one float operand, the result like it */
bool infer_broadcast(op_call *c); /* operands of one float type, the result their broadcast */
bool infer_alike(op_call *c);     /* operands of one float type and shape, the result like them */
bool op_want_float(const op_call *c, int i);
bool op_want_same_dtype(const op_call *c); /* over all operands */
/* Operand i, if it is there, has operand `of`'s element type, or f32 beside a reduced one. */
bool op_want_beside(const op_call *c, int i, int of);

/* ---- running ---- */

/* A tensor with memory. Strides are in elements; a broadcast axis has stride 0. */
typedef struct tensor {
    void *data;
    tensor_type type;
    int64_t stride[WEFT_MAX_NDIM];
} tensor;

/* What one run of a graph shares between its nodes. */
typedef struct run_state {
    uint64_t seed;
    int64_t step;  /* the graph's saved step counter */
    int64_t micro; /* number of the micro-batch in the step, over all ranks */
    int64_t local; /* its number among this rank's own of the step */
} run_state;

typedef struct kernel_call {
    const weft_node *node;
    const void *attrs;
    int n_in, n_out;
    const tensor *in; /* in[i].data is NULL for a missing optional operand */
    const tensor *out;
    void *workspace; /* as many bytes as the kernel asked for, aligned to 64 */
    int threads;
    const run_state *run; /* on a GPU: in its memory, and so are in[], out[] and the workspace */
    weft_error *error;
    const struct cuda_context *cuda; /* a run on a GPU puts its work on this one's stream; NULL: the CPU */
} kernel_call;

/* A value met at run time breaks a rule (a label out of range): fills call->error, returns WEFT_DATA. */
weft_status kernel_fail(const kernel_call *c, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* ---- samples: what the generic per-op test runs ---- */
typedef struct op_sample {
    const char *in;    /* types of the operands: "f32[2,3], i64[2]"; NULL ends the list; "" for none */
    const char *attrs; /* as in dumps: "stride=2,2 pad=1,1"; NULL: none */
    const char *out;   /* expected types of the results: "f32[2,3]"; NULL: not checked */
    const char *error; /* a part of the expected error text: then this sample must fail */
    double low, high;  /* range of floating-point operands; both 0: [-2, 2) */
    int64_t below;     /* integer operands are in [0, below); 0: 4 */
    bool no_gradient;  /* leave the gradient checks out for this sample (say why in a comment) */
} op_sample;

/* ---- the op ---- */

enum {
    OP_POINTWISE = 1 << 0,     /* element i of the result depends on elements i of the (broadcast) operands */
    OP_COMMUTES = 1 << 1,      /* two operands may be swapped */
    OP_RANDOM = 1 << 2,        /* draws random numbers: never merged or dropped */
    OP_EFFECT = 1 << 3,        /* is wanted for more than its results: never merged or dropped */
    OP_NO_GRADIENT = 1 << 4,   /* its gradient is zero by definition (argmax, comparisons, random) */
    OP_GRADIENT_ONCE = 1 << 5, /* its gradient cannot be differentiated again */
    OP_VIEW = 1 << 6,          /* can be had without a copy: see view() */
    OP_VARIABLE = 1 << 7,      /* names a variable: its attributes begin with `const char *path` */
    OP_IS_VARIABLE = 1 << 9,   /* result 0 is that variable's memory */
    OP_WRITES = 1 << 8,    /* overwrites that variable (or optimizer state): ordered after earlier readers */
    OP_COMPILER = 1 << 10, /* only passes make these; model.bin may not hold them */
    OP_COMMUNICATES =
        1 << 11, /* on the communication stream: the session's communicator runs it, no kernel does */
};

/* How the precision pass (graph/passes/precision.c) treats an op where the graph has a reduced type, bf16 or f16. A value that the
 * user made reduced himself stays what it is: only f32 values change their type. */
typedef enum op_precision {
    PRECISION_F32,     /* runs in f32: operands that became reduced are cast up */
    PRECISION_REDUCED, /* runs reduced: operands of reduced_in are cast down */
    PRECISION_FOLLOWS, /* runs reduced when every float operand of reduced_in is reduced already (constants are as the others are),
                        * else in f32 */
} op_precision;

struct weft_op {
    const char *name;
    const char *summary; /* one line for docs/ops.md: "max(x, 0)" */
    int min_in, max_in;  /* operands; max_in -1: any number */
    unsigned flags;
    size_t attrs_bytes;
    const op_attr *attrs; /* NULL: none */

    /* Which operands and results of four axes live channels-last, whatever the kernel (bit i: operand i). All others are
     * row-major, but for results of pointwise ops, which lie as their operands do, and for operands that a kernel
     * takes at any strides: graph/core/kernel.h. */
    unsigned image_in, image_out;
    unsigned
        reference_strided; /* operands that the reference kernel takes so; of pointwise ops it does all */
    unsigned
        writes; /* operands (values of `state` nodes) that a run overwrites in place: optimizer updates */
    unsigned in_place; /* bit i: result 0 may share memory with operand i (same type; pointwise: implied) */

    /* Where it runs reduced, operands of reduced_in and results of reduced_out are of the reduced type, its other float operands and
     * results f32 (the weight and the statistics of a norm). Sums are in f32 at least. An op with an attribute `f32_output`
     * (BOOL) then gives result 0 in f32 too. infer takes all of these mixtures. */
    op_precision precision;
    unsigned reduced_in, reduced_out; /* bit i: operand i, result i */

    bool (*infer)(op_call *c);
    /* Builds din[i], the gradient of operand i, for every wanted[i], from dout[k], which is NULL where no
     * gradient flows into result k (at least one is not). Uses the public builders; operand i is
     * node->in[i], result k is &node->out[k]. A din[i] left NULL means zero. */
    void (*gradient)(weft_node *node, weft_value *const *dout, const bool *wanted, weft_value **din);
    /* A value that is the same as result 0 and cheaper (an operand, or a new node), or NULL: x * 1 is x. */
    weft_value *(*simplify)(weft_node *node);
    /* Plain and obviously right, f32 and f64. */
    weft_status (*reference)(const kernel_call *c);
    /* Pointwise ops give this instead of reference: one element, operands as double. */
    double (*scalar)(const double *x, const void *attrs);
    /* OP_VIEW: strides and offset (elements) of the result inside operand 0, false when a copy is needed. */
    bool (*view)(const weft_node *node, const int64_t *in_stride, int64_t *out_stride, int64_t *offset);
    const op_sample *samples;
};

/* Whether a value is a `constant` node's, and of which number, as its type holds it (NULL is no constant). */
bool constant_value(const weft_value *v, double *value);
/* Whether a type can hold a number: integers and bool exactly, floating-point types rounded, but not to infinity. */
bool constant_fits(weft_dtype dtype, double value);
/* The name of an `input` node. */
const char *input_name(const weft_node *n);

/* Attributes of an OP_VARIABLE op begin like this. */
typedef struct variable_attrs {
    const char *path;
} variable_attrs;
extern const op_attr variable_attr_table[];

/* ops/table.c: all ops of ops/list.h, in its order. */
int op_count(void);
const weft_op *op_at(int index);
const weft_op *op_find(const char *name, size_t length); /* NULL when there is none */

/* Ops that the graph layer itself makes or looks for; ops/kit/ops.h has all. */
extern const weft_op weft_op_input, weft_op_parameter, weft_op_state, weft_op_assign, weft_op_gradients,
    weft_op_minimize, weft_op_add, weft_op_constant, weft_op_cast, weft_op_fused, weft_op_reorder;

/* ---- attribute helpers (graph/core/attrs.c) ---- */
typedef struct text text;
/* " stride=2,2 pad=1,1": fields that are not zero, in order */
void attrs_write(text *t, const weft_op *op, const void *attrs);
void attr_write(text *t, const op_attr *field, const void *attrs); /* one of them */
/* The attribute of that name, or of an older name of it that files may hold; NULL: the op has none. */
const op_attr *attr_find(const weft_op *op, const char *name, size_t length);
/* Parses what attrs_write wrote, up to the end of the line; strings go to `a`. false: *why says what. */
bool attrs_parse(const char **at, const weft_op *op, void *attrs, arena *a, char why[200]);
/* The same on top of what `attrs` holds; the fields are parted by any of the characters in `between`. */
bool attrs_change(const char **at, const char *between, const weft_op *op, void *attrs, arena *a,
                  char why[200]);
/* Numbers as dumps have them: shortest text that reads back to the same double, '.' whatever the locale. */
void real_write(text *t, double v);
bool real_parse(const char **at, double *v);
/* NULL when every field is in its range, else a text in `why`. */
const char *attrs_check(const weft_op *op, const void *attrs, char why[200]);
bool attrs_equal(const weft_op *op, const void *a, const void *b);
/* The first field in which they differ, or NULL. */
const op_attr *attrs_difference(const weft_op *op, const void *a, const void *b);
/* Whether some axis in them is WEFT_BATCH. */
bool attrs_name_batch(const weft_op *op, const void *attrs);
uint64_t attrs_hash(const weft_op *op, const void *attrs); /* equal ones have equal hashes */
/* Whether the op has a key of random numbers: reading a model back counts these calls as building it did. */
bool op_draws_random(const weft_op *op);
/* A number in its shortest form that reads back to the same bits, with '.' whatever the locale says. */
void real_write(text *t, double v);
bool real_parse(const char **at, double *v);

#endif
