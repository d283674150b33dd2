/* parameters.c - what programs say of parameters and state. Layers of several graphs that name one path share
 * one variable, so shapes and kinds must agree. */
#include "graph/core/graph.h"

#include "graph/core/nearest.h"

#include <stdio.h>
#include <string.h>

weft_value *variable_value(weft_graph *g, weft_variable *v) {
    weft_value *known = variable_in_graph(g, v);
    if (known) return known;
    const weft_op *op = v->kind == VARIABLE_PARAMETER ? &weft_op_parameter : &weft_op_state;
    return node_value(g, op, 0, NULL, &(variable_attrs){v->path});
}

weft_value *variable_assign(weft_graph *g, const weft_variable *v, weft_value *value) {
    return value ? node_value(g, &weft_op_assign, 1, &value, &(variable_attrs){v->path}) : NULL;
}

/* Stricter than init_is_valid, for the calls of users: reports numbers that the kind does not read, and
 * random kinds that would fill in a constant. */
static bool init_says(weft_model *m, weft_graph *g, const char *path, weft_init init) {
    const char *why = NULL;
    bool is_filled = init.kind <= WEFT_INIT_ONES, has_fans = init.kind >= WEFT_INIT_XAVIER_UNIFORM;
    if (is_filled && (init.a != 0 || init.b != 0))
        why = "zeros and ones read neither a nor b (WEFT_INIT_CONSTANT is a)";
    else if ((has_fans || init.kind == WEFT_INIT_CONSTANT) && init.b != 0)
        why = "this kind reads no b";
    else if (has_fans && init.a < 0)
        why = "a negative gain";
    else if (init.kind == WEFT_INIT_UNIFORM && init.a == init.b)
        why = "uniform from a to a (WEFT_INIT_CONSTANT is a)";
    else if (init.kind == WEFT_INIT_NORMAL && init.b == 0)
        why = "normal with b, its deviation, left 0 (WEFT_INIT_CONSTANT is a)";
    if (why) model_fail(m, g, WEFT_ARGUMENT, "%s: initializer: %s", path, why);
    return !why;
}

static bool init_equal(weft_init a, weft_init b) {
    return a.kind == b.kind && a.a == b.a && a.b == b.b;
}

/* Finds or makes the variable `name` of the present scope and checks it against what the caller asks for.
 * `is_default`: the caller has given no initializer, so an existing variable may have any. */
static weft_value *variable_use(weft_graph *g, variable_kind kind, const char *name, weft_dtype dtype,
                                int ndim, const int64_t *shape, weft_init init, bool is_default) {
    if (!g || !model_ok(g->model)) return NULL;
    weft_model *m = g->model;
    const char *what = kind == VARIABLE_PARAMETER ? "parameter" : "state";
    if (!name || !name_is_valid(name))
        return model_fail(m, g, WEFT_NAME, "%s name '%s': letters, digits, '_', '-', '.' only", what,
                          SHOW(name));
    if (ndim < 0 || ndim > WEFT_MAX_NDIM || (ndim && !shape))
        return model_fail(m, g, WEFT_SHAPE, "%s %s: %d axes, 0 to %d are allowed", what, name, ndim,
                          WEFT_MAX_NDIM);
    if (dtype != WEFT_F32 && dtype != WEFT_I64)
        return model_fail(m, g, WEFT_TYPE, "%s %s: it is of f32 or i64, not %s", what, name,
                          dtype_name(dtype));
    tensor_type type = type_of(dtype, ndim, shape);
    for (int i = 0; i < ndim; i++)
        if (shape[i] == WEFT_BATCH)
            return model_fail(
                m, g, WEFT_SHAPE,
                "%s %s: axis %d is WEFT_BATCH, but a %s has one shape at every batch size: give "
                "the axis a length",
                what, name, i, what);
    if (!type_check(&type))
        return model_fail(m, g, WEFT_SHAPE, "%s %s: shape %s: every axis must be at least 1", what, name,
                          TYPE(&type));
    char path[1300];
    snprintf(path, sizeof path, *g->scope->path ? "%s/%s" : "%s%s", g->scope->path, name);
    weft_variable *v = variable_find(m, path);
    /* Layers that name the same path share the weight, which needs one shape. */
    if (v && (v->kind != kind || !type_equal(&v->type, &type)))
        return model_fail(m, g, WEFT_SHAPE, "%s is a %s %s already; a %s %s cannot share it", path,
                          v->kind == VARIABLE_PARAMETER ? "parameter" : "state", TYPE(&v->type), what,
                          TYPE(&type));
    /* All zeros (WEFT_INIT_ZEROS, also an omitted initializer) agree with any existing one. */
    bool says = !is_default && !init_equal(init, (weft_init){0});
    if (v && says && !init_equal(v->init, init))
        return model_fail(
            m, g, WEFT_ARGUMENT,
            "%s exists already with another initializer: use the same one (the first call decides)", path);
    if (!v && (!init_is_valid(m, g, path, init, &type) || !init_says(m, g, path, init))) return NULL;
    if (!v && !(v = variable_append(m, g, path, kind, &type, init))) return NULL;
    return variable_value(g, v);
}

weft_value *weft_parameter_in(weft_graph *g, const char *name, int ndim, const int64_t *shape,
                              weft_init init) {
    return variable_use(g, VARIABLE_PARAMETER, name, WEFT_F32, ndim, shape, init, false);
}

