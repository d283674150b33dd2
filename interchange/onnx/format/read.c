/* read.c - an ONNX file as structs: file.h. Each function reads one message of onnx.proto, whose field
 * numbers stand in an enum before it. */
#include "interchange/onnx/format/file.h"

/* A field that a message has, in the only way of writing it that the format knows. */
static bool is(const wire_field *f, uint32_t number, wire_kind kind) {
    return f->number == number && f->kind == kind;
}

static const char *text_of(onnx_file *file, const wire_field *f) {
    return wire_text(&file->wire, file->arena, f->bytes);
}

/* One more element in the array that the pointer at `array` names; NULL: out of memory, or more than any
 * model has. */
static void *one_more(onnx_file *file, void *array, int *n, size_t width) {
    enum { MOST = 1 << 24 };
    void *present;
    memcpy(&present, array, sizeof present);
    if (*n >= MOST) return wire_broken(&file->wire, "more than %d elements in a list", MOST), NULL;
    void *grown = kit_grow(file->arena, present, (size_t)*n + 1, width);
    if (!grown) return NULL;
    memcpy(array, &grown, sizeof grown);
    return (char *)grown + width * (size_t)(*n)++;
}
#define ONE_MORE(file, array, n) ((__typeof__(array))one_more(file, &(array), &(n), sizeof *(array)))

/* ---- numbers: packed or one by one ---- */

static void read_integers(onnx_file *file, const wire_field *f, int64_t **integers, int *n) {
    uint64_t value = f->value;
    wire w = wire_of(&file->wire, f->bytes);
    bool is_single = f->kind == WIRE_VARINT;
    while (is_single || wire_varint(&w, &value)) {
        int64_t *one = ONE_MORE(file, *integers, *n);
        if (!one) return;
        *one = (int64_t)value;
        if (is_single) return;
    }
}

static void read_reals(onnx_file *file, const wire_field *f, float **reals, int *n) {
    uint64_t bits = f->value;
    wire w = wire_of(&file->wire, f->bytes);
    bool is_single = f->kind == WIRE_FIXED32;
    while (is_single || wire_fixed(&w, sizeof(float), &bits)) {
        float *one = ONE_MORE(file, *reals, *n);
        if (!one) return;
        uint32_t word = (uint32_t)bits;
        memcpy(one, &word, sizeof word);
        if (is_single) return;
    }
}

/* ---- TensorProto ---- */

enum {
    TENSOR_DIMS = 1,
    TENSOR_DATA_TYPE = 2,
    TENSOR_SEGMENT = 3,
    TENSOR_NAME = 8,
    TENSOR_RAW_DATA = 9,
    TENSOR_EXTERNAL_DATA = 13,
    TENSOR_DATA_LOCATION = 14,
    ENTRY_KEY = 1, /* StringStringEntryProto */
    ENTRY_VALUE = 2,
};

static bool read_number(const char *text, uint64_t *number) {
    *number = 0;
    for (const char *c = text; *c; c++)
        if (*c < '0' || *c > '9' || __builtin_mul_overflow(*number, 10, number) ||
            __builtin_add_overflow(*number, (uint64_t)(*c - '0'), number))
            return false;
    return *text;
}

static void read_external(onnx_file *file, wire_range message, onnx_tensor *t) {
    const char *key = "", *value = "";
    wire_field f;
    for (wire w = wire_of(&file->wire, message); wire_next(&w, &f);) {
        if (is(&f, ENTRY_KEY, WIRE_BYTES)) key = text_of(file, &f);
        if (is(&f, ENTRY_VALUE, WIRE_BYTES)) value = text_of(file, &f);
    }
    uint64_t *number = !strcmp(key, "offset") ? &t->offset : !strcmp(key, "length") ? &t->length : NULL;
    if (!strcmp(key, "location")) t->location = value;
    if (number && !read_number(value, number))
        wire_broken(&file->wire, "tensor '%.80s': its %s in another file is '%.40s', not a number", t->name,
                    key, value);
}

