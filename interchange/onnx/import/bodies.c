/* bodies.c - graphs within a graph: the body of a function in the place of its call, and the graphs that
 * nodes have as attributes. They have nodes, so this file and nodes.c call each other. */
#include "interchange/onnx/import/import.h"

/* ---- functions ---- */

const onnx_function *onnx_function_of(const onnx_file *file, const onnx_node *node) {
    for (int i = 0; i < file->n_functions; i++) {
        const onnx_function *f = &file->functions[i];
        if (!strcmp(f->name, node->op) && !strcmp(f->domain, node->domain) &&
            !strcmp(f->overload, node->overload))
            return f;
    }
    return NULL;
}

/* Gives what a value is to another name. */
static bool alias(importer *in, onnx_frame *frame, const char *name, const onnx_value *value) {
    onnx_value *v = onnx_define(in, frame, name);
    if (!v) return false;
    *v = *value;
    v->name = name;
    return true;
}

/* Whether one more body may be built: files may be hostile. */
static bool may_build(onnx_call *c) {
    if (c->in->depth == ONNX_DEEPEST)
        return onnx_refuse(c, "graphs within graphs are more than %d deep", ONNX_DEEPEST);
    if (c->in->bodies++ == ONNX_BODIES)
        return onnx_refuse(c, "graphs within graphs are built more than %d times", ONNX_BODIES);
    return true;
}

bool onnx_inline(onnx_call *c, const onnx_function *f) {
    importer *in = c->in;
    if (!may_build(c)) return false;
    onnx_frame *outside = in->frame, *frame = onnx_frame_new(in->arena, (onnx_frame){.call = c->node,
                                                                                     .call_frame = outside,
                                                                                     .function = f,
                                                                                     .n_opsets = f->n_opsets,
                                                                                     .opsets = f->opsets});
    if (!frame) return kit_no_memory(in->error, f->name), false;
    for (int i = 0; i < f->body.n_inputs && i < c->node->n_in; i++)
        if (c->operands[i] && !alias(in, frame, f->body.inputs[i].name, c->operands[i])) return false;
    in->frame = frame;
    in->depth++;
    bool is_built = onnx_nodes(in, &f->body);
    in->depth--;
    in->frame = outside;
    in->node = c->node;
    for (int i = 0; is_built && i < c->node->n_out; i++) {
        onnx_value *v = i < f->body.n_outputs ? onnx_find(frame, f->body.outputs[i].name) : NULL;
        if (!*c->node->out[i]) continue;
        if (!v) return onnx_refuse(c, "its function makes no result %d", i);
        if (!alias(in, outside, c->node->out[i], v)) return false;
    }
    return is_built;
}

/* ---- the graphs that nodes have as attributes ---- */

const onnx_graph *onnx_body_of(onnx_call *c, const char *attribute) {
    const onnx_attribute *a = onnx_attribute_of(c, attribute);
    if (!a || !a->body) return onnx_refuse(c, "it has no %s", attribute), NULL;
    if (!a->body->name && onnx_graph_read(&c->in->onnx->file, a->graph, a->body, c->in->error)) return NULL;
    return a->body;
}

/* Values for the inputs, then the nodes. */
static bool build_body(importer *in, const onnx_graph *body, onnx_value *const *inputs) {
    for (int i = 0; i < body->n_inputs; i++)
        if (!alias(in, in->frame, body->inputs[i].name, inputs[i])) return false;
    return onnx_initializers(in, body) && onnx_nodes(in, body);
}

bool onnx_body(onnx_call *c, const onnx_graph *body, onnx_value *const *inputs, onnx_value **outputs) {
    importer *in = c->in;
    if (!may_build(c)) return false;
    onnx_frame *outside = in->frame,
               *frame = onnx_frame_new(in->arena, (onnx_frame){.outer = outside,
                                                               .call = outside->call,
                                                               .call_frame = outside->call_frame,
                                                               .function = outside->function});
    if (!frame) return kit_no_memory(in->error, c->node->op), false;
    in->frame = frame;
    in->depth++;
    bool is_built = build_body(in, body, inputs);
    in->depth--;
    in->frame = outside;
    in->node = c->node;
    for (int i = 0; is_built && i < body->n_outputs; i++) {
        outputs[i] = onnx_find(frame, body->outputs[i].name);
        if (!outputs[i]) return onnx_refuse(c, "its graph makes no result %d", i);
    }
    return is_built;
}

bool onnx_result_is(onnx_call *c, int i, const onnx_value *value) {
    return !onnx_wants(c, i) || alias(c->in, c->in->frame, c->node->out[i], value);
}
