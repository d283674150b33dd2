/* model.c - making, naming and freeing models and graphs; outputs; queries; the sticky error.
 *
 * A builder call that fails records the first error in the model and returns NULL; every later builder sees
 * NULL or the error and does nothing. So a user checks once, at the end (weft_model_error). */
#include "graph/core/graph.h"

#include "graph/core/words.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

weft_model *model_new(const char *name, const weft_env *env, const op_catalog *catalog) {
    static const weft_env plain = {0};
    weft_error why = {0};
    /* one that nobody has set to zeros has no functions to call */
    if (env && reserved_check(env->reserved, sizeof env->reserved, "weft_env", &why)) env = NULL;
    weft_model *m = mem_new(env, sizeof *m);
    if (!m) return NULL;
    m->env = env ? *env : plain;
    m->catalog = catalog;
    arena_init(&m->arena, &m->env);
    arena_init(&m->nodes, &m->env);
    arena_init(&m->values, &m->env);
    arena_init(&m->scratch, &m->env);
    m->graphs_end = &m->graphs;
    m->variables_end = &m->variables;
    m->ddps_end = &m->ddps;
    m->precisions_end = &m->precisions;
    m->flows_end = &m->flows;
    m->batch = 1;
    m->world = 1;
    m->name = "";
    /* A name that is not valid is recorded as the model's error; only NULL and lack of memory give no
     * model. */
    if (!scope_intern(m, "") || !name || !(m->name = arena_copy(&m->arena, name))) {
        weft_model_free(m);
        return NULL;
    }
    if (!name_is_valid(name))
        model_fail(m, NULL, WEFT_NAME, "model name '%s': letters, digits, '_', '-' and '.' only", SHOW(name));
    if (why.status) model_fail(m, NULL, why.status, "%s", why.text);
    return m;
}

void weft_model_free(weft_model *m) {
    if (!m) return;
    /* The allocator is in the model that it frees. */
    weft_env env = m->env;
    weft_model_free(m->twin);
    arena_free(&m->nodes);
    arena_free(&m->values);
    arena_free(&m->scratch);
    arena_free(&m->arena);
    mem_free(&env, m, sizeof *m);
}

void *model_array(weft_model *m, int64_t count, size_t width) {
    return arena_new_array(&m->arena, count > 0 ? (size_t)count : 1, width);
}

void *scratch_array(weft_model *m, int64_t count, size_t width) {
    return arena_new_array(&m->scratch, count > 0 ? (size_t)count : 1, width);
}

const weft_error *weft_model_error(const weft_model *m) {
    /* For a caller that asks without having checked weft_model_new. */
    static const weft_error none = {WEFT_ARGUMENT, "there is no model (out of memory when it was made)"};
    return m ? &m->error : &none;
}

weft_status weft_model_take_error(weft_model *m, weft_error *error) {
    if (!m || model_ok(m)) return m ? WEFT_OK : error_set(error, WEFT_ARGUMENT, "there is no model");
    weft_status status = m->error.status;
    if (error) *error = m->error;
    m->error = (weft_error){0};
    return status;
}

int64_t weft_model_batch(const weft_model *m) {
    return m ? m->batch : 0;
}

/* Errors go to the model, so the call needs no status. */
void weft_model_set_batch(weft_model *m, int64_t batch) {
    if (!model_ok(m)) return;
    if (batch < 1 || batch > INT32_MAX)
        model_fail(m, NULL, WEFT_ARGUMENT, "model: a batch of %jd: it must be 1 to 2^31-1", batch);
    /* Shapes with WEFT_BATCH are resolved while a graph is built. */
    else if (m->graphs)
        model_fail(m, NULL, WEFT_ORDER, "model: set the batch before the first graph is made");
    else
        m->batch = batch;
}

weft_graph *weft_graph_new(weft_model *m, const char *name, weft_mode mode) {
    if (!model_ok(m)) return NULL;
    if (!name || !name_is_valid(name))
        return model_fail(m, NULL, WEFT_NAME, "graph name '%s': 1 to 200 letters, digits, '_', '-', '.'",
                          SHOW(name));
    if (mode != WEFT_EVAL && mode != WEFT_TRAIN)
        return model_fail(m, NULL, WEFT_ARGUMENT, "graph %s: there is no mode number %d", name, (int)mode);
    if (graph_find(m, name))
        return model_fail(m, NULL, WEFT_NAME, "there is a graph '%s' already: give this one another name",
                          name);
    weft_graph *g = graph_apart(m, name, mode);
    if (!g || !table_add(&m->by_name, &m->arena, g->name, g))
        return model_fail(m, NULL, WEFT_MEMORY, "graph %s: out of memory", name);
    *m->graphs_end = g;
    m->graphs_end = &g->next;
    return g;
}

weft_graph *graph_apart(weft_model *m, const char *name, weft_mode mode) {
    weft_graph *g = arena_new(&m->arena, sizeof *g);
    scope_entry *top = arena_new(&m->arena, sizeof *top);
    if (!g || !top || !(g->name = arena_copy(&m->arena, name)))
        return model_fail(m, NULL, WEFT_MEMORY, "graph %s: out of memory", name);
    /* Always finds the path that model_new has interned. */
    top->path = scope_intern(m, "");
    g->model = m;
    g->mode = mode;
    g->scope = top;
    g->outputs_end = &g->outputs;
    return g;
}

weft_graph *graph_find(const weft_model *m, const char *name) {
    return table_find(&m->by_name, name);
}

/* Linear: about 180 names, compared by length first. */
const weft_op *op_find(const op_catalog *c, const char *name, size_t length) {
    for (const weft_op *const *op = c->ops; *op; op++)
        if (word_is((*op)->name, name, length)) return *op;
    return NULL;
}

