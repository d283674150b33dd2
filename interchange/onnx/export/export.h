/* export.h - how a graph of Weft becomes nodes of ONNX.
 *
 * The walk (nodes.c) goes over the graph's nodes in their order and calls the row of each op
 * (exporters.h). A row makes nodes of ONNX and returns what stands for the result. Nodes stay in memory
 * until the walk is over; then names are given and the file is written (save.c). Nodes that no output needs
 * are left out.
 *
 * A failure is recorded once. Functions take NULL and pass it through, so a row need not ask. */
#ifndef WEFT_INTERCHANGE_ONNX_EXPORT_EXPORT_H
#define WEFT_INTERCHANGE_ONNX_EXPORT_EXPORT_H

#include "interchange/onnx/format/file.h"
#include "interchange/onnx/format/table.h"
#include "weft/file.h"
#include "weft/onnx.h"

/* A value of the file: the result of a node, an input, or an initializer. */
typedef struct edge {
    struct edge *next;        /* in the lists of exporter, or with the same hash */
    const char *name;         /* NULL: given when it is written */
    struct export_node *from; /* NULL: it is an input or an initializer */
    int index;                /* of the result */
    bool is_used;
    tensor type;             /* of an initializer */
    const void *data;        /* its elements */
    const char *path;        /* of its parameter or state; NULL: `data` has the elements */
    const weft_value *value; /* of an input */
} edge;

typedef struct export_attribute {
    struct export_attribute *next;
    const char *name;
    onnx_attribute_type type; /* INT, INTS, FLOAT, STRING, STRINGS */
    int n;
    const int64_t *integers;
    float real;
    const char *text;
} export_attribute;

typedef struct export_node {
    struct export_node *next, *before;
    const char *op;    /* of ONNX */
    const char *scope; /* "layer1/0" */
    const char *name;
    int n_in, n_out;
    edge **in; /* NULL: left out */
    edge *out;
    export_attribute *attributes;
    bool is_needed;
} export_node;

/* A length: so many times the batch, and more. */
typedef struct export_length {
    int64_t per_batch, rest;
} export_length;

/* What a value of Weft became, and whether an output needs a node. */
typedef struct export_entry {
    const void *of; /* weft_value or weft_node; NULL: the place is free */
    edge *is;
    bool is_needed;
} export_entry;

enum { EXPORT_LISTS = 1024 };

typedef struct exporter {
    kit_arena *arena;
    const weft_graph *graph;
    const char *graph_name;
    const weft_onnx_export_options *options;
    const struct export_row *rows; /* the table; the last row has no name */
    const weft_store *store;       /* one of these two has the weights */
    const weft_tensors *tensors;
    const char *path;
    weft_error *error;
    size_t room; /* of entries, a power of 2 */
    export_entry *entries;
    export_node *first, *last;
    edge *inputs, **inputs_end;
    edge *parameters, **parameters_end;
    edge *constants, **constants_end;           /* in the order of making */
    struct known_constant *known[EXPORT_LISTS]; /* by their elements */
    /* An input whose axis `batch_axis` is the batch; NULL: the batch is a number. */
    const weft_value *batch_of;
    int batch_axis;
    edge *batch;      /* its length, i64[1]; NULL: nobody has asked for it */
    onnx_table names; /* of the file: export_name (save.c) */
    onnx_table ports; /* of the file of weights: weft_port, once has_ports */
    bool has_ports;
} exporter;

/* A node of Weft that is exported. */
typedef struct export_call {
    exporter *e;
    const weft_node *node;
    weft_node_info about;
    edge **results; /* NULL: not made */
} export_call;

/* ---- what a row asks (call.c) ---- */

