/* nodes.c - the walk over the nodes of a graph, each built by the row of its operator, or by a function of
 * the file. */
#include "interchange/onnx/import/operators.h"

/* ---- a node with a row ---- */

int64_t onnx_opset_of(const onnx_frame *frame, const char *domain) {
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

/* Whether the row has asked for an operand that is left out. */
static bool lacks_operand(const onnx_call *c) {
    for (int i = 0; i < 64; i++)
        if (c->asked_operands >> i & 1 && !onnx_has(c, i)) return true;
    return false;
}

static bool are_made(onnx_call *c, onnx_value **results) {
    for (int i = 0; i < c->node->n_out; i++) {
        if (!results[i] || results[i]->value[0] || results[i]->known[0]) continue;
        if (!i && lacks_operand(c)) return onnx_refuse(c, "an operand that it needs is left out");
        return onnx_refuse(c, "its result %d, '%.80s', is not made", i, c->node->out[i]);
    }
    return true;
}

static bool build(onnx_call *c, const onnx_operator *op, onnx_value **results) {
    importer *in = c->in;
    in->scope = onnx_scope_of(in, c->node);
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

/* Identity of an initializer: exporters write equal ones as one. It stays one parameter: what was not one,
 * apart.c has taken apart. */
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
    return true;
}

static bool import_node(importer *in, const onnx_node *node) {
    in->node = node;
    if (node == in->head.product) return true;
    if (node == in->head.last) return onnx_head_build(in);
    onnx_call c = {.in = in, .node = node, .opset = onnx_opset_of(in->frame, node->domain)};
    const onnx_function *f = node->is_fused ? NULL : onnx_function_of(&in->onnx->file, node);
    const onnx_operator *op = onnx_operator_find(in, node, c.opset);
    if (op && f && !*node->domain && !*node->overload) f = NULL; /* ONNX's own are what ONNX says */
    if (!take_operands(in, &c)) return false;
    if (is_renaming(&c)) return rename_initializer(&c);
    if (f) return onnx_inline(&c, f);
    if (op) return import_by(&c, op);
    return onnx_refuse(&c, "there is no such operator in Weft's table (docs/onnx.md)%s%s",
                       *node->domain ? ", of domain " : "", node->domain);
}

/* The error of a node whose row gave nothing and said nothing: it had no operand to begin with. */
static void fail_silent(importer *in, const onnx_node *n) {
    bool lacks = n->n_in == 0;
    for (int i = 0; i < n->n_in; i++) lacks = lacks || !*n->in[i];
    kit_fail(in->error, lacks ? WEFT_FILE : WEFT_INTERNAL, "%.300s: node %d '%.80s' (%.60s): %s",
             in->onnx->file.wire.path, n->index, n->name, n->op,
             lacks ? "an operand that it needs is left out" : "it failed without an error");
}

bool onnx_nodes(importer *in, const onnx_graph *graph) {
    for (int i = 0; i < graph->n_nodes; i++)
        if (!import_node(in, &graph->nodes[i]) || in->error->status) {
            if (!in->error->status) fail_silent(in, &graph->nodes[i]);
            return false;
        }
    return true;
}
