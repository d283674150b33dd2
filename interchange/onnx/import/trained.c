/* trained.c - which initializers are parameters. Files do not tell buffers from weights: what only nodes
 * read that no layer has for its weights (the mean and deviation of images, bounds, scales of a Resize),
 * and what has infinities (masks), is a constant. */
#include "interchange/onnx/import/import.h"

/* Operators that read no weights. */
static const char *const no_weights[] = {"Sub",
                                         "Div",
                                         "Where",
                                         "Pow",
                                         "Clip",
                                         "Max",
                                         "Min",
                                         "OneHot",
                                         "Resize",
                                         "Upsample",
                                         "Pad",
                                         "Mod",
                                         "Equal",
                                         "Greater",
                                         "GreaterOrEqual",
                                         "Less",
                                         "LessOrEqual",
                                         "And",
                                         "Or",
                                         "Not",
                                         "Range",
                                         "ConstantOfShape",
                                         "TopK",
                                         "GridSample",
                                         "QuantizeLinear",
                                         "DequantizeLinear",
                                         NULL};

static bool has_no_weights(const onnx_node *n) {
    for (int i = 0; no_weights[i]; i++)
        if (!*n->domain && !strcmp(n->op, no_weights[i])) return true;
    return false;
}

/* Masks have infinities, weights have none. Each parameter is sampled once, here. */
static bool has_infinities(importer *in, onnx_tensor *t) {
    weft_error ignored = {0}; /* it comes again where the elements are needed */
    t->sample = onnx_sample_of(in, t, &ignored);
    return !t->sample.is_finite;
}

void onnx_find_parameters(importer *in, onnx_uses *u, const onnx_graph *g) {
    for (int i = 0; i < g->n_initializers; i++) g->initializers[i].is_constant = !u->has_bodies;
    for (int i = 0; i < g->n_nodes; i++)
        for (int j = 0; j < g->nodes[i].n_in && !has_no_weights(&g->nodes[i]); j++) {
            const onnx_use *read = onnx_use_of(u, g->nodes[i].in[j]);
            if (read && read->initializer) read->initializer->is_constant = false;
        }
    for (int i = 0; i < g->n_initializers; i++)
        if (!g->initializers[i].is_constant && has_infinities(in, &g->initializers[i]))
            g->initializers[i].is_constant = true;
}
