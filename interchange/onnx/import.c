/* import.c - the importer: inputs, nodes in their order, outputs. See import.h. */
#include "interchange/onnx/operators.h"

/* ---- files ---- */

weft_onnx *weft_onnx_open(const char *path, const weft_env *env, weft_error *error) {
    weft_error own;
    error = kit_error(error, &own);
    weft_onnx *onnx = kit_object(env, sizeof *onnx);
    if (!onnx) return kit_no_memory(error, path), NULL;
    if (onnx_file_open(&onnx->file, path, &onnx->arena, error)) {
        kit_free(onnx);
        return NULL;
    }
    return onnx;
}

void weft_onnx_close(weft_onnx *onnx) {
    if (!onnx) return;
    onnx_file_close(&onnx->file);
    kit_free(onnx);
}

weft_value *weft_onnx_value(const weft_onnx *onnx, const char *name) {
    onnx_value *v = onnx && name && onnx->last ? onnx_find(onnx->last, name) : NULL;
    return v ? v->value[0] : NULL;
}

/* ---- scopes: a node's name without its last level, as exporters of PyTorch write it ---- */

static void each_level(importer *in, const char *path, int side, bool is_entered) {
    char level[201];
    while (*path) {
        size_t n = strcspn(path, "/");
        if (n && n < sizeof level) {
            memcpy(level, path, n);
            level[n] = 0;
            if (is_entered)
                weft_graph_scope_enter(in->graph[side], level);
            else
                weft_scope_leave(in->graph[side]);
        }
        path += n + (path[n] == '/');
    }
}

void onnx_enter(importer *in, const char *path, int side) {
    each_level(in, path, side, true);
}

void onnx_leave(importer *in, const char *path, int side) {
    each_level(in, path, side, false);
}

static const char *scope_of(importer *in, const onnx_node *node) {
    const char *end = strrchr(node->name, '/');
    char *scope = end ? kit_copy(in->arena, node->name) : NULL;
    if (!scope) return "";
    scope[end - node->name] = 0;
    for (char *c = scope; *c; c++)
        if (*c != '/' && *onnx_name(in, (char[]){*c, 0}) != *c) *c = '_';
    return scope;
}

/* ---- values of graphs ---- */

/* Whether the model has recorded an error, which becomes the import's. */
bool onnx_failed(importer *in, int side, const onnx_call *c) {
    weft_error error = {0};
    if (weft_model_take_error(weft_graph_model(in->graph[side]), &error)) {
        if (c)
            onnx_refuse((onnx_call *)c, "%s%s", side ? "with another batch: " : "", error.text);
        else
            kit_fail(in->error, error.status, "%.300s: %s", in->onnx->file.wire.path, error.text);
    }
    return in->error->status;
}

/* A path that no other initializer of the file has: names may differ by what a path cannot have. */
const char *onnx_path_for(importer *in, const onnx_tensor *t) {
    const char *path = onnx_path(in, t->name);
    for (int i = 0; i < in->onnx->n_variables; i++) {
        const onnx_variable *v = &in->onnx->variables[i];
        if (v->initializer == t) return v->path;
        if (strcmp(v->path, path)) continue;
        size_t n = strlen(path) + 12;
        char *other = kit_take(in->arena, n, 1);
        if (other) snprintf(other, n, "%s_%d", path, i);
        return other ? other : path;
    }
    return path;
}

static void note_variable(importer *in, const char *path, const onnx_tensor *t, bool is_state) {
    weft_onnx *onnx = in->onnx;
    for (int i = 0; i < onnx->n_variables; i++)
        if (onnx->variables[i].initializer == t) return;
    onnx_variable *grown =
        kit_grow(&onnx->arena, onnx->variables, (size_t)onnx->n_variables + 1, sizeof *grown);
    if (!grown) {
        kit_no_memory(in->error, path);
        return;
    }
    onnx->variables = grown;
    onnx->variables[onnx->n_variables++] = (onnx_variable){path, t, is_state};
}