static void read_shape(onnx_file *file, onnx_tensor *t, int n, const int64_t *shape) {
    if (n > WEFT_MAX_NDIM) {
        wire_broken(&file->wire, "tensor '%.80s' has %d axes; %d are the most", t->name, n, WEFT_MAX_NDIM);
        return;
    }
    t->ndim = n;
    for (int i = 0; i < n; i++) {
        t->shape[i] = shape[i];
        if (shape[i] < 0)
            wire_broken(&file->wire, "tensor '%.80s': axis %d has length %jd", t->name, i, shape[i]);
    }
}

static void read_tensor(onnx_file *file, wire_range message, onnx_tensor *t) {
    int64_t *shape = NULL;
    int n = 0;
    wire_field f;
    *t = (onnx_tensor){.name = "", .message = message};
    for (wire w = wire_of(&file->wire, message); wire_next(&w, &f);) {
        if (f.number == TENSOR_DIMS) read_integers(file, &f, &shape, &n);
        if (is(&f, TENSOR_DATA_TYPE, WIRE_VARINT)) t->type = (int)(f.value & INT32_MAX);
        if (is(&f, TENSOR_NAME, WIRE_BYTES)) t->name = text_of(file, &f);
        if (is(&f, TENSOR_RAW_DATA, WIRE_BYTES)) t->raw = f.bytes;
        if (is(&f, TENSOR_EXTERNAL_DATA, WIRE_BYTES)) read_external(file, f.bytes, t);
        if (is(&f, TENSOR_DATA_LOCATION, WIRE_VARINT)) t->is_external = f.value == 1;
        if (f.number == TENSOR_SEGMENT) wire_broken(&file->wire, "tensor '%.80s' is in segments", t->name);
    }
    read_shape(file, t, n, shape);
    if (t->is_external && !t->location)
        wire_broken(&file->wire, "tensor '%.80s' is in a file without a name", t->name);
}

/* ---- AttributeProto ---- */

enum {
    ATTRIBUTE_NAME = 1,
    ATTRIBUTE_F = 2,
    ATTRIBUTE_I = 3,
    ATTRIBUTE_S = 4,
    ATTRIBUTE_T = 5,
    ATTRIBUTE_G = 6,
    ATTRIBUTE_FLOATS = 7,
    ATTRIBUTE_INTS = 8,
    ATTRIBUTE_STRINGS = 9,
    ATTRIBUTE_TYPE = 20,
    ATTRIBUTE_REF_ATTR_NAME = 21,
};

static void read_attribute_tensor(onnx_file *file, wire_range message, onnx_attribute *a) {
    a->tensor = kit_take(file->arena, 1, sizeof *a->tensor);
    if (a->tensor) read_tensor(file, message, a->tensor);
}

static void read_attribute_texts(onnx_file *file, const wire_field *f, onnx_attribute *a) {
    const char **text = ONE_MORE(file, a->texts, a->n);
    if (text) *text = text_of(file, f);
}

/* The type whose field it is; 0: of another field. Old exporters leave the type out. */
static int type_of_field(uint32_t number) {
    return number >= ATTRIBUTE_F && number <= ATTRIBUTE_STRINGS
               ? (int)(number - ATTRIBUTE_F) + ONNX_ATTRIBUTE_FLOAT
               : 0;
}

