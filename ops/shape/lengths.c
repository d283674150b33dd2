/* lengths.c - see lengths.h. */
#include "ops/shape/lengths.h"

/* ---- shapes ---- */

/* Lengths of the twin of x; false where none of them differs. */
static bool twin_lengths(const weft_value *x, int64_t *there) {
    const tensor_type *twin = value_twin(x);
    bool differs = false;
    for (int i = 0; twin && twin->ndim == x->type.ndim && i < twin->ndim; i++) {
        there[i] = twin->shape[i];
        differs |= there[i] != x->type.shape[i];
    }
    return differs;
}

lengths lengths_of(const weft_value *x) {
    lengths l = {.n = x->type.ndim};
    for (int i = 0; i < l.n; i++) l.here[i] = x->type.shape[i];
    if (twin_lengths(x, l.there)) return l;
    for (int i = 0; i < l.n; i++) l.there[i] = i ? l.here[i] : 2 * l.here[i];
    return l;
}

bool axis_follows(const weft_value *x, int axis) {
    int64_t there[WEFT_MAX_NDIM];
    return twin_lengths(x, there) && there[axis] != x->type.shape[axis];
}

void lengths_insert(lengths *l, int at, int64_t length) {
    for (int i = l->n++; i > at; i--) {
        l->here[i] = l->here[i - 1];
        l->there[i] = l->there[i - 1];
    }
    l->here[at] = l->there[at] = length;
}

void lengths_remove(lengths *l, int at) {
    l->n--;
    for (int i = at; i < l->n; i++) {
        l->here[i] = l->here[i + 1];
        l->there[i] = l->there[i + 1];
    }
}

void lengths_merge(lengths *l, int first, int past) {
    if (first == past) lengths_insert(l, first, 1);
    for (int i = first + 1; i < past; i++) {
        l->here[first] *= l->here[first + 1];
        l->there[first] *= l->there[first + 1];
        lengths_remove(l, first + 1);
    }
}

void lengths_scale(lengths *l, int axis, int64_t n) {
    l->here[axis] *= n;
    l->there[axis] *= n;
}

void lengths_divide(lengths *l, int axis, int64_t n) {
    l->here[axis] /= n;
    l->there[axis] /= n;
}

void lengths_cut(lengths *l, int axis, int64_t n) {
    lengths_insert(l, axis + 1, n);
    lengths_divide(l, axis, n);
}

/* ---- reshapes ---- */

/* Whether axis i has the length of the batch. */
static bool is_batch(const weft_model *m, const lengths *l, int i) {
    return m->twin && l->here[i] == m->batch && l->there[i] == m->twin->batch;
}

int64_t axis_length(const weft_value *x, int axis) {
    lengths l = lengths_of(x);
    return axis_follows(x, axis) && is_batch(x->node->graph->model, &l, axis) ? WEFT_BATCH : l.here[axis];
}

weft_value *reshape_lengths(weft_value *x, const lengths *l) {
    int64_t shape[WEFT_MAX_NDIM + 1];
    int open = -1, follow = 0,
        others = 0; /* axes that follow the batch, and those of another length than it */
    if (!x) return NULL;
    const weft_model *m = x->node->graph->model;
    bool is_empty = false; /* then no axis may be -1 */
    for (int i = 0; i < l->n; i++) is_empty |= l->here[i] == 0;
    for (int i = 0; i < l->n; i++) {
        bool follows = l->here[i] != l->there[i], is_other = follows && !is_batch(m, l, i);
        follow += follows;
        others += is_other;
        if (is_other || (follows && open < 0)) open = i;
    }
    for (int i = 0; i < l->n; i++) {
        bool follows = l->here[i] != l->there[i];
        shape[i] = follows && is_batch(m, l, i) ? WEFT_BATCH : l->here[i];
        if (i == open && (follow == 1 || others <= 1) && !is_empty) shape[i] = -1;
    }
    return weft_reshape(x, l->n, shape);
}

weft_value *fixed_axis(weft_value *x, int axis) {
    int64_t shape[WEFT_MAX_NDIM];
    if (!x || !axis_follows(x, axis)) return x;
    lengths l = lengths_of(x);
    for (int i = 0; i < l.n; i++)
        shape[i] = i != axis && is_batch(x->node->graph->model, &l, i) ? WEFT_BATCH : l.here[i];
    return weft_reshape(x, l.n, shape);
}
