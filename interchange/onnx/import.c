/* import.c - weft_onnx: a file that is open, and the graphs that are built from it. */
#include "interchange/onnx/tables.h"

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

/* ---- a graph ---- */

static bool import_graph(importer *in) {
    onnx_graph *g = &in->onnx->file.graph;
    if (!in->onnx->is_fused) onnx_fuse(in, g);
    in->onnx->is_fused = true;
    return onnx_head_find(in) && onnx_inputs(in, g) && onnx_nodes(in, g) && onnx_outputs(in, g);
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
    onnx_frame *frame =
        onnx_frame_new(&onnx->arena, ONNX_PLACES,
                       (onnx_frame){.n_opsets = onnx->file.n_opsets, .opsets = onnx->file.opsets});
    weft_model *shadow = weft_model_new_in("shadow", &onnx->arena.env);
    importer in = {.onnx = onnx,
                   .arena = &onnx->arena,
                   .options = options,
                   .operators = onnx_operators,
                   .frame = frame,
                   .error = error,
                   .scope = ""};
    if (!frame || !shadow)
        kit_no_memory(error, name);
    else {
        weft_model_set_batch(shadow, 2 * weft_model_batch(model));
        in.graph[0] = weft_graph_new(model, name, mode);
        in.graph[1] = weft_graph_new(shadow, name, mode);
        if (!onnx_failed(&in, 0, NULL)) import_graph(&in);
    }
    weft_model_free(shadow);
    onnx->last = error->status ? NULL : frame;
    return error->status ? NULL : in.graph[0];
}
