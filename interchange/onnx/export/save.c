/* save.c - a graph of nodes as an ONNX file (github.com/onnx/onnx, onnx/onnx.proto).
 *
 * Nodes, inputs and outputs are made in memory. Elements of initializers go from the store, or the
 * safetensors file, to the ONNX file one tensor after another; so the lengths of the messages that they
 * are in are counted before. Protocol Buffers have no message above 2 GB: elements of a larger model go
 * to a file beside it. */
#include "interchange/onnx/export/export.h"
#include "interchange/onnx/format/emit.h"
#include "interchange/onnx/format/output.h"

#include "runtime/data/convert.h"

#include <limits.h>

enum {
    OPSET = 21,      /* of ONNX 1.16, which onnxruntime takes since 1.18 and OpenVINO since 2024.2 */
    IR_VERSION = 10, /* the same */
    PAGE = 4096,     /* where tensors begin in a file of elements, so that they can be mapped */
    SMALL = 1024,    /* bytes; below this, elements stay with the nodes */
};
/* Numbers of fields. */
enum { MODEL_IR = 1, MODEL_PRODUCER = 2, MODEL_VERSION = 3, MODEL_GRAPH = 7, MODEL_OPSETS = 8 };
enum { OPSET_DOMAIN = 1, OPSET_VERSION = 2 };
enum { GRAPH_NODE = 1, GRAPH_NAME = 2, GRAPH_INITIALIZER = 5, GRAPH_INPUT = 11, GRAPH_OUTPUT = 12 };
enum { NODE_INPUT = 1, NODE_OUTPUT = 2, NODE_NAME = 3, NODE_OP = 4, NODE_ATTRIBUTE = 5 };
enum {
    ATTRIBUTE_NAME = 1,
    ATTRIBUTE_F = 2,
    ATTRIBUTE_I = 3,
    ATTRIBUTE_S = 4,
    ATTRIBUTE_INTS = 8,
    ATTRIBUTE_STRINGS = 9,
    ATTRIBUTE_TYPE = 20
};
enum {
    TENSOR_DIMS = 1,
    TENSOR_TYPE = 2,
    TENSOR_NAME = 8,
    TENSOR_RAW = 9,
    TENSOR_EXTERNAL = 13,
    TENSOR_LOCATION = 14
};
enum { ENTRY_KEY = 1, ENTRY_VALUE = 2, VALUE_NAME = 1, VALUE_TYPE = 2, TYPE_TENSOR = 1 };
enum { TENSOR_TYPE_ELEMENT = 1, TENSOR_TYPE_SHAPE = 2, SHAPE_DIM = 1, DIM_VALUE = 1, DIM_PARAM = 2 };

/* ---- names ---- */

typedef struct export_name {
    int used; /* how often, for the next number */
} export_name;

/* False: it is taken, or memory is out. */
static bool name_take(exporter *e, const char *name) {
    export_name *n = onnx_table_find(&e->names, name) ? NULL : kit_take(e->arena, 1, sizeof *n);
    return n && onnx_table_add(&e->names, e->arena, name, n);
}

/* "layer1/0/Conv", or where that is taken "layer1/0/Conv_1"; "" after a failure. */
static const char *name_new(exporter *e, const char *scope, const char *what, const char *end) {
    size_t room = strlen(scope) + strlen(what) + strlen(end) + 16;
    char *name = kit_take(e->arena, room, 1);
    if (!name) return "";
    int length = snprintf(name, room, "%s%s%s%s", scope, *scope ? "/" : "", what, end);
    export_name *first = onnx_table_find(&e->names, name);
    for (; onnx_table_find(&e->names, name);
         snprintf(name + length, room - (size_t)length, "_%d", first->used))
        first->used++;
    return name_take(e, name) ? name : "";
}

static weft_status name_taken(exporter *e, const char *what, const char *name) {
    return kit_fail(e->error, WEFT_NAME,
                    "graph %.100s: %s '%.100s' has the name of another value of the file: rename it",
                    e->graph_name, what, name);
}