static void read_attribute(onnx_file *file, wire_range message, onnx_attribute *a) {
    int type = 0;
    wire_field f;
    *a = (onnx_attribute){.name = "", .text = ""};
    for (wire w = wire_of(&file->wire, message); wire_next(&w, &f);) {
        uint32_t bits = (uint32_t)f.value;
        if (type_of_field(f.number)) type = type_of_field(f.number);
        if (is(&f, ATTRIBUTE_NAME, WIRE_BYTES)) a->name = text_of(file, &f);
        if (is(&f, ATTRIBUTE_F, WIRE_FIXED32)) memcpy(&a->real, &bits, sizeof bits);
        if (is(&f, ATTRIBUTE_I, WIRE_VARINT)) a->integer = (int64_t)f.value;
        if (is(&f, ATTRIBUTE_S, WIRE_BYTES)) a->text = text_of(file, &f);
        if (is(&f, ATTRIBUTE_T, WIRE_BYTES)) read_attribute_tensor(file, f.bytes, a);
        if (is(&f, ATTRIBUTE_G, WIRE_BYTES)) a->graph = f.bytes;
        if (is(&f, ATTRIBUTE_G, WIRE_BYTES)) a->body = kit_take(file->arena, 1, sizeof *a->body);
        if (f.number == ATTRIBUTE_FLOATS) read_reals(file, &f, &a->reals, &a->n);
        if (f.number == ATTRIBUTE_INTS) read_integers(file, &f, &a->integers, &a->n);
        if (is(&f, ATTRIBUTE_STRINGS, WIRE_BYTES)) read_attribute_texts(file, &f, a);
        if (is(&f, ATTRIBUTE_TYPE, WIRE_VARINT)) a->type = (int)(f.value & INT32_MAX);
        if (is(&f, ATTRIBUTE_REF_ATTR_NAME, WIRE_BYTES)) a->reference = text_of(file, &f);
    }
    if (!a->type) a->type = type;
}

/* ---- NodeProto ---- */

enum {
    NODE_INPUT = 1,
    NODE_OUTPUT = 2,
    NODE_NAME = 3,
    NODE_OP_TYPE = 4,
    NODE_ATTRIBUTE = 5,
    NODE_DOMAIN = 7,
    NODE_OVERLOAD = 8,
    NODE_METADATA = 9, /* StringStringEntryProto, as above */
};

static void add_text(onnx_file *file, const wire_field *f, const char ***texts, int *n) {
    const char **one = ONE_MORE(file, *texts, *n);
    if (one) *one = text_of(file, f);
}

/* "ai.onnx" is another name of ONNX's own domain. */
static const char *domain_of(onnx_file *file, const wire_field *f) {
    const char *domain = text_of(file, f);
    return strcmp(domain, "ai.onnx") ? domain : "";
}

/* ---- metadata of PyTorch's exporter ---- */

enum { METADATA_ROOM = 4096 }; /* longer texts are traces of calls */

static bool copy_short(onnx_file *file, wire_range from, char into[METADATA_ROOM]) {
    uint64_t n = from.end - from.begin;
    if (n >= METADATA_ROOM) return false;
    into[n] = 0;
    return wire_copy(&file->wire, from.begin, into, (size_t)n);
}

/* The last but one of "['', 'a', 'a.bn', 'batch_norm']": modules, then a function that the last one calls. */
static const char *module_of(onnx_file *file, char *scopes) {
    char *quote = NULL;
    for (int i = 0; i < 3 && (quote = strrchr(scopes, '\'')); i++) *quote = 0;
    quote = quote ? strrchr(scopes, '\'') : NULL;
    return quote ? kit_copy(file->arena, quote + 1) : NULL;
}

static void read_metadata(onnx_file *file, wire_range message, onnx_node *node) {
    char key[METADATA_ROOM], value[METADATA_ROOM];
    wire_range of_key = {0}, of_value = {0};
    wire_field f;
    for (wire w = wire_of(&file->wire, message); wire_next(&w, &f);) {
        if (is(&f, ENTRY_KEY, WIRE_BYTES)) of_key = f.bytes;
        if (is(&f, ENTRY_VALUE, WIRE_BYTES)) of_value = f.bytes;
    }
    if (!copy_short(file, of_key, key) || !copy_short(file, of_value, value)) return;
    if (!strcmp(key, "pkg.torch.onnx.name_scopes")) node->module = module_of(file, value);
    if (!strcmp(key, "pkg.onnxscript.rewriter.rule_name")) node->has_norm = strstr(value, "FuseBatchNorm");
}

