/* inputs.c - inputs of a graph: values of the graph, constants, initializers; and its outputs. */
#include "interchange/onnx/import/import.h"

static const weft_onnx_constant *constant_for(const importer *in, const char *name) {
    for (int i = 0; i < in->options->n_constants; i++)
        if (!strcmp(in->options->constants[i].name, name)) return &in->options->constants[i];
    return NULL;
}

static const onnx_port *port_of(const onnx_graph *g, const char *name) {
    for (int i = 0; i < g->n_inputs; i++)
        if (!strcmp(g->inputs[i].name, name)) return &g->inputs[i];
    return NULL;
}

/* Whether a constant is one, whatever the file has. */
static bool is_constant(importer *in, const weft_onnx_constant *given) {
    if (weft_reserved_check(given->reserved, sizeof given->reserved, "weft_onnx_constant", in->error))
        return false;
    bool is_good = given->ndim >= 0 && given->ndim <= WEFT_MAX_NDIM;
    for (int i = 0; is_good && i < given->ndim; i++) is_good = given->shape[i] >= 0;
    if (!is_good)
        kit_fail(in->error, WEFT_ARGUMENT,
                 "the constant '%.80s' has %d axes: 0 to %d are needed, each of length 0 or more",
                 given->name, given->ndim, WEFT_MAX_NDIM);
    return is_good;
}

/* Whether a constant is of the type that the file has for the input. */
static bool is_of_type(importer *in, const onnx_port *port, const weft_onnx_constant *given) {
    weft_dtype dtype;
    if (!onnx_dtype(port->type, &dtype) || dtype == given->dtype) return true;
    kit_fail(in->error, WEFT_TYPE, "%.300s: the constant '%.80s' is %s; the input is %s",
             in->onnx->file.wire.path, given->name, weft_dtype_name(given->dtype), weft_dtype_name(dtype));
    return false;
}

/* Whether it has the axes that the file has for the input, where it says so. */
static bool is_of_shape(importer *in, const onnx_port *port, const weft_onnx_constant *given) {
    if (!port->has_shape) return true;
    if (port->ndim != given->ndim)
        return kit_fail(in->error, WEFT_SHAPE, "%.300s: the constant '%.80s' has %d axes; the input has %d",
                        in->onnx->file.wire.path, given->name, given->ndim, port->ndim),
               false;
    for (int i = 0; i < port->ndim; i++)
        if (port->axes[i].length > 0 && port->axes[i].length != given->shape[i])
            return kit_fail(
                       in->error, WEFT_SHAPE,
                       "%.300s: axis %d of the constant '%.80s' has length %jd; that of the input has %jd",
                       in->onnx->file.wire.path, i, given->name, given->shape[i], port->axes[i].length),
                   false;
    return true;
}

static bool define_constant(importer *in, const weft_onnx_constant *given) {
    const onnx_port *port = port_of(&in->onnx->file.graph, given->name);
    if (!is_constant(in, given)) return false;
    if (port && (!is_of_type(in, port, given) || !is_of_shape(in, port, given))) return false;
    tensor type = tensor_of(given->dtype, given->ndim, given->shape);
    onnx_value *v = onnx_define(in, in->frame, given->name);
    onnx_known *k = v ? onnx_known_new(in, &type) : NULL;
    if (!k) return false;
    memcpy(k->data, given->data, tensor_bytes(&type));
    v->known[0] = v->known[1] = k;
    return true;
}

/* ---- the batch, where options do not say which axes it is ---- */

static bool options_name_batch(const weft_onnx_options *o) {
    for (int i = 0; i < o->n_axes; i++)
        if (o->axes[i].length == WEFT_BATCH) return true;
    return false;
}

/* As weft_onnx_export() writes it. */
static bool is_called_batch(const onnx_axis *axis) {
    return axis->length <= 0 && axis->name && !strcmp(axis->name, "batch");
}

/* Whether the first axis of an input is taken for the batch: it has no length, and no other is called so. */
static bool begins_with_batch(const onnx_port *port) {
    for (int i = 1; i < port->ndim; i++)
        if (is_called_batch(&port->axes[i]) && !is_called_batch(port->axes)) return false;
    return port->ndim && port->axes->length <= 0;
}