/* "graph predict: dropout in net/block: WHY" (WEFT_UNSUPPORTED); returns NULL. */
edge *export_refuse(export_call *c, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Operand i of the file, and of the graph. NULL: it is left out. */
edge *export_in(export_call *c, int i);
weft_value *export_operand(const export_call *c, int i);
weft_value *export_result(const export_call *c, int i);
weft_dtype export_dtype(const export_call *c, int i); /* of operand i */
int export_ndim(const export_call *c, int i);         /* of operand i */
bool export_wants(const export_call *c, int i);       /* whether somebody reads result i */
/* Sets result i > 0; result 0 is what a row returns. */
void export_set(export_call *c, int i, edge *is);

/* Attributes of the op. */
int64_t export_int(const export_call *c, const char *name);
double export_real(const export_call *c, const char *name);
const char *export_word(const export_call *c, const char *name); /* "" where it is not a text */
weft_attribute export_attribute_of(const export_call *c, const char *name);
int64_t export_axis(const export_call *c, const char *name); /* as one of operand 0, not negative */

/* Lengths of the axes of a value; false after an error. */
bool export_lengths(export_call *c, const weft_value *v, export_length length[WEFT_MAX_NDIM]);
/* The length of one axis, which does not follow the batch; -1 after an error. */
int64_t export_fixed(export_call *c, const weft_value *v, int axis);

/* ---- what a row makes (blocks.c) ---- */

edge *export_new(export_call *c, const char *op, int n_in, edge *const *in, int n_out);
edge *export_1(export_call *c, const char *op, edge *a);
edge *export_2(export_call *c, const char *op, edge *a, edge *b);
edge *export_3(export_call *c, const char *op, edge *a, edge *b, edge *d);
edge *export_out(edge *first, int i); /* result i of the node whose result 0 is `first` */
/* Give the node of a result an attribute; return the result. */
edge *with_int(export_call *c, edge *e, const char *name, int64_t value);
edge *with_ints(export_call *c, edge *e, const char *name, int n, const int64_t *values);
edge *with_real(export_call *c, edge *e, const char *name, double value);
edge *with_text(export_call *c, edge *e, const char *name, const char *text);
edge *with_list(export_call *c, edge *e, const char *name, const char *text); /* of that text alone */

/* Initializers. Equal ones are one. */
edge *export_constant(export_call *c, weft_dtype dtype, int ndim, const int64_t *shape, const void *data);
edge *export_ints(export_call *c, int n, const int64_t *values);     /* i64[n] */
edge *export_number(export_call *c, weft_dtype dtype, double value); /* without axes */
/* A parameter or state of the model. */
edge *export_parameter(export_call *c, const char *path, const weft_value *v);

edge *export_cast(export_call *c, edge *x, weft_dtype from, weft_dtype to); /* x where they are the same */
edge *export_permute(export_call *c, edge *x, int n, const int64_t *axes);
edge *export_shape(export_call *c, int n, const export_length *length); /* i64[n] */
edge *export_reshape(export_call *c, edge *x, int n, const export_length *length);
/* x, of lengths `from`, repeated to others of at least as many axes. */
edge *export_expand(export_call *c, edge *x, int n_from, const export_length *from, int n,
                    const export_length *to);
/* Elements begin to end of an axis. */
edge *export_slice(export_call *c, edge *x, int64_t axis, int64_t begin, int64_t end, int64_t step);
/* x with `value` around it along n axes: pads[2 n] has those before each axis, then those after it. */
edge *export_padded(export_call *c, edge *x, int n, const int64_t *axes, const int64_t *pads, edge *value);
/* Axes removed, or put in, at places of the longer shape. */
edge *export_squeeze(export_call *c, edge *x, int64_t axis);
edge *export_unsqueeze(export_call *c, edge *x, int64_t axis);
edge *export_concat(export_call *c, int n, edge *const *parts, int64_t axis);
/* ReduceSum and the like over some axes; none: over all. */
edge *export_reduce(export_call *c, const char *op, edge *x, int n, const int64_t *axes, bool keep);
/* condition ? a : b, where the condition may be of any type */
edge *export_where(export_call *c, edge *condition, weft_dtype type, edge *a, edge *b);

/* ---- the rest of the exporter ---- */

/* Makes room for an entry of each node and result, twice (entries.c); false: out of memory. */
bool export_entries(exporter *e);
/* The entry of a weft_value or weft_node. */
export_entry *export_entry_of(const exporter *e, const void *of);
/* The length of an axis; false: it is not known at another batch (call.c). */
bool export_length_of(const exporter *e, const weft_value *v, int axis, export_length *length);
/* Exports the graph (nodes.c). */
weft_status export_graph(exporter *e);
/* Writes the file; `outputs` are those of the graph, by their places (save.c). */
weft_status export_save(exporter *e, edge *const *outputs, int n_outputs);

#endif
