/* variable.c - the variables of a model: found by path, or made. */
#include "graph/core/graph.h"

#include <math.h>
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

bool variable_is_named(variable_kind kind) {
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

/* The model's list keeps the order of making, which numbers variables and orders dumps and files. */
weft_variable *variable_append(weft_model *m, weft_graph *g, const char *path, variable_kind kind,
                               const tensor_type *type, weft_init init) {
    weft_variable *v = arena_new(&m->arena, sizeof *v);
    if (!v || !(v->path = arena_copy(&m->arena, path)))
        return model_fail(m, NULL, WEFT_MEMORY, "%s: out of memory", SHOW(path));
    if (variable_is_named(kind) && !take_file_name(m, g, v)) return NULL;
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

bool init_is_valid(weft_model *m, weft_graph *g, const char *path, weft_init init, const tensor_type *type) {
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
    else if (random && type->ndim < 2)
        why = "fans need at least 2 axes";
    else if (!dtype_is_float(type->dtype) && (init.kind > WEFT_INIT_CONSTANT || init.a != floor(init.a) ||
                                              !(init.a >= -0x1p53 && init.a <= 0x1p53)))
        why = "integers are zeros, ones or a whole constant of at most 2^53";
    if (why) model_fail(m, g, WEFT_ARGUMENT, "%s: initializer: %s", path, why);
    return !why;
}