/* Whether an axis is the batch: one that is called so, the first of an input, and others of its name. */
static bool is_batch(const importer *in, const onnx_port *port, int place) {
    const onnx_graph *g = &in->onnx->file.graph;
    const onnx_axis *axis = &port->axes[place];
    if (axis->length > 0 || options_name_batch(in->options)) return false;
    if (is_called_batch(axis) || (!place && begins_with_batch(port))) return true;
    for (int i = 0; axis->name && i < g->n_inputs; i++) {
        const onnx_axis *first = g->inputs[i].axes;
        if (begins_with_batch(&g->inputs[i]) && first->name && !strcmp(first->name, axis->name)) return true;
    }
    return false;
}

static bool length_of_axis(importer *in, const onnx_port *port, int i, int64_t *length) {
    const onnx_axis *axis = &port->axes[i];
    *length = axis->length > 0 ? axis->length : is_batch(in, port, i) ? WEFT_BATCH : 0;
    for (int j = 0; axis->name && j < in->options->n_axes; j++)
        if (!strcmp(axis->name, in->options->axes[j].name)) *length = in->options->axes[j].length;
    if (*length) return true;
    kit_fail(in->error, WEFT_SHAPE,
             "%.300s: axis %d of input '%.80s' has no length%s%.80s%s: give it one (axes)",
             in->onnx->file.wire.path, i, port->name, axis->name ? ", only the name '" : "",
             axis->name ? axis->name : "", axis->name ? "'" : "");
    return false;
}

static const weft_onnx_images *images_for(const importer *in, const char *name) {
    for (int i = 0; i < in->options->n_images; i++)
        if (!strcmp(in->options->images[i].name, name)) return &in->options->images[i];
    return NULL;
}

/* The name in Weft of an input or output, which no other one has; an output that is an input keeps its
 * name. NULL: out of memory. */
static const char *name_of(importer *in, const char *name) {
    const char *made = onnx_name(in, name), *taken = onnx_table_find(&in->ports, made);
    if (taken && !strcmp(taken, name)) return made;
    made = onnx_unlike(in, &in->ports, made);
    char *kept = kit_copy(in->arena, name);
    if (kept && onnx_table_add(&in->ports, in->arena, made, kept)) return made;
    kit_no_memory(in->error, name);
    return NULL;
}

/* The input of a graph, with the shape that the file says; of images as the file expects them. */
static weft_value *input_of(importer *in, const onnx_port *port, int side, const char *name,
                            const int64_t *shape) {
    weft_dtype dtype;
    onnx_dtype(port->type, &dtype);
    const weft_onnx_images *images = images_for(in, port->name);
    if (!images) return weft_input(in->graph[side], name, dtype, port->ndim, shape);
    weft_preprocess_options how = images->how;
    how.centered = true;
    weft_value *bytes = weft_input(in->graph[side], name, WEFT_U8, port->ndim, shape);
    return weft_preprocess(bytes, NULL, &how);
}

static bool define_input(importer *in, const onnx_port *port) {
    int64_t shape[WEFT_MAX_NDIM];
    weft_dtype dtype;
    if (!onnx_dtype(port->type, &dtype) || !port->has_shape) {
        kit_fail(in->error, WEFT_TYPE, "%.300s: input '%.80s' is %s", in->onnx->file.wire.path, port->name,
                 port->type == ONNX_UNDEFINED ? "not a tensor"
                 : port->has_shape            ? onnx_type_name(port->type)
                                              : "of any shape");
        return false;
    }
    for (int i = 0; i < port->ndim; i++)
        if (!length_of_axis(in, port, i, &shape[i])) return false;
    if (images_for(in, port->name) && (dtype != WEFT_F32 || port->ndim != 4)) {
        kit_fail(in->error, WEFT_TYPE, "%.300s: input '%.80s' takes no images: it must be float [N, C, H, W]",
                 in->onnx->file.wire.path, port->name);
        return false;
    }
    onnx_value *v = onnx_define(in, in->frame, port->name);
    const char *name = v ? name_of(in, port->name) : NULL;
    for (int side = 0; name && side < SIDES; side++) {
        v->value[side] = input_of(in, port, side, name, shape);
        if (onnx_failed(in, side, NULL)) return false;
        for (int i = 0; i < port->ndim; i++)
            if (shape[i] == WEFT_BATCH) in->batch[side] = weft_dim(v->value[side], i);
    }
    return name;
}