static weft_status name_parameters(exporter *e) {
    for (edge *p = e->parameters; p; p = p->next) {
        if (!p->is_used) continue;
        p->name = onnx_dotted(e->arena, p->path);
        if (!p->name) return kit_no_memory(e->error, e->path);
        if (!name_take(e, p->name)) return name_taken(e, "parameter", p->name);
    }
    return WEFT_OK;
}

static void name_nodes(exporter *e) {
    for (export_node *n = e->first; n; n = n->next) {
        char number[24];
        if (!n->is_needed) continue;
        n->name = name_new(e, n->scope, n->op, "");
        for (int i = 0; i < n->n_out; i++) {
            snprintf(number, sizeof number, "_output_%d", i);
            if (n->out[i].is_used && !n->out[i].name) n->out[i].name = name_new(e, "", n->name, number);
        }
    }
    for (edge *k = e->constants; k; k = k->next)
        if (k->is_used) k->name = name_new(e, "", "constant", "");
}

/* How many results, from the first on, have a name whether or not something reads them: the others are
 * optional in ONNX. */
static int required_results(const char *op) {
    static const struct {
        const char *op;
        int n;
    } others[] = {{"TopK", 2}, {"LSTM", 0}, {"GRU", 0}, {"RNN", 0}};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (!strcmp(op, others[i].op)) return others[i].n;
    return 1;
}

/* From the last node to the first: what outputs need. */
static void mark_needed(exporter *e) {
    for (export_node *n = e->last; n; n = n->before) {
        for (int i = 0; i < n->n_out; i++) n->is_needed |= n->out[i].is_used;
        int required = n->is_needed ? required_results(n->op) : 0;
        for (int i = 0; i < required; i++) n->out[i].is_used = true;
        for (int i = 0; n->is_needed && i < n->n_in; i++)
            if (n->in[i]) n->in[i]->is_used = true;
    }
}

/* ---- nodes and ports ---- */

static void put_attribute(emit *to, const export_attribute *a) {
    size_t begin = emit_begin(to, NODE_ATTRIBUTE);
    emit_text(to, ATTRIBUTE_NAME, a->name);
    if (a->type == ONNX_ATTRIBUTE_FLOAT) emit_real(to, ATTRIBUTE_F, a->real);
    if (a->type == ONNX_ATTRIBUTE_INT) emit_integer(to, ATTRIBUTE_I, a->integers[0]);
    if (a->type == ONNX_ATTRIBUTE_STRING) emit_text(to, ATTRIBUTE_S, a->text);
    if (a->type == ONNX_ATTRIBUTE_STRINGS) emit_text(to, ATTRIBUTE_STRINGS, a->text);
    for (int i = 0; a->type == ONNX_ATTRIBUTE_INTS && i < a->n; i++)
        emit_integer(to, ATTRIBUTE_INTS, a->integers[i]);
    emit_integer(to, ATTRIBUTE_TYPE, a->type);
    emit_end(to, begin);
}

static void put_node(emit *to, const export_node *n) {
    int n_in = n->n_in, n_out = n->n_out;
    size_t begin = emit_begin(to, GRAPH_NODE);
    while (n_in && !n->in[n_in - 1]) n_in--;
    while (n_out > 1 && !n->out[n_out - 1].is_used) n_out--;
    for (int i = 0; i < n_in; i++) emit_text(to, NODE_INPUT, n->in[i] ? n->in[i]->name : "");
    for (int i = 0; i < n_out; i++) emit_text(to, NODE_OUTPUT, n->out[i].is_used ? n->out[i].name : "");
    emit_text(to, NODE_NAME, n->name);
    emit_text(to, NODE_OP, n->op);
    for (const export_attribute *a = n->attributes; a; a = a->next) put_attribute(to, a);
    emit_end(to, begin);
}

/* "batch", "4*batch+1" */
static void put_length(emit *to, export_length length) {
    char text[80] = "batch";
    size_t begin = emit_begin(to, SHAPE_DIM);
    if (length.per_batch != 1) snprintf(text, sizeof text, "%jd*batch", length.per_batch);
    size_t n = strlen(text);
    if (length.rest) snprintf(text + n, sizeof text - n, "%+jd", length.rest);
    if (length.per_batch) emit_text(to, DIM_PARAM, text);
    if (!length.per_batch) emit_integer(to, DIM_VALUE, length.rest);
    emit_end(to, begin);
}

