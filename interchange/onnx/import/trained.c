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

typedef struct names_of_initializers {
    size_t room; /* a power of two */
    onnx_tensor **table;
} names_of_initializers;

static onnx_tensor **slot_of(const names_of_initializers *t, const char *name) {
    size_t i = (size_t)kit_hash(name, strlen(name), 0) & (t->room - 1);
    while (t->table[i] && strcmp(t->table[i]->name, name)) i = (i + 1) & (t->room - 1);
    return &t->table[i];
}

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

/* Whether a node has a body, which may read any name. */
static bool has_body(const onnx_node *n) {
    for (int i = 0; i < n->n_attributes; i++)
        if (n->attributes[i].graph.end) return true;
    return false;
}

/* Masks have infinities, weights have none. Each parameter is sampled once, here. */
static bool has_infinities(importer *in, onnx_tensor *t) {
    weft_error ignored = {0}; /* it comes again where the elements are needed */
    t->sample = onnx_sample_of(in, t, &ignored);
    return !t->sample.is_finite;
}

void onnx_find_parameters(importer *in, const onnx_graph *g) {
    names_of_initializers t = {.room = 64};
    while (t.room < 2 * (size_t)g->n_initializers) t.room *= 2;
    t.table = kit_take(in->arena, t.room, sizeof *t.table);
    if (!t.table) return;
    bool has_bodies = false;
    for (int i = 0; i < g->n_nodes; i++) has_bodies = has_bodies || has_body(&g->nodes[i]);
    for (int i = 0; i < g->n_initializers; i++) {
        *slot_of(&t, g->initializers[i].name) = &g->initializers[i];
        g->initializers[i].is_constant = !has_bodies;
    }
    for (int i = 0; i < g->n_nodes; i++)
        for (int j = 0; j < g->nodes[i].n_in; j++) {
            onnx_tensor *read = *slot_of(&t, g->nodes[i].in[j]);
            if (!read || !onnx_reads_weight(&g->nodes[i], read)) continue;
            read->is_constant = false;
            if (!read->module && is_exporters(read->name)) read->module = onnx_module_of(in, &g->nodes[i]);
        }
    for (int i = 0; i < g->n_initializers; i++)
        if (!g->initializers[i].is_constant && has_infinities(in, &g->initializers[i]))
            g->initializers[i].is_constant = true;
    kit_drop(in->arena, t.table);
}