bool onnx_initializers(importer *in, const onnx_graph *g) {
    for (int i = 0; i < g->n_initializers; i++) {
        if (constant_for(in, g->initializers[i].name)) continue;
        onnx_value *v = onnx_define(in, in->frame, g->initializers[i].name);
        if (!v) return false;
        v->initializer = &g->initializers[i];
    }
    return true;
}

/* ---- names in options ---- */

/* Whether axis j of input i is the first of its name. */
static bool is_first_axis(const onnx_graph *g, int i, int j) {
    const char *name = g->inputs[i].axes[j].name;
    for (int k = 0; name && k <= i; k++)
        for (int l = 0; l < (k < i ? g->inputs[k].ndim : j); l++)
            if (g->inputs[k].axes[l].name && !strcmp(g->inputs[k].axes[l].name, name)) return false;
    return name;
}

static bool knows_axis(importer *in, const onnx_graph *g, const char *name) {
    onnx_choice known = {.word = name};
    for (int i = 0; i < g->n_inputs; i++)
        for (int j = 0; j < g->inputs[i].ndim; j++) {
            const char *axis = g->inputs[i].axes[j].name;
            if (axis && !strcmp(axis, name)) return true;
            if (is_first_axis(g, i, j)) onnx_choice_add(&known, axis);
        }
    return onnx_choice_refuse(in, &known, "axis of an input");
}

bool onnx_is_initializer(const onnx_graph *g, const char *name) {
    int i = 0;
    while (i < g->n_initializers && strcmp(g->initializers[i].name, name)) i++;
    return i < g->n_initializers;
}

static bool knows_input(importer *in, const onnx_graph *g, const char *name) {
    onnx_choice known = {.word = name};
    if (port_of(g, name)) return true;
    for (int i = 0; i < g->n_inputs; i++)
        if (!onnx_is_initializer(g, g->inputs[i].name)) onnx_choice_add(&known, g->inputs[i].name);
    return onnx_choice_refuse(in, &known, "input");
}

static bool names_are_known(importer *in, const onnx_graph *g) {
    const weft_onnx_options *o = in->options;
    bool good = true;
    for (int i = 0; i < o->n_axes && good; i++) good = knows_axis(in, g, o->axes[i].name);
    for (int i = 0; i < o->n_constants && good; i++) good = knows_input(in, g, o->constants[i].name);
    for (int i = 0; i < o->n_images && good; i++) good = knows_input(in, g, o->images[i].name);
    return good;
}

bool onnx_inputs(importer *in, const onnx_graph *g) {
    if (!names_are_known(in, g)) return false;
    for (int i = 0; i < in->options->n_constants; i++)
        if (!define_constant(in, &in->options->constants[i])) return false;
    if (!onnx_initializers(in, g)) return false;
    for (int i = 0; i < g->n_inputs; i++) /* older files list initializers among the inputs */
        if (!onnx_find(in->frame, g->inputs[i].name) && !define_input(in, &g->inputs[i])) return false;
    return true;
}

/* ---- outputs ---- */

bool onnx_outputs(importer *in, const onnx_graph *g) {
    for (int i = 0; i < g->n_outputs; i++) {
        const char *name = g->outputs[i].name, *made = name_of(in, name);
        onnx_value *v = made ? onnx_find(in->frame, name) : NULL;
        if (!made) return false;
        if (!v)
            return kit_fail(in->error, WEFT_FILE, "%.300s: nothing makes output '%.80s'",
                            in->onnx->file.wire.path, name),
                   false;
        weft_value *value = onnx_value_in(in, v, 0);
        weft_output(value, made);
        if (onnx_failed(in, 0, NULL)) return false;
    }
    return true;
}