/* Made at the top level, whatever scope is open: its name says where it belongs. */
static weft_value *variable(importer *in, const onnx_tensor *t, int side, bool is_state) {
    const char *path = onnx_path_for(in, t), *name = strrchr(path, '/');
    char *folder = kit_copy(in->arena, path);
    if (!folder) return kit_no_memory(in->error, path), NULL;
    folder[name ? name - path : 0] = 0;
    name = name ? name + 1 : path;
    weft_init init = onnx_initial(in, t, is_state);
    const char *scope = in->is_entered[side] ? in->scope : "";
    onnx_leave(in, scope, side);
    onnx_enter(in, folder, side);
    weft_value *v = is_state ? weft_state_in(in->graph[side], name, WEFT_F32, t->ndim, t->shape, init)
                             : weft_parameter_in(in->graph[side], name, t->ndim, t->shape, init);
    onnx_leave(in, folder, side);
    onnx_enter(in, scope, side);
    note_variable(in, path, t, is_state);
    return v;
}

/* The tensor of a renamed initializer under the new name: the same one in all graphs. */
static const onnx_tensor *tensor_renamed(importer *in, const onnx_value *v) {
    for (int i = 0; i < in->onnx->n_variables; i++)
        if (!strcmp(in->onnx->variables[i].initializer->name, v->renamed))
            return in->onnx->variables[i].initializer;
    onnx_tensor *t = kit_take(in->arena, 1, sizeof *t);
    if (!t) return kit_no_memory(in->error, v->renamed), v->initializer;
    *t = *v->initializer;
    t->name = v->renamed;
    return t;
}

static bool is_state(const importer *in, const onnx_tensor *t) {
    for (int i = 0; i < in->onnx->n_variables; i++)
        if (in->onnx->variables[i].initializer == t) return in->onnx->variables[i].is_state;
    return false;
}

static weft_value *constant_of(importer *in, onnx_value *v, int side) {
    const onnx_known *k = onnx_known_of(in, v, side);
    if (!k) return NULL;
    if (onnx_known_equal(v->known[0], v->known[1]))
        return weft_constant_tensor(in->graph[side], k->type.dtype, k->type.ndim, k->type.shape, k->data);
    weft_value *made = onnx_following(in, v, side);
    if (!made && !in->error->status)
        kit_fail(in->error, WEFT_UNSUPPORTED,
                 "%.300s: '%.80s' depends on the batch in a way that no graph has: import with the batch as "
                 "a number (axes)",
                 in->onnx->file.wire.path, v->name);
    return made;
}

weft_value *onnx_value_in(importer *in, onnx_value *v, int side) {
    weft_dtype dtype;
    if (v->value[side]) return v->value[side];
    if (!onnx_is_parameter(v)) return v->value[side] = constant_of(in, v, side);
    if (v->renamed && is_state(in, v->initializer)) v->initializer = tensor_renamed(in, v);
    onnx_dtype(v->initializer->type, &dtype);
    weft_value *made = variable(in, v->initializer, side, false);
    return v->value[side] = dtype == WEFT_F32 ? made : weft_cast(made, dtype);
}

weft_value *onnx_state(onnx_call *c, int i) {
    c->asked_operands |= (uint64_t)1 << i;
    onnx_value *v = onnx_has(c, i) ? c->operands[i] : NULL;
    if (!v || !v->initializer || v->initializer->type != ONNX_FLOAT || v->known[0] || c->scratch_graph)
        return NULL;
    if (v->renamed) v->initializer = tensor_renamed(c->in, v);
    if (!v->value[c->side]) v->value[c->side] = variable(c->in, v->initializer, c->side, true);
    return v->value[c->side];
}

/* ---- nodes ---- */

static int64_t opset_of(const onnx_frame *frame, const char *domain) {
    while (!frame->opsets && frame->outer) frame = frame->outer;
    for (int i = 0; i < frame->n_opsets; i++)
        if (!strcmp(frame->opsets[i].domain, domain)) return frame->opsets[i].version;
    return 0;
}

static bool take_operands(importer *in, onnx_call *c) {
    const onnx_node *node = c->node;
    c->operands = kit_take(in->arena, (size_t)node->n_in + 1, sizeof *c->operands);
    c->scratch = kit_take(in->arena, (size_t)node->n_in + 1, sizeof *c->scratch);
    c->results = kit_take(in->arena, (size_t)node->n_out + 1, sizeof *c->results);
    if (!c->operands || !c->scratch || !c->results) return kit_no_memory(in->error, node->op), false;
    for (int i = 0; i < node->n_in; i++) {
        if (!*node->in[i]) continue;
        c->operands[i] = onnx_find(in->frame, node->in[i]);
        if (!c->operands[i])
            return onnx_refuse(c, "it reads '%.80s', which nothing before it makes", node->in[i]);
    }
    return true;
}

