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

const char *weft_onnx_note(const weft_onnx *onnx, int index) {
    return onnx && index >= 0 && index < ONNX_NOTES ? onnx->notes[index] : NULL;
}

/* ---- a graph ---- */

/* Operators of later opsets may mean something else under the same name. */
enum { NEWEST_OPSET = 28 };

static bool are_opsets_known(importer *in, int n, const onnx_opset *opsets) {
    for (int i = 0; i < n; i++)
        if (!*opsets[i].domain && opsets[i].version > NEWEST_OPSET)
            return kit_fail(in->error, WEFT_UNSUPPORTED,
                            "%.300s: it is of opset %jd; %d is the newest that is known here: export it with "
                            "an older one",
                            in->onnx->file.wire.path, opsets[i].version, NEWEST_OPSET),
                   false;
    return true;
}

static bool is_file_known(importer *in) {
    const onnx_file *file = &in->onnx->file;
    bool good = are_opsets_known(in, file->n_opsets, file->opsets);
    for (int i = 0; i < file->n_functions && good; i++)
        good = are_opsets_known(in, file->functions[i].n_opsets, file->functions[i].opsets);
    return good;
}

/* Once for each file: what its names are. False: out of memory. */
static bool make_ready(importer *in, onnx_graph *g) {
    onnx_uses u;
    if (in->onnx->is_ready) return true;
    if (!onnx_take_apart(in, g) || !onnx_write_notes(in, g)) return false;
    if (!onnx_uses_of(&u, in->arena, g)) return kit_no_memory(in->error, in->onnx->file.wire.path), false;
    onnx_leave_out_unread(&u, g);
    onnx_find_parameters(in, &u, g);
    onnx_fuse(in, &u, g);
    return in->onnx->is_ready = true;
}

static bool import_graph(importer *in) {
    onnx_graph *g = &in->onnx->file.graph;
    if (!is_file_known(in) || !make_ready(in, g)) return false;
    return onnx_head_find(in) && onnx_inputs(in, g) && onnx_nodes(in, g) && onnx_outputs(in, g);
}

/* Batches of shadows, even, since files divide them. */
static const int64_t OTHERS[] = {12, 4}, AGAIN[] = {20, 8};

/* Builds the file's graph in a model, beside its shadow with the first of two batches that is not the
 * model's. NULL: an error stands. */
static weft_graph *build(importer *in, weft_model *model, const char *name, weft_mode mode,
                         const int64_t others[2]) {
    weft_onnx *onnx = in->onnx;
    weft_model *shadow = weft_model_new_in("shadow", &onnx->arena.env);
    in->arena = &onnx->arena;
    in->operators = onnx_operators;
    in->scope = "";
    in->frame =
        onnx_frame_new(in->arena, (onnx_frame){.n_opsets = onnx->file.n_opsets, .opsets = onnx->file.opsets});
    memset(in->batch, 0, sizeof in->batch);
    if (!in->frame || !shadow)
        kit_no_memory(in->error, name);
    else {
        weft_model_set_batch(shadow, others[weft_model_batch(model) == others[0]]);
        in->model[0] = model;
        in->model[1] = shadow;
        in->graph[0] = weft_graph_new(model, name, mode);
        in->graph[1] = weft_graph_new(shadow, name, mode);
        if (!onnx_failed(in, 0, NULL)) import_graph(in);
    }
    weft_model_free(shadow);
    return in->error->status ? NULL : in->graph[0];
}

/* Whether an input has the batch. */
static bool follows_batch(const importer *in) {
    return in->batch[0] != in->batch[1];
}

/* Builds it again with other batches: the calls must be the same. */
static void verify(importer *in, const weft_graph *made, const char *name, weft_mode mode) {
    importer again = {.onnx = in->onnx, .options = in->options, .error = in->error};
    weft_model *model = weft_model_new_in("again", &in->onnx->arena.env);
    if (model) weft_model_set_batch(model, AGAIN[1]);
    const weft_graph *other = model ? build(&again, model, name, mode, AGAIN) : NULL;
    if (!model) kit_no_memory(in->error, name);
    if (other) onnx_same_graphs(&again, made, other);
    weft_model_free(model);
}

/* Whether options.batch_norm_eval has had an effect, where it could have. */
static bool has_kept_statistics(const importer *in, weft_mode mode) {
    const onnx_graph *g = &in->onnx->file.graph;
    char folded[60] = "";
    if (!in->options->batch_norm_eval || mode != WEFT_TRAIN || in->keeps_statistics) return true;
    int i = 0;
    while (i < g->n_nodes && strcmp(g->nodes[i].op, "BatchNormalization")) i++;
    if (in->onnx->n_norms)
        snprintf(folded, sizeof folded, ": it is folded into %d layer%s", in->onnx->n_norms,
                 in->onnx->n_norms == 1 ? "" : "s");
    kit_fail(
        in->error, WEFT_ARGUMENT,
        "%.300s: batch_norm_eval (graphtool: --batch-norm eval) has no effect: the file has no BatchNorm%s",
        in->onnx->file.wire.path, i < g->n_nodes ? " by running statistics (training_mode is 1)" : folded);
    return false;
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
    importer in = {.onnx = onnx, .options = options, .error = error};
    weft_graph *made = build(&in, model, name, mode, OTHERS);
    onnx_frame *last = in.frame;
    if (made && !has_kept_statistics(&in, mode)) made = NULL;
    if (made && follows_batch(&in)) verify(&in, made, name, mode);
    onnx->last = error->status ? NULL : last;
    return error->status ? NULL : made;
}
