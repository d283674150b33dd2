/* values.c - what a value of a file is in the graphs: a parameter, a state, a constant. */
#include "interchange/onnx/import/import.h"

/* ---- parameters and states ---- */

static onnx_variable *variable_of(const importer *in, const onnx_tensor *t) {
    return t->variable ? &in->onnx->variables[t->variable - 1] : NULL;
}

/* Its name, which follows that of its module where an exporter named it. */
static const char *path_of(importer *in, const onnx_tensor *t) {
    enum { LONGEST = 200 };
    size_t n = t->module ? strlen(t->module) + strlen(t->name) + 2 : 0;
    char *name = n && n < LONGEST ? kit_take(in->arena, n, 1) : NULL;
    if (!name) return onnx_path(in, t->name);
    snprintf(name, n, "%s.%s", t->module, t->name);
    return onnx_path(in, *t->module ? name : t->name);
}

const char *onnx_path_for(importer *in, const onnx_tensor *t) {
    const onnx_variable *v = variable_of(in, t);
    return v ? v->path : onnx_unlike(in, &in->onnx->by_path, path_of(in, t));
}

static bool note_variable(importer *in, const char *path, onnx_tensor *t, bool is_state) {
    weft_onnx *onnx = in->onnx;
    if (t->variable) return true;
    onnx_variable *grown =
        kit_grow(&onnx->arena, onnx->variables, (size_t)onnx->n_variables + 1, sizeof *grown);
    if (grown) onnx->variables = grown;
    if (!grown || !onnx_table_add(&onnx->by_path, &onnx->arena, path, t))
        return kit_no_memory(in->error, path), false;
    onnx->variables[onnx->n_variables++] = (onnx_variable){path, t, is_state};
    t->variable = onnx->n_variables;
    return true;
}

/* Made at the top level, whatever scope is open: its name says where it belongs. */
static weft_value *variable(importer *in, onnx_tensor *t, int side, bool is_state) {
    const char *path = onnx_path_for(in, t), *name = strrchr(path, '/');
    char *folder = kit_copy(in->arena, path);
    if (!folder) return kit_no_memory(in->error, path), NULL;
    folder[name ? name - path : 0] = 0;
    name = name ? name + 1 : path;
    weft_init init = onnx_initial(in, t, is_state);
    const char *scope = in->is_entered[side] ? in->scope : "";
    onnx_leave(in, scope, side);
    onnx_enter(in, folder, side);
    weft_value *v = is_state ? weft_state_in(in->graph[side], name, WEFT_F32, t->ndim, t->shape, init)
                             : weft_parameter_in(in->graph[side], name, t->ndim, t->shape, init);
    onnx_leave(in, folder, side);
    onnx_enter(in, scope, side);
    note_variable(in, path, t, is_state);
    return v;
}

/* ---- values ---- */

static weft_value *constant_of(importer *in, onnx_value *v, int side) {
    const onnx_known *k = onnx_known_of(in, v, side);
    if (!k) return NULL;
    if (onnx_known_equal(v->known[0], v->known[1]))
        return weft_constant_tensor(in->graph[side], k->type.dtype, k->type.ndim, k->type.shape, k->data);
    weft_value *made = onnx_following(in, v, side);
    if (!made && !in->error->status)
        kit_fail(in->error, WEFT_UNSUPPORTED,
                 "%.300s: '%.80s' depends on the batch in a way that no graph has: import with the batch as "
                 "a number (axes)",
                 in->onnx->file.wire.path, v->name);
    return made;
}

weft_value *onnx_value_in(importer *in, onnx_value *v, int side) {
    weft_dtype dtype;
    if (v->value[side]) return v->value[side];
    if (!onnx_is_parameter(v)) return v->value[side] = constant_of(in, v, side);
    onnx_dtype(v->initializer->type, &dtype);
    weft_value *made = variable(in, v->initializer, side, false);
    return v->value[side] = dtype == WEFT_F32 ? made : weft_cast(made, dtype);
}

weft_value *onnx_state_in(importer *in, onnx_value *v, int side) {
    if (!v->value[side]) v->value[side] = variable(in, v->initializer, side, true);
    return v->value[side];
}