/* Values for the names of the results. */
static bool make_results(onnx_call *c, onnx_value **results) {
    for (int i = 0; i < c->node->n_out; i++)
        if (*c->node->out[i] && !(results[i] = onnx_define(c->in, c->in->frame, c->node->out[i])))
            return false;
    return true;
}

/* Operands, numbers, texts and graphs that the row did not ask for are an error. */
static bool is_understood(onnx_call *c, const onnx_operator *op) {
    int n = op->unary ? 1 : op->binary ? 2 : 0;
    for (int i = 0; i < n; i++) c->asked_operands |= (uint64_t)1 << i;
    for (int i = 0; i < c->node->n_in; i++)
        if (c->operands[i] && i < 64 && !(c->asked_operands >> i & 1))
            return onnx_refuse(c, "its operand %d, '%.80s', has no meaning here", i, c->node->in[i]);
    if (c->opset < 6)
        onnx_attribute_of(c, "consumed_inputs"); /* it tells runtimes of that time which memory to reuse */
    for (int i = 0; i < c->node->n_attributes; i++)
        if (i < 64 && !(c->asked_attributes >> i & 1))
            return onnx_refuse(c, "its attribute '%.60s' has no meaning here", c->node->attributes[i].name);
    return true;
}

static bool are_made(onnx_call *c, onnx_value **results) {
    for (int i = 0; i < c->node->n_out; i++)
        if (results[i] && !results[i]->value[0] && !results[i]->known[0])
            return onnx_refuse(c, "its result %d, '%.80s', is not made", i, c->node->out[i]);
    return true;
}

static bool build(onnx_call *c, const onnx_operator *op, onnx_value **results) {
    importer *in = c->in;
    in->scope = scope_of(in, c->node);
    for (c->side = 0; c->side < SIDES && !in->error->status; c->side++) {
        memset(c->results, 0, (size_t)c->node->n_out * sizeof *c->results);
        onnx_enter(in, in->scope, c->side);
        in->is_entered[c->side] = true;
        weft_value *first = onnx_build_row(c, op);
        in->is_entered[c->side] = false;
        onnx_leave(in, in->scope, c->side);
        onnx_result(c, 0, first);
        if (onnx_failed(in, c->side, c)) return false;
        for (int i = 0; i < c->node->n_out; i++)
            if (results[i]) results[i]->value[c->side] = c->results[i];
    }
    in->scope = "";
    return !in->error->status;
}

static bool know(onnx_call *c, const onnx_operator *op, onnx_value **results) {
    for (c->side = 0; c->side < SIDES; c->side++) {
        const onnx_known *k = op->know(c);
        if (!k) return false;
        if (results[0]) results[0]->known[c->side] = k;
    }
    if (results[0] && onnx_known_equal(results[0]->known[0], results[0]->known[1]))
        results[0]->known[1] = results[0]->known[0];
    return true;
}

/* Whether a result was not computed: its shape follows the batch, or it is large. */
static bool is_open(const onnx_call *c, onnx_value **results) {
    for (int i = 0; i < c->node->n_out; i++)
        if (results[i] && !results[i]->known[0]) return true;
    return false;
}

/* Whether all operands whose elements it reads are known and none is a parameter. */
static bool is_known(const onnx_call *c, const onnx_operator *op) {
    if (op->is_random) return false;
    int n = op->is_like && c->node->n_in ? 1 : c->node->n_in;
    for (int i = 0; i < n; i++) {
        const onnx_value *v = c->operands[i];
        if (v && (onnx_is_parameter(v) || (!v->known[0] && !v->initializer))) return false;
    }
    return true;
}

static bool import_by(onnx_call *c, const onnx_operator *op) {
    if (op->compose) return op->compose(c) && !c->in->error->status && is_understood(c, op);
    onnx_value **results = kit_take(c->in->arena, (size_t)c->node->n_out + 1, sizeof *results);
    if (!results) return kit_no_memory(c->in->error, c->node->op), false;
    if (!make_results(c, results)) return false;
    bool folds = !op->know && is_known(c, op);
    bool is_made = op->know ? know(c, op, results)
                   : folds  ? onnx_fold(c, op, results)
                            : build(c, op, results);
    if (is_made && folds && is_open(c, results)) is_made = build(c, op, results);
    return is_made && !c->in->error->status && is_understood(c, op) && are_made(c, results);
}

