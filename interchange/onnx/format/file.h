/* file.h - what an ONNX file says, as plain structs (github.com/onnx/onnx, onnx/onnx.proto). Elements of
 * tensors and bodies of subgraphs stay in the file: a structure says where. */
#ifndef WEFT_INTERCHANGE_ONNX_FORMAT_FILE_H
#define WEFT_INTERCHANGE_ONNX_FORMAT_FILE_H

#include "interchange/onnx/format/wire.h"

/* TensorProto.DataType, the numbers of the format. */
typedef enum onnx_type {
    ONNX_UNDEFINED = 0,
    ONNX_FLOAT = 1,
    ONNX_UINT8 = 2,
    ONNX_INT8 = 3,
    ONNX_UINT16 = 4,
    ONNX_INT16 = 5,
    ONNX_INT32 = 6,
    ONNX_INT64 = 7,
    ONNX_STRING = 8,
    ONNX_BOOL = 9,
    ONNX_FLOAT16 = 10,
    ONNX_DOUBLE = 11,
    ONNX_UINT32 = 12,
    ONNX_UINT64 = 13,
    ONNX_BFLOAT16 = 16,
} onnx_type;
/* The element type of Weft that has the same bytes; false: Weft lacks it. */
bool onnx_dtype(int type, weft_dtype *dtype);
int onnx_type_of(weft_dtype dtype);
const char *onnx_type_name(int type); /* "float16"; "type 99" is "unknown" */
bool onnx_is_float(weft_dtype dtype); /* of floating point */
/* What files call a parameter: "layer1/0/weight" -> "layer1.0.weight". NULL: out of memory. */
char *onnx_dotted(kit_arena *arena, const char *path);

/* What the first elements of a tensor of float are like (import/initial.c). */
typedef struct onnx_sample {
    size_t n;               /* of these elements; 0: not known */
    bool is_finite, is_one; /* all of them; all equal */
    double first, mean, deviation;
} onnx_sample;

/* A tensor with a value. */
typedef struct onnx_tensor {
    const char *name; /* "" for one in an attribute */
    int type;
    int ndim;
    int64_t shape[WEFT_MAX_NDIM];
    wire_range message; /* numbers in typed fields are read from here */
    wire_range raw;     /* elements row-major, little-endian; without: begin == end */
    bool is_external;   /* in another file: */
    const char *location;
    uint64_t offset, length; /* length 0: to the end */
    bool is_constant;        /* an initializer that is not a parameter (import/trained.c) */
    const char *module;      /* whose parameter it is, where an exporter named it; may be NULL */
    int variable;            /* place in weft_onnx.variables, from 1 on; 0: not a variable yet */
    onnx_sample sample;
} onnx_tensor;

/* AttributeProto.AttributeType. */
typedef enum onnx_attribute_type {
    ONNX_ATTRIBUTE_FLOAT = 1,
    ONNX_ATTRIBUTE_INT = 2,
    ONNX_ATTRIBUTE_STRING = 3,
    ONNX_ATTRIBUTE_TENSOR = 4,
    ONNX_ATTRIBUTE_GRAPH = 5,
    ONNX_ATTRIBUTE_FLOATS = 6,
    ONNX_ATTRIBUTE_INTS = 7,
    ONNX_ATTRIBUTE_STRINGS = 8,
} onnx_attribute_type;

typedef struct onnx_attribute {
    const char *name;
    const char *reference; /* within a function: the attribute of the call that it is; NULL: it is a value */
    int type;              /* where the file leaves it out: of the field that it has; 0: of any type */
    float real;
    int64_t integer;
    const char *text;
    onnx_tensor *tensor;
    wire_range graph;        /* GraphProto */
    struct onnx_graph *body; /* the same, read when it is first asked for: until then it has no name */
    int n;                   /* of reals, integers or texts */
    float *reals;
    int64_t *integers;
    const char **texts;
} onnx_attribute;

typedef struct onnx_node {
    const char *name, *op;
    const char *domain;   /* "" for ONNX's own */
    const char *overload; /* of a function that has several; "": the one without a name */
    int index;            /* in its graph */
    int n_in, n_out;
    const char **in, **out; /* names of values; "": left out */
    int n_attributes;
    onnx_attribute *attributes;
    /* What PyTorch says in metadata: the module that called it, "encoder.layers.0" (NULL: unknown), and
     * whether a BatchNorm was folded into its weights. */
    const char *module;
    bool has_norm;
    bool is_fused; /* no node of the file: the importer put it in the place of several (import/fuse.c) */
} onnx_node;

/* An axis of an input or output as a file declares it. */
typedef struct onnx_axis {
    int64_t length;   /* 0: not known */
    const char *name; /* dim_param, as "batch"; NULL: no name */
} onnx_axis;

/* An input or output. */
typedef struct onnx_port {
    const char *name;
    int type; /* ONNX_UNDEFINED: not a tensor, or not said */
    bool has_shape;
    int ndim;
    onnx_axis axes[WEFT_MAX_NDIM];
} onnx_port;

/* A graph, or the body of a function. */
typedef struct onnx_graph {
    const char *name; /* "" where the file has none */
    int n_nodes, n_initializers, n_inputs, n_outputs;
    onnx_node *nodes; /* each after those whose results it reads */
    onnx_tensor *initializers;
    onnx_port *inputs, *outputs;
} onnx_graph;

typedef struct onnx_opset {
    const char *domain;
    int64_t version;
} onnx_opset;

typedef struct onnx_function {
    const char *domain, *name, *overload;
    onnx_graph body; /* inputs and outputs have names alone */
    int n_opsets;
    onnx_opset *opsets;
    int n_attributes; /* with defaults; those without one are left out */
    onnx_attribute *attributes;
} onnx_function;

typedef struct onnx_file {
    wire_file wire;
    kit_arena *arena; /* of all texts and arrays */
    int64_t ir_version;
    const char *producer;
    int n_opsets, n_functions;
    onnx_opset *opsets;
    onnx_function *functions;
    onnx_graph graph;
} onnx_file;

/* Reads all but elements. The file stays open for them: onnx_file_close(). */
weft_status onnx_file_open(onnx_file *file, const char *path, kit_arena *arena, weft_error *error);
void onnx_file_close(onnx_file *file);
/* A body of `If` and the like, whose initializers may be large, too. */
weft_status onnx_graph_read(onnx_file *file, wire_range message, onnx_graph *graph, weft_error *error);

/* Elements of a tensor, row-major, of the type onnx_dtype(). */
size_t onnx_tensor_bytes(const onnx_tensor *t); /* 0: too many, or of another type */
/* Reads elements from byte `begin` of them on; `bytes` within onnx_tensor_bytes(). */
weft_status onnx_tensor_read(onnx_file *file, const onnx_tensor *t, size_t begin, void *into, size_t bytes,
                             weft_error *error);
/* The same of a tensor in another file (external.c). */
weft_status onnx_external_read(onnx_file *file, const onnx_tensor *t, size_t begin, void *into, size_t bytes,
                               weft_error *error);

#endif
