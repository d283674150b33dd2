/* variable.c - parameters and state: found by path or made; in a graph one node, or a chain of assigns, gives
 * the value of each (I4). Layers of several graphs that name one path share one variable, so shapes and kinds
 * must agree. */
#include "graph/core/graph.h"

#include <stdio.h>
#include <string.h>

/* ---- names ---- */

/* By weft_init_kind. */
static const char *const init_names[] = {
    "zeros",          "ones",          "constant",        "uniform",       "normal",
    "xavier_uniform", "xavier_normal", "kaiming_uniform", "kaiming_normal"};
/* By variable_kind: the word that begins a variable's line. */
static const char *const kind_names[] = {"parameter", "state",    "bucket",  "shard",
                                         "optimizer", "gradient", "derived", "constant"};

const char *init_name(weft_init_kind kind) {
    return (unsigned)kind < sizeof init_names / sizeof *init_names ? init_names[kind] : "?";
}

const char *variable_kind_name(variable_kind kind) {
    return (unsigned)kind < sizeof kind_names / sizeof *kind_names ? kind_names[kind] : "?";
}

/* ---- finding and making ---- */

weft_variable *variable_find(const weft_model *m, const char *path) {
    return table_find(&m->by_path, path);
}

bool graph_reads(const weft_graph *g, const weft_variable *v) {
    for (const weft_node *n = g->first; n; n = n->next)
        if (n->variable == v && !(n->op->flags & OP_WRITES)) return true;
    return false;
}

char *file_name_of(arena *a, const char *path) {
    char *name = arena_copy(a, path);
    for (char *c = name; c && *c; c++)
        if (*c == '/') *c = '.';
    return name;
}

/* Parameters and state are what a program may name; the compiler's variables are not. */
static bool is_named(variable_kind kind) {
    return kind == VARIABLE_PARAMETER || kind == VARIABLE_STATE;
}

/* Names may have points, so two paths may have one name in files, which could not be written then. A path
 * that a file has twice is its reader's error. */
static bool take_file_name(weft_model *m, weft_graph *g, weft_variable *v) {
    char *name = file_name_of(&m->arena, v->path);
    const weft_variable *other = name ? table_find(&m->in_files, name) : NULL;
    if (other && strcmp(other->path, v->path))
        return model_fail(m, g, WEFT_NAME, "%s and %s would both be named %s in files: rename one",
                          SHOW(other->path), SHOW(v->path), SHOW(name));
    return (name && table_add(&m->in_files, &m->arena, name, v)) ||
           model_fail(m, g, WEFT_MEMORY, "%s: out of memory", SHOW(v->path));
}

/* Appends it. The model's list keeps the order of making, which numbers variables and orders dumps and files.
 * Errors name the line of a call in graph g (NULL: of none). */
static weft_variable *variable_append(weft_model *m, weft_graph *g, const char *path, variable_kind kind,
                                      const tensor_type *type, weft_init init) {
    weft_variable *v = arena_new(&m->arena, sizeof *v);
    if (!v || !(v->path = arena_copy(&m->arena, path)))
        return model_fail(m, NULL, WEFT_MEMORY, "%s: out of memory", SHOW(path));
    if (is_named(kind) && !take_file_name(m, g, v)) return NULL;
    if (!table_add(&m->by_path, &m->arena, v->path, v))
        return model_fail(m, NULL, WEFT_MEMORY, "%s: out of memory", SHOW(path));
    v->kind = kind;
    v->type = *type;
    v->init = init;
    v->index = m->n_variables++;
    *m->variables_end = v;
    m->variables_end = &v->next;
    return v;
}

weft_variable *variable_new(weft_model *m, const char *path, variable_kind kind, const tensor_type *type,
                            weft_init init) {
    return variable_append(m, NULL, path, kind, type, init);
}

/* Reports that a path is taken. The compiler derives paths (buckets "net.0", "optimizer.adam:net/step") from
 * the user's names, and two of them may collide. */