static void read_node(onnx_file *file, wire_range message, onnx_node *node, int index) {
    wire_field f;
    *node = (onnx_node){.name = "", .op = "", .domain = "", .overload = "", .index = index};
    for (wire w = wire_of(&file->wire, message); wire_next(&w, &f);) {
        onnx_attribute *a = NULL;
        if (is(&f, NODE_INPUT, WIRE_BYTES)) add_text(file, &f, &node->in, &node->n_in);
        if (is(&f, NODE_OUTPUT, WIRE_BYTES)) add_text(file, &f, &node->out, &node->n_out);
        if (is(&f, NODE_NAME, WIRE_BYTES)) node->name = text_of(file, &f);
        if (is(&f, NODE_OP_TYPE, WIRE_BYTES)) node->op = text_of(file, &f);
        if (is(&f, NODE_DOMAIN, WIRE_BYTES)) node->domain = domain_of(file, &f);
        if (is(&f, NODE_OVERLOAD, WIRE_BYTES)) node->overload = text_of(file, &f);
        if (is(&f, NODE_METADATA, WIRE_BYTES)) read_metadata(file, f.bytes, node);
        if (is(&f, NODE_ATTRIBUTE, WIRE_BYTES)) a = ONE_MORE(file, node->attributes, node->n_attributes);
        if (a) read_attribute(file, f.bytes, a);
    }
}

/* ---- ValueInfoProto ---- */

enum {
    VALUE_NAME = 1,
    VALUE_TYPE = 2,
    TYPE_TENSOR = 1, /* TypeProto */
    TENSOR_TYPE_ELEM = 1,
    TENSOR_TYPE_SHAPE = 2,
    SHAPE_DIM = 1, /* TensorShapeProto */
    DIM_VALUE = 1,
    DIM_PARAM = 2,
};

static void read_axis(onnx_file *file, wire_range message, onnx_axis *axis) {
    wire_field f;
    for (wire w = wire_of(&file->wire, message); wire_next(&w, &f);) {
        if (is(&f, DIM_VALUE, WIRE_VARINT)) axis->length = (int64_t)f.value;
        if (is(&f, DIM_PARAM, WIRE_BYTES) && f.bytes.end > f.bytes.begin) axis->name = text_of(file, &f);
    }
}

static void read_port_shape(onnx_file *file, wire_range message, onnx_port *port) {
    wire_field f;
    port->has_shape = true;
    for (wire w = wire_of(&file->wire, message); wire_next(&w, &f);) {
        if (!is(&f, SHAPE_DIM, WIRE_BYTES)) continue;
        if (port->ndim == WEFT_MAX_NDIM) {
            wire_broken(&file->wire, "'%.80s' has more than %d axes", port->name, WEFT_MAX_NDIM);
            return;
        }
        read_axis(file, f.bytes, &port->axes[port->ndim++]);
    }
}

static void read_port_type(onnx_file *file, wire_range message, onnx_port *port) {
    wire_field type, f;
    for (wire w = wire_of(&file->wire, message); wire_next(&w, &type);) {
        if (!is(&type, TYPE_TENSOR, WIRE_BYTES)) continue;
        for (wire inner = wire_of(&file->wire, type.bytes); wire_next(&inner, &f);) {
            if (is(&f, TENSOR_TYPE_ELEM, WIRE_VARINT)) port->type = (int)(f.value & INT32_MAX);
            if (is(&f, TENSOR_TYPE_SHAPE, WIRE_BYTES)) read_port_shape(file, f.bytes, port);
        }
    }
}