static void put_port(exporter *e, emit *to, uint32_t field, const char *name, const weft_value *v) {
    export_length length;
    size_t port = emit_begin(to, field);
    emit_text(to, VALUE_NAME, name);
    size_t type = emit_begin(to, VALUE_TYPE), tensor = emit_begin(to, TYPE_TENSOR);
    emit_integer(to, TENSOR_TYPE_ELEMENT, onnx_type_of(weft_value_dtype(v)));
    size_t shape = emit_begin(to, TENSOR_TYPE_SHAPE);
    for (int i = 0; i < weft_ndim(v); i++) {
        if (!export_length_of(e, v, i, &length) && !e->error->status)
            kit_fail(e->error, WEFT_UNSUPPORTED,
                     "graph %.100s: '%.100s': the length of axis %d at another batch is not known: export "
                     "with a fixed batch",
                     e->graph_name, name, i);
        put_length(to, length);
    }
    emit_end(to, shape);
    emit_end(to, tensor);
    emit_end(to, type);
    emit_end(to, port);
}

/* ---- initializers ---- */

/* Where elements are written. */
typedef struct saving {
    exporter *e;
    output *model, *data; /* data: a file of elements; its handle is NULL without one */
    bool is_apart;        /* elements go there */
    const char *location; /* its name, from the model's folder */
    uint64_t at;          /* bytes in it so far */
} saving;

static bool goes_apart(const saving *s, const edge *t) {
    return s->is_apart && tensor_bytes(&t->type) >= SMALL;
}

static void put_entry(emit *to, const char *key, const char *value) {
    size_t begin = emit_begin(to, TENSOR_EXTERNAL);
    emit_text(to, ENTRY_KEY, key);
    emit_text(to, ENTRY_VALUE, value);
    emit_end(to, begin);
}

static uint64_t paged(uint64_t bytes) {
    return (bytes + PAGE - 1) / PAGE * PAGE;
}

/* All of a tensor's message but elements. */
static void put_tensor(saving *s, emit *to, const edge *t) {
    char number[32];
    for (int i = 0; i < t->type.ndim; i++) emit_integer(to, TENSOR_DIMS, t->type.shape[i]);
    emit_integer(to, TENSOR_TYPE, onnx_type_of(t->type.dtype));
    emit_text(to, TENSOR_NAME, t->name);
    if (!goes_apart(s, t)) return;
    put_entry(to, "location", s->location);
    snprintf(number, sizeof number, "%ju", s->at);
    put_entry(to, "offset", number);
    snprintf(number, sizeof number, "%zu", tensor_bytes(&t->type));
    put_entry(to, "length", number);
    emit_integer(to, TENSOR_LOCATION, 1);
    s->at += paged(tensor_bytes(&t->type));
}

static uint64_t tensor_size(const saving *s, const edge *t, size_t head) {
    return head + (goes_apart(s, t) ? 0 : emit_size(TENSOR_RAW, tensor_bytes(&t->type)));
}

/* Puts the tensors of the file of weights into a table, once. False: out of memory. */
static bool ports_ready(exporter *e) {
    weft_port port;
    for (int i = 0; !e->has_ports && weft_tensors_at(e->tensors, i, &port); i++) {
        weft_port *kept = kit_take(e->arena, 1, sizeof *kept);
        if (!kept || !onnx_table_add(&e->ports, e->arena, port.name, kept)) return false;
        *kept = port;
    }
    return e->has_ports = true;
}

static weft_status check_port(exporter *e, const edge *t, weft_port *port) {
    if (!ports_ready(e)) return kit_no_memory(e->error, e->path);
    const weft_port *there = onnx_table_find(&e->ports, t->name);
    if (!there)
        return kit_fail(e->error, WEFT_NAME, "%.300s: it has no '%.200s', which graph %.100s needs",
                        e->options->weights, t->name, e->graph_name);
    *port = *there;
    tensor found = tensor_of(port->dtype, port->ndim, port->shape);
    bool fits = port->ndim == t->type.ndim;
    for (int i = 0; fits && i < port->ndim; i++) fits = port->shape[i] == t->type.shape[i];
    if (!fits || (port->dtype != t->type.dtype && !(onnx_is_float(port->dtype) && t->type.dtype == WEFT_F32)))
        return kit_fail(e->error, WEFT_SHAPE, "%.300s: '%.200s' is %s, and graph %.100s needs %s",
                        e->options->weights, t->name, TENSOR(&found), e->graph_name, TENSOR(&t->type));
    return WEFT_OK;
}