static void *taken(weft_model *m, const weft_variable *by, variable_kind kind) {
    return model_fail(
        m, NULL, WEFT_NAME,
        "path %s: two variables would have it (%s, %s): rename the parameter, scope or optimizer",
        SHOW(by->path), variable_kind_name(by->kind), variable_kind_name(kind));
}

weft_variable *variable_made(weft_model *m, const char *path, variable_kind kind, const tensor_type *type,
                             weft_init init) {
    const weft_variable *other = variable_find(m, path);
    return other ? taken(m, other, kind) : variable_new(m, path, kind, type, init);
}

/* Programs of a plan that train with one optimizer share its state, and nodes with the same kernel a packed
 * parameter. */
weft_variable *variable_shared(weft_model *m, const char *path, variable_kind kind, const tensor_type *type,
                               weft_init init) {
    weft_variable *v = variable_find(m, path);
    if (!v) return variable_new(m, path, kind, type, init);
    return v->kind == kind && type_equal(&v->type, type) ? v : taken(m, v, kind);
}

bool variable_is_part(const weft_variable *v) {
    return v->bucket && (v->kind == VARIABLE_PARAMETER || v->kind == VARIABLE_SHARD);
}

bool variable_is_sessions(const weft_variable *v) {
    return v->kind == VARIABLE_DERIVED || v->kind == VARIABLE_CONSTANT;
}

bool variable_has_init(variable_kind kind) {
    return kind == VARIABLE_PARAMETER || kind == VARIABLE_STATE || kind == VARIABLE_OPTIMIZER;
}

/* ---- the newest value of a variable in a graph ----
 * variable->newest holds for one graph at a time, model->indexed: passes and builders work on one graph for
 * long, so the index is rebuilt (O(nodes)) only when they change to another. */

/* Whether a node's result is the variable's value from there on. */
static bool makes_newest(const weft_node *n) {
    return n->variable &&
           (n->op == &weft_op_parameter || n->op == &weft_op_state || n->op == &weft_op_assign);
}

static void index_graph(weft_graph *g) {
    for (weft_variable *v = g->model->variables; v; v = v->next) v->newest = NULL;
    for (weft_node *n = g->first; n; n = n->next)
        if (makes_newest(n)) n->variable->newest = n;
    g->model->indexed = g;
}

void variable_note_added(weft_node *n) {
    weft_model *m = n->graph->model;
    if (m->indexed != n->graph || !makes_newest(n)) return;
    if (n->next && n->variable->newest)
        m->indexed = NULL; /* inserted before other nodes, so it may not be the last one */
    else
        n->variable->newest = n;
}

void variable_note_removed(const weft_node *n) {
    weft_model *m = n->graph->model;
    if (m->indexed == n->graph && makes_newest(n)) m->indexed = NULL;
}

weft_value *variable_in_graph(weft_graph *g, const weft_variable *v) {
    if (g->model->indexed != g) index_graph(g);
    return v->newest ? &v->newest->out[0] : NULL;
}

weft_value *variable_value(weft_graph *g, weft_variable *v) {
    weft_value *known = variable_in_graph(g, v);
    if (known) return known;
    const weft_op *op = v->kind == VARIABLE_PARAMETER ? &weft_op_parameter : &weft_op_state;
    return node_value(g, op, 0, NULL, &(variable_attrs){v->path});
}

weft_value *variable_assign(weft_graph *g, const weft_variable *v, weft_value *value) {
    return value ? node_value(g, &weft_op_assign, 1, &value, &(variable_attrs){v->path}) : NULL;
}