static void read_port(onnx_file *file, wire_range message, onnx_port *port) {
    wire_field f;
    wire_range type = {0};
    *port = (onnx_port){.name = ""};
    for (wire w = wire_of(&file->wire, message); wire_next(&w, &f);) {
        if (is(&f, VALUE_NAME, WIRE_BYTES)) port->name = text_of(file, &f);
        if (is(&f, VALUE_TYPE, WIRE_BYTES)) type = f.bytes;
    }
    read_port_type(file, type, port);
}

/* ---- GraphProto ---- */

enum {
    GRAPH_NODE = 1,
    GRAPH_NAME = 2,
    GRAPH_INITIALIZER = 5,
    GRAPH_INPUT = 11,
    GRAPH_OUTPUT = 12,
    GRAPH_SPARSE_INITIALIZER = 15,
};

static void read_graph(onnx_file *file, wire_range message, onnx_graph *g) {
    wire_field f;
    *g = (onnx_graph){.name = ""};
    for (wire w = wire_of(&file->wire, message); wire_next(&w, &f);) {
        onnx_node *node = NULL;
        onnx_tensor *tensor = NULL;
        onnx_port *port = NULL;
        if (is(&f, GRAPH_NAME, WIRE_BYTES)) g->name = text_of(file, &f);
        if (is(&f, GRAPH_NODE, WIRE_BYTES)) node = ONE_MORE(file, g->nodes, g->n_nodes);
        if (is(&f, GRAPH_INITIALIZER, WIRE_BYTES))
            tensor = ONE_MORE(file, g->initializers, g->n_initializers);
        if (is(&f, GRAPH_INPUT, WIRE_BYTES)) port = ONE_MORE(file, g->inputs, g->n_inputs);
        if (is(&f, GRAPH_OUTPUT, WIRE_BYTES)) port = ONE_MORE(file, g->outputs, g->n_outputs);
        if (node) read_node(file, f.bytes, node, g->n_nodes - 1);
        if (tensor) read_tensor(file, f.bytes, tensor);
        if (port) read_port(file, f.bytes, port);
        if (f.number == GRAPH_SPARSE_INITIALIZER)
            wire_broken(&file->wire, "a sparse tensor: only dense ones are read");
    }
}

static weft_status result_of(onnx_file *file, weft_error *error) {
    if (file->wire.error.status) return kit_pass(error, &file->wire.error);
    return file->arena->is_out ? kit_no_memory(error, file->wire.path) : WEFT_OK;
}

weft_status onnx_graph_read(onnx_file *file, wire_range message, onnx_graph *graph, weft_error *error) {
    read_graph(file, message, graph);
    weft_status status = result_of(file, error);
    if (status) graph->name = NULL;
    return status;
}

/* ---- FunctionProto ---- */

enum {
    FUNCTION_NAME = 1,
    FUNCTION_INPUT = 4,
    FUNCTION_OUTPUT = 5,
    FUNCTION_NODE = 7,
    FUNCTION_OPSET = 9,
    FUNCTION_DOMAIN = 10,
    FUNCTION_ATTRIBUTE_PROTO = 11,
    FUNCTION_OVERLOAD = 13,
    OPSET_DOMAIN = 1, /* OperatorSetIdProto */
    OPSET_VERSION = 2,
};

static void read_opset(onnx_file *file, wire_range message, onnx_opset *opset) {
    wire_field f;
    *opset = (onnx_opset){.domain = ""};
    for (wire w = wire_of(&file->wire, message); wire_next(&w, &f);) {
        if (is(&f, OPSET_DOMAIN, WIRE_BYTES)) opset->domain = domain_of(file, &f);
        if (is(&f, OPSET_VERSION, WIRE_VARINT)) opset->version = (int64_t)f.value;
    }
}