/* Reads a tensor of the file of weights as the type that the model has. */
static weft_status read_port(exporter *e, const edge *t, void *into) {
    weft_port port;
    weft_status status = check_port(e, t, &port);
    if (status) return status;
    if (port.dtype == t->type.dtype)
        return weft_tensors_read(e->tensors, t->name, into, port.bytes, e->error);
    void *other = kit_take_raw(e->arena, port.bytes, 1);
    if (!other) return kit_no_memory(e->error, e->path);
    status = weft_tensors_read(e->tensors, t->name, other, port.bytes, e->error);
    size_t count = (size_t)tensor_elements(&t->type);
    if (!status && convert_numbers(port.dtype, other, WEFT_F32, into, count, true) != count)
        status = kit_fail(e->error, WEFT_DATA, "%.300s: '%.200s' has numbers that f32 cannot hold",
                          e->options->weights, t->name);
    kit_drop(e->arena, other);
    return status;
}

static weft_status put_read(saving *s, const edge *t, output *o) {
    exporter *e = s->e;
    size_t bytes = tensor_bytes(&t->type);
    if (!t->path) return output_put(o, t->data, bytes, e->error);
    void *elements = kit_take_raw(e->arena, bytes, 1);
    if (!elements) return kit_no_memory(e->error, e->path);
    weft_status status =
        e->store ? weft_store_get(e->store, t->path, elements, bytes, e->error) : read_port(e, t, elements);
    if (!status) status = output_put(o, elements, bytes, e->error);
    kit_drop(e->arena, elements);
    return status;
}

/* Elements to the file of elements, up to the next page. */
static weft_status put_apart(saving *s, const edge *t) {
    static const uint8_t zeros[PAGE];
    size_t bytes = tensor_bytes(&t->type), more = (size_t)(paged(bytes) - bytes);
    weft_status status = put_read(s, t, s->data);
    return status || !more ? status : output_put(s->data, zeros, more, s->e->error);
}

static weft_status put_initializer(saving *s, const edge *t) {
    emit fields = {.arena = s->e->arena}, head = {.arena = s->e->arena};
    put_tensor(s, &fields, t);
    emit_head(&head, GRAPH_INITIALIZER, tensor_size(s, t, fields.length));
    weft_status status = fields.is_out || head.is_out ? kit_no_memory(s->e->error, s->e->path) : WEFT_OK;
    if (!status) status = output_put(s->model, head.bytes, head.length, s->e->error);
    if (!status && goes_apart(s, t)) status = put_apart(s, t);
    if (!status && !goes_apart(s, t)) emit_head(&fields, TENSOR_RAW, tensor_bytes(&t->type));
    if (!status) status = output_put(s->model, fields.bytes, fields.length, s->e->error);
    if (!status && !goes_apart(s, t)) status = put_read(s, t, s->model);
    kit_drop(s->e->arena, fields.bytes);
    kit_drop(s->e->arena, head.bytes);
    return status;
}

static edge *list_at(const exporter *e, int i) {
    return i ? e->constants : e->parameters;
}

/* Bytes of all initializers in the graph's message. */
static uint64_t initializers_size(saving *s) {
    uint64_t all = 0;
    emit fields = {.arena = s->e->arena};
    for (int i = 0; i < 2; i++)
        for (const edge *t = list_at(s->e, i); t; t = t->next) {
            if (!t->is_used) continue;
            fields.length = 0;
            put_tensor(s, &fields, t);
            all += emit_size(GRAPH_INITIALIZER, tensor_size(s, t, fields.length));
        }
    kit_drop(s->e->arena, fields.bytes);
    s->at = 0;
    return all;
}

static weft_status put_initializers(saving *s) {
    weft_status status = WEFT_OK;
    for (int i = 0; i < 2; i++)
        for (const edge *t = list_at(s->e, i); t && !status; t = t->next)
            if (t->is_used) status = put_initializer(s, t);
    return status;
}