bool init_is_valid(weft_model *m, weft_graph *g, const char *path, weft_init init, int ndim) {
    /* Xavier and Kaiming kinds compute a fan from the first two axes. */
    bool random = init.kind >= WEFT_INIT_XAVIER_UNIFORM;
    const char *why = NULL;
    if ((unsigned)init.kind > WEFT_INIT_KAIMING_NORMAL)
        why = "its kind is not in the list";
    else if (!(init.a - init.a == 0) || !(init.b - init.b == 0))
        why = "a number that is not finite";
    else if (init.kind == WEFT_INIT_UNIFORM && init.a > init.b)
        why = "uniform with low above high";
    else if (init.kind == WEFT_INIT_NORMAL && init.b < 0)
        why = "normal with a negative deviation";
    else if (random && ndim < 2)
        why = "fans need at least 2 axes";
    if (why) model_fail(m, g, WEFT_ARGUMENT, "%s: initializer: %s", path, why);
    return !why;
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
static weft_value *variable_use(weft_graph *g, variable_kind kind, const char *name, int ndim,
                                const int64_t *shape, weft_init init, bool is_default) {
    if (!g || !model_ok(g->model)) return NULL;
    weft_model *m = g->model;
    const char *what = kind == VARIABLE_PARAMETER ? "parameter" : "state";
    if (!name || !name_is_valid(name))
        return model_fail(m, g, WEFT_NAME, "%s name '%s': letters, digits, '_', '-', '.' only", what,
                          SHOW(name));
    if (ndim < 0 || ndim > WEFT_MAX_NDIM || (ndim && !shape))
        return model_fail(m, g, WEFT_SHAPE, "%s %s: %d axes, 0 to %d are allowed", what, name, ndim,
                          WEFT_MAX_NDIM);
    tensor_type type = type_of(WEFT_F32, ndim, shape);
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
    if (!v && (!init_is_valid(m, g, path, init, ndim) || !init_says(m, g, path, init))) return NULL;
    if (!v && !(v = variable_append(m, g, path, kind, &type, init))) return NULL;
    return variable_value(g, v);
}

weft_value *weft_parameter_in(weft_graph *g, const char *name, int ndim, const int64_t *shape,
                              weft_init init) {
    return variable_use(g, VARIABLE_PARAMETER, name, ndim, shape, init, false);
}

weft_value *weft_parameter(weft_value *near, const char *name, int ndim, const int64_t *shape,
                           weft_init init) {
    return near ? weft_parameter_in(near->node->graph, name, ndim, shape, init) : NULL;
}

weft_value *weft_state(weft_value *near, const char *name, int ndim, const int64_t *shape, weft_init init) {
    return near ? variable_use(near->node->graph, VARIABLE_STATE, name, ndim, shape, init, false) : NULL;
}

weft_value *parameter_or_else(weft_value *near, const char *name, int ndim, const int64_t *shape,
                              const weft_init *said, weft_init otherwise) {
    return near ? variable_use(near->node->graph, VARIABLE_PARAMETER, name, ndim, shape,
                               said ? *said : otherwise, !said)
                : NULL;
}

bool weft_model_parameter(const weft_model *m, const char *pattern, int index, weft_parameter_info *info) {
    const weft_variable *v = m && info && index >= 0 ? m->variables : NULL;
    for (; v; v = v->next)
        if (is_named(v->kind) && path_matches(pattern, v->path) && index-- == 0) break;
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
    if (v && is_named(v->kind)) return variable_value(g, v);
    v = g->model->variables;
    return model_fail(g->model, g, WEFT_NAME,
                      "value_of: there is no parameter or state '%s': make it first; a path is whole, as %s",
                      SHOW(path), v ? v->path : "net/fc/weight");
}

/* The path is the node's attribute, so the write does not keep the read value as an operand. */
void weft_assign(weft_value *state, weft_value *value) {
    const weft_value *known = state ? state : value;
    if (!known) return;
    weft_graph *g = known->node->graph;
    weft_variable *v = state ? state->node->variable : NULL;
    if (!v || !is_named(v->kind))
        model_fail(g->model, g, WEFT_ARGUMENT,
                   "assign: the first value must come from weft_state, weft_parameter or weft_value_of");
    else
        node_new(g, &weft_op_assign, 1, &value, &(variable_attrs){v->path});
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
    while (pattern_next(pattern ? pattern : "", &at, one))
        if (!freeze_one(m, one))
            model_fail(
                m, NULL, WEFT_NAME,
                "freeze: no parameter matches '%s': create it first; a pattern is a path or contains '*'",
                show_name(one, strlen(one)).text);
    return m->error.status;
}