static void read_function(onnx_file *file, wire_range message, onnx_function *function) {
    wire_field f;
    onnx_graph *body = &function->body;
    *function = (onnx_function){.domain = "", .name = "", .overload = ""};
    for (wire w = wire_of(&file->wire, message); wire_next(&w, &f);) {
        onnx_node *node = NULL;
        onnx_port *port = NULL;
        onnx_opset *opset = NULL;
        onnx_attribute *attribute = NULL;
        if (is(&f, FUNCTION_NAME, WIRE_BYTES)) function->name = text_of(file, &f);
        if (is(&f, FUNCTION_DOMAIN, WIRE_BYTES)) function->domain = domain_of(file, &f);
        if (is(&f, FUNCTION_OVERLOAD, WIRE_BYTES)) function->overload = text_of(file, &f);
        if (is(&f, FUNCTION_INPUT, WIRE_BYTES)) port = ONE_MORE(file, body->inputs, body->n_inputs);
        if (is(&f, FUNCTION_OUTPUT, WIRE_BYTES)) port = ONE_MORE(file, body->outputs, body->n_outputs);
        if (is(&f, FUNCTION_NODE, WIRE_BYTES)) node = ONE_MORE(file, body->nodes, body->n_nodes);
        if (is(&f, FUNCTION_OPSET, WIRE_BYTES)) opset = ONE_MORE(file, function->opsets, function->n_opsets);
        if (is(&f, FUNCTION_ATTRIBUTE_PROTO, WIRE_BYTES))
            attribute = ONE_MORE(file, function->attributes, function->n_attributes);
        if (port) *port = (onnx_port){.name = text_of(file, &f)};
        if (node) read_node(file, f.bytes, node, body->n_nodes - 1);
        if (opset) read_opset(file, f.bytes, opset);
        if (attribute) read_attribute(file, f.bytes, attribute);
    }
}

/* ---- ModelProto ---- */

enum {
    MODEL_IR_VERSION = 1,
    MODEL_PRODUCER_NAME = 2,
    MODEL_GRAPH = 7,
    MODEL_OPSET_IMPORT = 8,
    MODEL_FUNCTIONS = 25,
};

static void read_model(onnx_file *file) {
    wire_field f;
    bool has_graph = false;
    for (wire w = wire_of(&file->wire, (wire_range){0, file->wire.bytes}); wire_next(&w, &f);) {
        onnx_opset *opset = NULL;
        onnx_function *function = NULL;
        if (is(&f, MODEL_IR_VERSION, WIRE_VARINT)) file->ir_version = (int64_t)f.value;
        if (is(&f, MODEL_PRODUCER_NAME, WIRE_BYTES)) file->producer = text_of(file, &f);
        if (is(&f, MODEL_OPSET_IMPORT, WIRE_BYTES)) opset = ONE_MORE(file, file->opsets, file->n_opsets);
        if (is(&f, MODEL_FUNCTIONS, WIRE_BYTES))
            function = ONE_MORE(file, file->functions, file->n_functions);
        if (opset) read_opset(file, f.bytes, opset);
        if (function) read_function(file, f.bytes, function);
        if (!is(&f, MODEL_GRAPH, WIRE_BYTES)) continue;
        if (has_graph) wire_broken(&file->wire, "it has two graphs");
        has_graph = true;
        read_graph(file, f.bytes, &file->graph);
    }
    if (!has_graph)
        wire_broken(&file->wire, "it has no graph: it is not an ONNX file");
    else if (!file->n_opsets)
        wire_broken(&file->wire, "it names no opset");
}

weft_status onnx_file_open(onnx_file *file, const char *path, kit_arena *arena, weft_error *error) {
    *file = (onnx_file){.arena = arena, .producer = ""};
    const char *kept = kit_copy(arena, path);
    if (!kept) return kit_no_memory(error, path);
    weft_status status = wire_open(&file->wire, kept, &arena->env, error);
    if (status) return status;
    read_model(file);
    status = result_of(file, error);
    if (status) onnx_file_close(file);
    return status;
}

void onnx_file_close(onnx_file *file) {
    wire_close(&file->wire);
}
