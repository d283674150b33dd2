/* head.c - a new last layer in the place of the file's: options.head. */
#include "interchange/onnx/import/import.h"

static const onnx_node *maker_of(const onnx_graph *g, const char *name) {
    for (int i = 0; i < g->n_nodes; i++)
        for (int j = 0; j < g->nodes[i].n_out; j++)
            if (!strcmp(g->nodes[i].out[j], name)) return &g->nodes[i];
    return NULL;
}

/* x W, with W of the file. */
static bool is_product(const onnx_graph *g, const onnx_node *n, const char *op) {
    return n && !strcmp(n->op, op) && n->n_in > 1 && onnx_is_initializer(g, n->in[1]);
}

/* x W + b: the product, with b of the file. */
static const onnx_node *product_before(const onnx_graph *g, const onnx_node *n) {
    if (strcmp(n->op, "Add") || n->n_in != 2) return NULL;
    for (int i = 0; i < 2; i++) {
        const onnx_node *m = maker_of(g, n->in[i]);
        if (is_product(g, m, "MatMul") && onnx_is_initializer(g, n->in[1 - i])) return m;
    }
    return NULL;
}

/* Whether attributes make it more than x W + b, which the new layer is; W may be transposed. */
static bool is_more(const onnx_node *n) {
    for (int i = 0; i < n->n_attributes; i++) {
        const onnx_attribute *a = &n->attributes[i];
        bool is_scale = !strcmp(a->name, "alpha") || !strcmp(a->name, "beta");
        if ((is_scale && a->real != 1) || (!strcmp(a->name, "transA") && a->integer)) return true;
    }
    return false;
}

/* Linear layers, the last first: a head is near the end. For x W + b there is the sum alone. */
static onnx_choice linear_layers(const onnx_graph *g, const char *word) {
    onnx_choice known = {.word = word};
    const onnx_node *within = NULL;
    for (int i = g->n_nodes; i-- > 0;) {
        const onnx_node *n = &g->nodes[i], *product = product_before(g, n);
        bool is_layer = product || is_product(g, n, "Gemm") || is_product(g, n, "MatMul");
        if (is_layer && n != within && n->n_out) onnx_choice_add(&known, n->out[0]);
        if (product) within = product;
    }
    return known;
}

bool onnx_head_find(importer *in) {
    const weft_onnx_options *o = in->options;
    const onnx_graph *g = &in->onnx->file.graph;
    const char *path = in->onnx->file.wire.path;
    if (!o->head && !o->head_length) return true;
    if (!o->head || o->head_length < 1)
        return kit_fail(in->error, WEFT_ARGUMENT, "a head needs a name and a length of at least 1"), false;
    const onnx_node *last = maker_of(g, o->head);
    if (!last) {
        onnx_choice known = linear_layers(g, o->head);
        return onnx_choice_refuse(in, &known, "linear layer that makes");
    }
    const onnx_node *before = product_before(g, last);
    const onnx_node *layer = before ? before : last;
    if (!before && !is_product(g, last, "Gemm") && !is_product(g, last, "MatMul")) {
        onnx_choice known = linear_layers(g, o->head);
        kit_fail(in->error, WEFT_UNSUPPORTED,
                 "%.300s: '%.80s' is made by %.60s: a new head takes the place of a linear layer, "
                 "Gemm or MatMul with weights of the file, whose result it is named by%s%.400s",
                 path, o->head, last->op, known.n ? ", as " : "", known.all.text);
        return false;
    }
    if (is_more(layer)) {
        kit_fail(
            in->error, WEFT_UNSUPPORTED,
            "%.300s: '%.80s' is made by a Gemm whose transA, alpha or beta is not the default: a new head "
            "takes the place of x W + b alone",
            path, o->head);
        return false;
    }
    in->head = (onnx_head){last, before, layer->in[0], layer->in[1]};
    return true;
}

/* "fc/weight" -> "fc"; a weight without a folder names the layer itself. */
static const char *layer_of(importer *in, const onnx_value *weight) {
    const char *path = onnx_path_for(in, weight->initializer), *end = strrchr(path, '/');
    char *name = kit_copy(in->arena, path);
    if (name && end) name[end - path] = 0;
    return name ? name : path;
}

bool onnx_head_build(importer *in) {
    onnx_value *x = onnx_find(in->frame, in->head.x), *weight = onnx_find(in->frame, in->head.weight);
    if (!x || !weight || !weight->initializer)
        return kit_fail(in->error, WEFT_FILE, "%.300s: the layer of '%.80s' has no operands",
                        in->onnx->file.wire.path, in->options->head),
               false;
    onnx_value *made = onnx_define(in, in->frame, in->options->head);
    const char *path = made ? layer_of(in, weight) : NULL, *slash = path ? strrchr(path, '/') : NULL;
    char *folder = path ? kit_copy(in->arena, path) : NULL;
    if (!folder && !in->error->status) kit_no_memory(in->error, in->options->head);
    if (!folder) return false;
    folder[slash ? slash - path : 0] = 0;
    for (int side = 0; side < SIDES; side++) {
        weft_value *of = onnx_value_in(in, x, side);
        onnx_enter(in, folder, side);
        made->value[side] = weft_linear(of, in->options->head_length, slash ? slash + 1 : path, NULL);
        onnx_leave(in, folder, side);
        if (onnx_failed(in, side, NULL)) return false;
    }
    return true;
}