weft_value *weft_parameter(weft_value *near, const char *name, int ndim, const int64_t *shape,
                           weft_init init) {
    return near ? weft_parameter_in(near->node->graph, name, ndim, shape, init) : NULL;
}

weft_value *weft_state(weft_value *near, const char *name, int ndim, const int64_t *shape, weft_init init) {
    return near ? weft_state_in(near->node->graph, name, WEFT_F32, ndim, shape, init) : NULL;
}

weft_value *weft_state_in(weft_graph *g, const char *name, weft_dtype dtype, int ndim, const int64_t *shape,
                          weft_init init) {
    return variable_use(g, VARIABLE_STATE, name, dtype, ndim, shape, init, false);
}

weft_value *parameter_or_else(weft_value *near, const char *name, int ndim, const int64_t *shape,
                              const weft_init *said, weft_init otherwise) {
    return near ? variable_use(near->node->graph, VARIABLE_PARAMETER, name, WEFT_F32, ndim, shape,
                               said ? *said : otherwise, !said)
                : NULL;
}

bool weft_model_parameter(const weft_model *m, const char *pattern, int index, weft_parameter_info *info) {
    const weft_variable *v = m && info && index >= 0 ? m->variables : NULL;
    for (; v; v = v->next)
        if (variable_is_named(v->kind) && path_matches(pattern, v->path) && index-- == 0) break;
    if (!v) return false;
    *info = (weft_parameter_info){.path = v->path,
                                  .is_state = v->kind == VARIABLE_STATE,
                                  .is_frozen = v->is_frozen,
                                  .kinds = v->kind == VARIABLE_PARAMETER ? variable_kinds(v) : 0,
                                  .dtype = v->type.dtype,
                                  .ndim = v->type.ndim};
    memcpy(info->shape, v->type.shape, (size_t)v->type.ndim * sizeof *info->shape);
    return true;
}

weft_value *weft_value_of(weft_graph *g, const char *path) {
    if (!g || !model_ok(g->model)) return NULL;
    weft_variable *v = path ? variable_find(g->model, path) : NULL;
    if (v && variable_is_named(v->kind)) return variable_value(g, v);
    v = g->model->variables;
    return graph_fail(g, WEFT_NAME,
                      "value_of: there is no parameter or state '%s': make it first; a path is whole, as %s",
                      SHOW(path), v ? v->path : "net/fc/weight");
}

/* The path is the node's attribute, so the write does not keep the read value as an operand. */
void weft_assign(weft_value *state, weft_value *value) {
    const weft_value *known = state ? state : value;
    if (!known) return;
    weft_graph *g = known->node->graph;
    weft_variable *v = state ? state->node->variable : NULL;
    if (!v || !variable_is_named(v->kind))
        graph_fail(g, WEFT_ARGUMENT,
                   "assign: the first value must come from weft_state, weft_parameter or weft_value_of");
    else
        node_new(g, &weft_op_assign, 1, &value, &(variable_attrs){v->path});
}

/* ---- patterns ---- */

/* A path as pieces that a pattern may have meant: each scope, the whole, the last name. */
static void try_pieces(nearest *near, const char *path) {
    char piece[PATTERN_ROOM];
    const char *last = strrchr(path, '/');
    for (size_t n = 0; path[n]; n += path[n] == '/') {
        n += strcspn(path + n, "/");
        snprintf(piece, sizeof piece, "%.*s", (int)n, path);
        nearest_try_as(near, piece, path);
    }
    if (last) nearest_try_as(near, last + 1, path);
}

const weft_variable *pattern_nearest(const weft_model *m, const char *one) {
    char word[PATTERN_ROOM];
    size_t n = 0;
    for (; *one && n < sizeof word; one++)
        if (*one != '*') word[n++] = *one;
    nearest near = nearest_to(word, n);
    const weft_variable *first = NULL;
    for (const weft_variable *v = m->variables; v; v = v->next) {
        if (v->kind != VARIABLE_PARAMETER) continue;
        if (!first) first = v;
        try_pieces(&near, v->path);
    }
    const weft_variable *v = near.name ? m->variables : NULL;
    while (v && v->path != near.name) v = v->next;
    return v ? v : first;
}

/* How many parameters it has frozen. */
static int freeze_one(weft_model *m, const char *pattern) {
    int matched = 0;
    for (weft_variable *v = m->variables; v; v = v->next)
        if (v->kind == VARIABLE_PARAMETER && path_matches(pattern, v->path)) {
            v->is_frozen = true;
            matched++;
        }
    return matched;
}

/* A pattern that matches nothing is more likely misspelt than meant. */
weft_status weft_freeze(weft_model *m, const char *pattern) {
    if (!m) return WEFT_ARGUMENT;
    size_t at = 0;
    char one[PATTERN_ROOM];
    while (pattern_next(pattern ? pattern : "", &at, one)) {
        if (freeze_one(m, one)) continue;
        const weft_variable *near = pattern_nearest(m, one);
        model_fail(
            m, NULL, WEFT_NAME,
            "freeze: no parameter matches '%s': create it first; a pattern is a path or contains '*'%s%s",
            show_name(one, strlen(one)).text, near ? ", and parameters have names like " : "",
            near ? near->path : "");
    }
    return m->error.status;
}
