/* export.c - graphtool export: a graph that trains nothing, with its weights, as an ONNX file. */
#include "tools/graphtool/model/tools.h"
#include "tools/graphtool/model/weights.h"

#include <string.h>

static weft_graph *graph_called(const weft_model *m, const char *name) {
    int i = 0;
    while (strcmp(weft_graph_name(m, i), name)) i++;
    return weft_model_graph(m, i);
}

/* The store has the parameters of that graph alone. */
static weft_store *store_of(const weft_model *m, const options *o, const char *graph) {
    weft_store *store = tool_got(weft_store_new(tool_compile(m, o, graph), o->seed, &tool_why));
    weights_load(store, o);
    return store;
}

static void free_store(void *store) {
    weft_store_free(store);
}

static int export_run(const options *o) {
    if (!o->output || !text_ends(o->output, ".onnx")) tool_fail("export: -o FILE.onnx is needed");
    weft_model *m = tool_load(o);
    const char *graph = tool_graph(m, o, "predict");
    tool_need_weights(m, o);
    out_check(o->output);
    weft_store *store = tool_keep(store_of(m, o, graph), free_store);
    weft_onnx_export_options how = {
        .fixed_batch = o->fixed_batch, .external_data = o->external_data, .random_inputs = o->random_inputs};
    if (weft_onnx_export(graph_called(m, graph), store, o->output, &how, &tool_why)) tool_error(&tool_why);
    return EXIT_FINE;
}

const command command_export = {
    .name = "export",
    .summary = "Writes a graph that predicts, with its weights, as an ONNX file",
    .options =
        "seed graph weights rename partial random-weights fixed-batch external-data random-inputs output",
    .example = "graphtool export resnet18.bin --weights best.safetensors -o resnet18.onnx",
    .run = export_run,
    .ranks = COMMAND_LEADS,
};