/* ---- any node ---- */

/* Identity of an initializer: exporters write equal ones as one. It stays one parameter, but where it is
 * a state it is one of its own: norms of equal running statistics do not share them. */
static bool is_renaming(const onnx_call *c) {
    const onnx_node *node = c->node;
    bool is_identity = !strcmp(node->op, "Identity") && !*node->domain && node->n_in == 1 && node->n_out == 1;
    return is_identity && !node->n_attributes && *node->out[0] && c->operands[0] &&
           onnx_is_parameter(c->operands[0]);
}

static bool rename_initializer(onnx_call *c) {
    onnx_value *v = onnx_define(c->in, c->in->frame, c->node->out[0]);
    if (!v) return false;
    v->initializer = c->operands[0]->initializer;
    v->renamed = v->name;
    return true;
}

static bool import_node(importer *in, const onnx_node *node) {
    if (node == in->head.product) return true;
    if (node == in->head.last) return onnx_head_build(in);
    onnx_call c = {.in = in, .node = node, .opset = opset_of(in->frame, node->domain)};
    const onnx_operator *op = onnx_operator_find(node->domain, node->op, c.opset);
    const onnx_function *f = op ? NULL : onnx_function_of(&in->onnx->file, node);
    if (!take_operands(in, &c)) return false;
    if (is_renaming(&c)) return rename_initializer(&c);
    if (op) return import_by(&c, op);
    if (f) return onnx_inline(&c, f);
    return onnx_refuse(&c, "there is no such operator in Weft's table (docs/onnx.md)%s%s",
                       *node->domain ? ", of domain " : "", node->domain);
}

bool onnx_nodes(importer *in, const onnx_graph *graph) {
    for (int i = 0; i < graph->n_nodes; i++)
        if (!import_node(in, &graph->nodes[i]) || in->error->status) {
            if (!in->error->status)
                kit_fail(in->error, WEFT_INTERNAL, "%.300s: node %d (%.60s) failed without an error",
                         in->onnx->file.wire.path, i, graph->nodes[i].op);
            return false;
        }
    return true;
}

/* ---- inputs ---- */

static const weft_onnx_constant *constant_for(const importer *in, const char *name) {
    for (int i = 0; i < in->options->n_constants; i++)
        if (!strcmp(in->options->constants[i].name, name)) return &in->options->constants[i];
    return NULL;
}

/* Whether a constant is of the type that the file has for the input. */
static bool is_of_type(importer *in, const weft_onnx_constant *given) {
    const onnx_graph *g = &in->onnx->file.graph;
    for (int i = 0; i < g->n_inputs; i++) {
        weft_dtype dtype;
        const onnx_port *port = &g->inputs[i];
        if (strcmp(port->name, given->name) || !onnx_dtype(port->type, &dtype) || dtype == given->dtype)
            continue;
        kit_fail(in->error, WEFT_TYPE, "%.300s: the constant '%.80s' is %s; the input is %s",
                 in->onnx->file.wire.path, given->name, weft_dtype_name(given->dtype),
                 weft_dtype_name(dtype));
        return false;
    }
    return true;
}

static bool define_constant(importer *in, const weft_onnx_constant *given) {
    if (!is_of_type(in, given)) return false;
    tensor type = tensor_of(given->dtype, given->ndim, given->shape);
    onnx_value *v = onnx_define(in, in->frame, given->name);
    onnx_known *k = v ? onnx_known_new(in, &type) : NULL;
    if (!k) return false;
    memcpy(k->data, given->data, tensor_bytes(&type));
    v->known[0] = v->known[1] = k;
    return true;
}

/* Whether an axis is the batch: the first of an input that has no length, and others of its name. */
static bool is_batch(const onnx_graph *g, const onnx_axis *axis, int place) {
    if (axis->length > 0) return false;
    for (int i = 0; i < g->n_inputs; i++) {
        const onnx_axis *first = g->inputs[i].ndim ? g->inputs[i].axes : NULL;
        if (axis->name && first && first->length <= 0 && first->name && !strcmp(first->name, axis->name))
            return true;
    }
    return place == 0;
}

