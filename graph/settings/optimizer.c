/* optimizer.c - optimizers by weft_optimizer.type, and questions about them and about the calls that name
 * them. */
#include "graph/settings/minimize.h"

#include <string.h>
#include <strings.h>

/* Linear: there are a few optimizers. */
static const optimizer_kind *find(const weft_model *m, const char *type,
                                  int (*compare)(const char *, const char *)) {
    for (const own_optimizer *o = type ? m->own : NULL; o; o = o->next)
        if (strcmp(o->kind.type, type) == 0) return &o->kind;
    for (const optimizer_kind *const *k = m->catalog->optimizers; type && *k; k++)
        if (compare((*k)->type, type) == 0) return *k;
    return NULL;
}

const optimizer_kind *optimizer_find(const weft_model *m, const char *type) {
    return find(m, type, strcmp);
}

const optimizer_kind *optimizer_spelt(const weft_model *m, const char *type) {
    return find(m, type, strcasecmp);
}

bool optimizer_reads(const optimizer_kind *kind, const char *field) {
    int i = 0;
    while (kind->fields[i] && strcmp(kind->fields[i], field)) i++;
    return kind->fields[i] != NULL;
}

bool optimizer_has(const optimizer_kind *kind, const optimizer_setting *s) {
    return !s->is_own || optimizer_reads(kind, s->name);
}

bool optimizer_has_slot(const minimize_attrs *a, const optimizer_kind *kind, int slot) {
    if (!kind->slots[slot].name) return false;
    const optimizer_slot_kind *s = &kind->slots[slot];
    return (!s->need || *(const double *)((const char *)a + s->need) != 0) &&
           (!s->flag || *(const bool *)((const char *)a + s->flag));
}

bool optimizer_slot_type(slot_shape shape, const tensor_type *parameter, tensor_type *type) {
    bool is_matrix = parameter->ndim > 1;
    *type = *parameter;
    if (shape == SLOT_ROWS && is_matrix) type->shape[parameter->ndim - 1] = 1;
    if (shape == SLOT_COLUMNS && is_matrix) type->shape[parameter->ndim - 2] = 1;
    return shape == SLOT_LIKE_PARAMETER || (shape == SLOT_NO_MATRIX) != is_matrix;
}

bool minimize_follows(const weft_node *n) {
    const optimizer_kind *kind = optimizer_find(n->graph->model, ((const minimize_attrs *)n->attrs)->type);
    return kind && kind->follows;
}

bool minimize_is_still(const weft_node *n) {
    const weft_variable *v = NULL;
    if (minimize_follows(n)) v = variable_find(n->graph->model, ((const minimize_attrs *)n->attrs)->pattern);
    return v && v->is_frozen;
}

bool minimize_trains(const weft_node *n, const weft_variable *v) {
    const minimize_attrs *a = n->attrs;
    if (v->kind != VARIABLE_PARAMETER || v->is_frozen) return false;
    if (minimize_follows(n)) return strcmp(a->pattern, v->path) == 0;
    return !v->follows && path_matches(a->pattern, v->path);
}

bool optimizer_is_built(const minimize_attrs *a, const optimizer_kind *kind) {
    return !kind->update || (kind->build && a->amsgrad);
}
