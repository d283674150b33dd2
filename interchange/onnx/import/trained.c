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

/* "val_14": PyTorch's exporter named what it computed. */
static bool is_numbered(const char *name) {
    return !strncmp(name, "val_", 4) && name[4] && !name[4 + strspn(name + 4, "0123456789")];
}

/* The same, or "onnx::Conv_193" of the older one. */
static bool is_exporters(const char *name) {
    return is_numbered(name) || !strncmp(name, "onnx::", 6);
}

/* The ones and zeros of GroupNorm as PyTorch's exporter writes it: by an InstanceNormalization without
 * weights of the module, which have other names. */
static bool is_of_group_norm(const onnx_node *n, const onnx_tensor *t) {
    return !strcmp(n->op, "InstanceNormalization") && is_numbered(t->name);
}

bool onnx_reads_weight(const onnx_node *n, const onnx_tensor *t) {
    for (int i = 0; no_weights[i]; i++)
        if (!*n->domain && !strcmp(n->op, no_weights[i])) return false;
    return !is_of_group_norm(n, t);
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
        for (int j = 0; j < g->nodes[i].n_in; j++) {
            const onnx_use *use = onnx_use_of(u, g->nodes[i].in[j]);
            onnx_tensor *read = use ? use->initializer : NULL;
            if (!read || !onnx_reads_weight(&g->nodes[i], read)) continue;
            read->is_constant = false;
            if (!read->module && is_exporters(read->name)) read->module = onnx_module_of(in, &g->nodes[i]);
        }
    for (int i = 0; i < g->n_initializers; i++)
        if (!g->initializers[i].is_constant && has_infinities(in, &g->initializers[i]))
            g->initializers[i].is_constant = true;
}