/* ---- errors ---- */

/* Without a model there is no error to add to, so nothing can be built either. */
bool model_ok(const weft_model *m) {
    return m && m->error.status == WEFT_OK;
}

shown_place show_place(const char *file, int line) {
    shown_place p = {""};
    const char *slash = file ? strrchr(file, '/') : NULL;
    if (file && *file) snprintf(p.text, sizeof p.text, "%.120s:%d", slash ? slash + 1 : file, line);
    return p;
}

/* Fills the model's error: "gan.c:31: in generator: add: ...". */
static void record(weft_model *m, const char *file, int line, const char *scope, weft_status status,
                   const char *format, va_list args) {
    char message[900];
    shown_place place = show_place(file, line);
    vsnprintf(message, sizeof message, format, args);
    error_set(&m->error, status, *scope ? "%s%sin %.200s: %s" : "%s%s%s%s", place.text,
              *place.text ? ": " : "", scope, message);
}

void *model_fail(weft_model *m, weft_graph *g, weft_status status, const char *format, ...) {
    if (!model_ok(m)) return NULL;
    va_list args;
    va_start(args, format);
    record(m, m->file, m->line, g ? g->scope->path : "", status, format, args);
    va_end(args);
    return NULL;
}

void *graph_fail(weft_graph *g, weft_status status, const char *format, ...) {
    if (!model_ok(g->model)) return NULL;
    va_list args;
    va_start(args, format);
    record(g->model, g->model->file, g->model->line, g->scope->path, status, format, args);
    va_end(args);
    return NULL;
}

void *value_fail(const weft_value *x, weft_status status, const char *format, ...) {
    weft_graph *g = x->node->graph;
    if (!model_ok(g->model)) return NULL;
    va_list args;
    va_start(args, format);
    record(g->model, g->model->file, g->model->line, g->scope->path, status, format, args);
    va_end(args);
    return NULL;
}

bool value_reserved(const weft_value *x, const char *builder, const uint64_t *reserved, size_t bytes) {
    weft_error why;
    return !reserved_check(reserved, bytes, builder, &why) || value_fail(x, why.status, "%s", why.text);
}

void *node_fail(weft_model *m, const weft_node *n, weft_status status, const char *format, ...) {
    if (!model_ok(m)) return NULL;
    va_list args;
    va_start(args, format);
    record(m, n->file, n->line, n->scope, status, format, args);
    va_end(args);
    return NULL;
}

/* ---- outputs ---- */

/* Outputs keep the order of the calls; their names are unique in the graph. */
void weft_output(weft_value *value, const char *name) {
    if (!value) return;
    weft_graph *g = value->node->graph;
    weft_model *m = g->model;
    if (!model_ok(m)) return;
    if (!name || !name_is_valid(name)) {
        model_fail(m, g, WEFT_NAME, "output name '%s': letters, digits, '_', '-', '.' only", SHOW(name));
        return;
    }
    if (type_is_empty(&value->type)) {
        model_fail(m, g, WEFT_SHAPE,
                   "output %s: %s has no elements: every axis of an output must be at least 1", name,
                   TYPE(&value->type));
        return;
    }
    if (table_find(&g->by_name, name)) {
        model_fail(m, g, WEFT_NAME, "output: graph %s has an output '%s' already: give this one another name",
                   g->name, name);
        return;
    }
    graph_output *o = arena_new(&m->arena, sizeof *o);
    if (!o || !(o->name = arena_copy(&m->arena, name)) || !table_add(&g->by_name, &m->arena, o->name, o)) {
        model_fail(m, g, WEFT_MEMORY, "output %s: out of memory", name);
        return;
    }
    o->value = value;
    *g->outputs_end = o;
    g->outputs_end = &o->next;
}

/* ---- questions ---- */

/* Queries take NULL, the result of a failed builder, and answer with a harmless default. */
int weft_ndim(const weft_value *v) {
    return v ? v->type.ndim : 0;
}

int64_t weft_dim(const weft_value *v, int axis) {
    int64_t a = axis;
    return v && axis_resolve(&a, v->type.ndim) ? v->type.shape[a] : 0;
}

weft_dtype weft_value_dtype(const weft_value *v) {
    return v ? v->type.dtype : WEFT_F32;
}

weft_graph *weft_value_graph(const weft_value *v) {
    return v ? v->node->graph : NULL;
}

weft_model *weft_graph_model(const weft_graph *g) {
    return g ? g->model : NULL;
}

weft_mode weft_graph_mode(const weft_graph *g) {
    return g ? g->mode : WEFT_EVAL;
}

const char *weft_model_name(const weft_model *m) {
    return m ? m->name : "";
}

int weft_graph_count(const weft_model *m) {
    int n = 0;
    for (const weft_graph *g = m ? m->graphs : NULL; g; g = g->next) n++;
    return n;
}

const char *weft_graph_name(const weft_model *m, int index) {
    for (const weft_graph *g = m ? m->graphs : NULL; g; g = g->next)
        if (index-- == 0) return g->name;
    return NULL;
}

/* ---- the caller's place (include/weft/here.h) ---- */

/* The macros of here.h pass __FILE__, which stays valid, so the pointer is not copied. */
weft_model *weft_model_at(weft_model *m, const char *file, int line) {
    if (m) {
        m->file = file;
        m->line = line;
    }
    return m;
}

weft_graph *weft_graph_at(weft_graph *g, const char *file, int line) {
    if (g) weft_model_at(g->model, file, line);
    return g;
}

weft_value *weft_at(weft_value *v, const char *file, int line) {
    if (v) weft_graph_at(v->node->graph, file, line);
    return v;
}