/* ---- the file ---- */

static void put_graph(exporter *e, emit *to, edge *const *outputs, int n_outputs) {
    const char *name;
    emit_text(to, GRAPH_NAME, e->graph_name);
    for (const edge *i = e->inputs; i; i = i->next) put_port(e, to, GRAPH_INPUT, i->name, i->value);
    for (int i = 0; i < n_outputs; i++) {
        const weft_value *v = weft_graph_output(e->graph, i, &name);
        put_port(e, to, GRAPH_OUTPUT, outputs[i]->name, v);
    }
    for (const export_node *n = e->first; n; n = n->next)
        if (n->is_needed) put_node(to, n);
}

static void put_head(emit *to, uint64_t graph) {
    emit_integer(to, MODEL_IR, IR_VERSION);
    emit_text(to, MODEL_PRODUCER, "weft");
    emit_text(to, MODEL_VERSION, weft_version());
    size_t begin = emit_begin(to, MODEL_OPSETS);
    emit_text(to, OPSET_DOMAIN, "");
    emit_integer(to, OPSET_VERSION, OPSET);
    emit_end(to, begin);
    emit_head(to, MODEL_GRAPH, graph);
}

static weft_status put_all(saving *s, const emit *head, const emit *graph) {
    weft_status status = output_put(s->model, head->bytes, head->length, s->e->error);
    if (!status) status = output_put(s->model, graph->bytes, graph->length, s->e->error);
    return status ? status : put_initializers(s);
}

/* The file of elements is in place before the model that names it. */
static weft_status put_files(saving *s, const emit *head, const emit *graph) {
    exporter *e = s->e;
    output model, data;
    char *beside = kit_take(e->arena, strlen(e->path) + sizeof ".data", 1);
    if (!beside) return kit_no_memory(e->error, e->path);
    sprintf(beside, "%s.data", e->path);
    weft_status status = output_open(&model, e->arena, e->path, e->error);
    if (status) return status;
    s->model = &model;
    s->data = &data;
    if (s->is_apart) status = output_open(&data, e->arena, beside, e->error);
    if (!status) {
        status = put_all(s, head, graph);
        if (s->is_apart) status = output_close(&data, status, e->error);
    }
    return output_close(&model, status, e->error);
}

static weft_status check_weights(exporter *e) {
    weft_status status = WEFT_OK;
    weft_port port;
    for (const edge *p = e->parameters; p && e->tensors && !status; p = p->next)
        if (p->is_used) status = check_port(e, p, &port);
    return status;
}

static const char *last_part(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static weft_status make_ready(exporter *e, edge *const *outputs, int n_outputs) {
    for (const edge *i = e->inputs; i; i = i->next) name_take(e, i->name);
    for (int i = 0; i < n_outputs; i++)
        if (!outputs[i]->value && !name_take(e, outputs[i]->name))
            return name_taken(e, "output", outputs[i]->name);
    for (int i = 0; i < n_outputs; i++) outputs[i]->is_used = true;
    mark_needed(e);
    weft_status status = name_parameters(e);
    name_nodes(e);
    return status ? status : check_weights(e);
}

weft_status export_save(exporter *e, edge *const *outputs, int n_outputs) {
    emit head = {.arena = e->arena}, graph = {.arena = e->arena};
    char *location = kit_take(e->arena, strlen(e->path) + sizeof ".data", 1);
    saving s = {.e = e, .is_apart = e->options->external_data, .location = location};
    weft_status status = location ? make_ready(e, outputs, n_outputs) : kit_no_memory(e->error, e->path);
    if (status) return status;
    sprintf(location, "%s.data", last_part(e->path));
    put_graph(e, &graph, outputs, n_outputs);
    if (e->error->status) return e->error->status;
    uint64_t size = graph.length + initializers_size(&s);
    s.is_apart |= size > INT_MAX - PAGE;
    if (s.is_apart) size = graph.length + initializers_size(&s);
    put_head(&head, size);
    if (head.is_out || graph.is_out || e->arena->is_out) return kit_no_memory(e->error, e->path);
    return put_files(&s, &head, &graph);
}
