/* bodies.c - graphs within a graph: the body of a function in the place of its call, and the branch of an If
 * whose condition is known. */
#include "interchange/onnx/import.h"

/* ---- functions ---- */

const onnx_function *onnx_function_of(const onnx_file *file, const onnx_node *node) {
    for (int i = 0; i < file->n_functions; i++) {
        const onnx_function *f = &file->functions[i];
        if (!strcmp(f->name, node->op) && !strcmp(f->domain, node->domain)) return f;
    }
    return NULL;
}

/* Gives what a value is to another name. */
static bool alias(importer *in, onnx_frame *frame, const char *name, const onnx_value *value) {
    onnx_value *v = onnx_define(in, frame, name);
    if (!v) return false;
    onnx_value *next = v->next;
    *v = *value;
    v->next = next;
    v->name = name;
    return true;
}

bool onnx_inline(onnx_call *c, const onnx_function *f) {
    importer *in = c->in;
    onnx_frame *outside = in->frame, *frame = kit_take(in->arena, 1, sizeof *frame);
    if (!frame) return kit_no_memory(in->error, f->name), false;
    if (in->depth == ONNX_DEEPEST)
        return onnx_refuse(c, "graphs within graphs are more than %d deep", ONNX_DEEPEST);
    *frame = (onnx_frame){
        .call = c->node, .call_frame = outside, .function = f, .n_opsets = f->n_opsets, .opsets = f->opsets};
    for (int i = 0; i < f->body.n_inputs && i < c->node->n_in; i++)
        if (c->operands[i] && !alias(in, frame, f->body.inputs[i].name, c->operands[i])) return false;
    in->frame = frame;
    in->depth++;
    bool is_built = onnx_nodes(in, &f->body);
    in->depth--;
    in->frame = outside;
    for (int i = 0; is_built && i < c->node->n_out; i++) {
        onnx_value *v = i < f->body.n_outputs ? onnx_find(frame, f->body.outputs[i].name) : NULL;
        if (!*c->node->out[i]) continue;
        if (!v) return onnx_refuse(c, "its function makes no result %d", i);
        if (!alias(in, outside, c->node->out[i], v)) return false;
    }
    return is_built;
}

/* ---- If: a branch sees the names around it ---- */

/* The condition, where it is the same for every batch; false after an error. */
static bool condition_of(onnx_call *c, bool *is_true) {
    int n;
    for (c->side = 0; c->side < SIDES; c->side++) {
        const int64_t *number = onnx_integers(c, 0, &n);
        if (!number || n != 1) return onnx_refuse(c, "its condition must be one value that is known here");
        if (c->side && *is_true != (*number != 0))
            return onnx_refuse(c, "its condition depends on the batch");
        *is_true = *number != 0;
    }
    c->side = 0;
    return true;
}

bool onnx_if(onnx_call *c) {
    importer *in = c->in;
    onnx_graph branch;
    bool is_true = false;
    if (!condition_of(c, &is_true)) return false;
    const onnx_attribute *a = onnx_attribute_of(c, is_true ? "then_branch" : "else_branch");
    onnx_frame *outside = in->frame, *frame = kit_take(in->arena, 1, sizeof *frame);
    if (!frame) return kit_no_memory(in->error, "If"), false;
    if (!a) return onnx_refuse(c, "it has no branch");
    if (in->depth == ONNX_DEEPEST)
        return onnx_refuse(c, "graphs within graphs are more than %d deep", ONNX_DEEPEST);
    if (onnx_graph_read(&in->onnx->file, a->graph, &branch, in->error)) return false;
    *frame = (onnx_frame){.outer = outside,
                          .call = outside->call,
                          .call_frame = outside->call_frame,
                          .function = outside->function};
    in->frame = frame;
    in->depth++;
    bool is_built = onnx_initializers(in, &branch) && onnx_nodes(in, &branch);
    in->depth--;
    in->frame = outside;
    for (int i = 0; is_built && i < c->node->n_out; i++) {
        onnx_value *v = i < branch.n_outputs ? onnx_find(frame, branch.outputs[i].name) : NULL;
        if (!*c->node->out[i]) continue;
        if (!v) return onnx_refuse(c, "its branch makes no result %d", i);
        if (!alias(in, outside, c->node->out[i], v)) return false;
    }
    return is_built;
}