static bool length_of_axis(importer *in, const onnx_port *port, int i, int64_t *length) {
    const onnx_axis *axis = &port->axes[i];
    *length = axis->length > 0 ? axis->length : is_batch(&in->onnx->file.graph, axis, i) ? WEFT_BATCH : 0;
    for (int j = 0; axis->name && j < in->options->n_axes; j++)
        if (!strcmp(axis->name, in->options->axes[j].name)) *length = in->options->axes[j].length;
    if (*length) return true;
    kit_fail(in->error, WEFT_SHAPE,
             "%.300s: axis %d of input '%.80s' has no length%s%.80s%s: give it one (axes)",
             in->onnx->file.wire.path, i, port->name, axis->name ? ", only the name '" : "",
             axis->name ? axis->name : "", axis->name ? "'" : "");
    return false;
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
    onnx_value *v = onnx_define(in, in->frame, port->name);
    for (int side = 0; v && side < SIDES; side++) {
        v->value[side] = weft_input(in->graph[side], onnx_name(in, port->name), dtype, port->ndim, shape);
        if (onnx_failed(in, side, NULL)) return false;
        for (int i = 0; i < port->ndim; i++)
            if (shape[i] == WEFT_BATCH) in->batch[side] = weft_dim(v->value[side], i);
    }
    return v;
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

static bool define_inputs(importer *in, const onnx_graph *g) {
    for (int i = 0; i < in->options->n_constants; i++)
        if (!define_constant(in, &in->options->constants[i])) return false;
    if (!onnx_initializers(in, g)) return false;
    for (int i = 0; i < g->n_inputs; i++) /* older files list initializers among the inputs */
        if (!onnx_find(in->frame, g->inputs[i].name) && !define_input(in, &g->inputs[i])) return false;
    return true;
}

static bool define_outputs(importer *in, const onnx_graph *g) {
    for (int i = 0; i < g->n_outputs; i++) {
        const char *name = g->outputs[i].name;
        onnx_value *v = onnx_find(in->frame, name);
        if (!v)
            return kit_fail(in->error, WEFT_FILE, "%.300s: nothing makes output '%.80s'",
                            in->onnx->file.wire.path, name),
                   false;
        weft_value *value = onnx_value_in(in, v, 0);
        weft_output(value, onnx_name(in, name));
        if (onnx_failed(in, 0, NULL)) return false;
    }
    return true;
}

/* ---- a graph ---- */

static bool import_graph(importer *in) {
    onnx_graph *g = &in->onnx->file.graph;
    if (!in->onnx->is_fused) onnx_fuse(in, g);
    in->onnx->is_fused = true;
    return onnx_head_find(in) && define_inputs(in, g) && onnx_nodes(in, g) && define_outputs(in, g);
}

weft_graph *weft_onnx_graph(weft_onnx *onnx, weft_model *model, const char *name, weft_mode mode,
                            const weft_onnx_options *options, weft_error *error) {
    static const weft_onnx_options defaults = {0};
    weft_error own;
    error = kit_error(error, &own);
    if (!options) options = &defaults;
    for (int i = 0; i < options->n_axes; i++)
        if (!options->axes[i].name || (options->axes[i].length < 1 && options->axes[i].length != WEFT_BATCH))
            return kit_fail(error, WEFT_ARGUMENT,
                            "axis '%.80s': a length of at least 1, or WEFT_BATCH, is needed",
                            options->axes[i].name ? options->axes[i].name : ""),
                   NULL;
    if (weft_reserved_check(options->reserved, sizeof options->reserved, "weft_onnx_options", error))
        return NULL;
    onnx_frame *frame = kit_take(&onnx->arena, 1, sizeof *frame);
    weft_model *shadow = weft_model_new_in("shadow", &onnx->arena.env);
    importer in = {
        .onnx = onnx, .arena = &onnx->arena, .options = options, .frame = frame, .error = error, .scope = ""};
    if (!frame || !shadow)
        kit_no_memory(error, name);
    else {
        *frame = (onnx_frame){.n_opsets = onnx->file.n_opsets, .opsets = onnx->file.opsets};
        weft_model_set_batch(shadow, 2 * weft_model_batch(model));
        in.graph[0] = weft_graph_new(model, name, mode);
        in.graph[1] = weft_graph_new(shadow, name, mode);
        if (!onnx_failed(&in, 0, NULL)) import_graph(&in);
    }
    weft_model_free(shadow);
    onnx->last = error->status ? NULL : frame;
    return error->status ? NULL : in.graph[0];
}
