/* export.c - weft_onnx_export(): what it is called with, and the exporter that it makes. */
#include "interchange/onnx/tables.h"

static const char *name_of(const weft_graph *graph) {
    const weft_model *m = weft_graph_model(graph);
    for (int i = 0; weft_model_graph(m, i); i++)
        if (weft_model_graph(m, i) == graph) return weft_graph_name(m, i);
    return "";
}

static weft_status check(const weft_graph *graph, const weft_store *store, const char *path,
                         const weft_onnx_export_options *o, weft_error *error) {
    if (!graph || !path || !*path)
        return kit_fail(error, WEFT_ARGUMENT, "weft_onnx_export: a graph and a path are needed");
    if (!store == !(o->weights && *o->weights))
        return kit_fail(error, WEFT_ARGUMENT,
                        "%.300s: a store or a file of weights is needed, one of the two", path);
    weft_status status = kit_pass(error, weft_model_error(weft_graph_model(graph)));
    return status ? status
                  : weft_reserved_check(o->reserved, sizeof o->reserved, "weft_onnx_export_options", error);
}

weft_status weft_onnx_export(const weft_graph *graph, const weft_store *store, const char *path,
                             const weft_onnx_export_options *options, weft_error *error) {
    static const weft_onnx_export_options defaults;
    weft_error own;
    const weft_onnx_export_options *o = options ? options : &defaults;
    error = kit_error(error, &own);
    weft_status status = check(graph, store, path, o, error);
    if (status) return status;
    kit_arena arena = kit_arena_of(o->env);
    exporter *e = kit_take(&arena, 1, sizeof *e);
    if (!e) return kit_no_memory(error, path);
    *e = (exporter){.arena = &arena,
                    .graph = graph,
                    .graph_name = name_of(graph),
                    .options = o,
                    .rows = export_rows,
                    .store = store,
                    .path = path,
                    .error = error};
    e->inputs_end = &e->inputs;
    e->parameters_end = &e->parameters;
    e->constants_end = &e->constants;
    weft_tensors *tensors = store ? NULL : weft_tensors_open(o->weights, o->env, error);
    e->tensors = tensors;
    status = store || tensors ? export_graph(e) : error->status;
    weft_tensors_close(tensors);
    kit_release(arena);
    return status;
}
