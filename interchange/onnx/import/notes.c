/* notes.c - what a user should know of a file that trains: weft_onnx_note(). */
#include "interchange/onnx/import/import.h"

static bool has_prefix(const char *name, const char *with) {
    return !strncmp(name, with, strlen(with));
}

/* Whether PyTorch's exporter folded a BatchNorm into a layer. The newer one says so; the older one gives
 * weight and bias names of its own, "onnx::Conv_193", as nothing else of a convolution's has. */
static bool has_folded_norm(const onnx_node *n) {
    return n->has_norm || (has_prefix(n->op, "Conv") && n->n_in == 3 && has_prefix(n->in[1], "onnx::Conv") &&
                           has_prefix(n->in[2], "onnx::Conv"));
}

static const char *folded_note(importer *in) {
    kit_line l = {0};
    kit_add(&l,
            "BatchNorm is folded into %d layer%s, which train%s without statistics of batches: "
            "torch.onnx.export(..., optimize=False) keeps it, and with dynamo=False "
            "training=TrainingMode.PRESERVE, do_constant_folding=False",
            in->onnx->n_norms, in->onnx->n_norms == 1 ? "" : "s", in->onnx->n_norms == 1 ? "s" : "");
    return kit_copy(in->arena, l.text);
}

static const char *apart_note(importer *in) {
    kit_line l = {0};
    kit_add(&l, "%d equal vector%s that the file stores once with others %s (%s%s)", in->onnx->n_apart,
            in->onnx->n_apart == 1 ? "" : "s",
            in->onnx->n_apart == 1 ? "is a parameter of its own" : "are parameters of their own",
            in->onnx->apart, in->onnx->n_apart > 3 ? ", ..." : "");
    return kit_copy(in->arena, l.text);
}

bool onnx_write_notes(importer *in, const onnx_graph *g) {
    int n = 0;
    in->onnx->n_norms = 0;
    for (int i = 0; i < g->n_nodes; i++) in->onnx->n_norms += has_folded_norm(&g->nodes[i]);
    if (in->onnx->n_norms) in->onnx->notes[n++] = folded_note(in);
    if (in->onnx->n_apart) in->onnx->notes[n++] = apart_note(in);
    if (n && !in->onnx->notes[n - 1]) kit_no_memory(in->error, g->name);
    return !in->error->status;
}
