/* infer.c - what the infer functions of ops share: errors, and checks of operands and shapes. */
#include "graph/core/graph.h"

#include <stdarg.h>
#include <stdio.h>

/* The op's name comes first in every message of an infer. */
bool op_fail(const op_call *c, weft_status status, const char *format, ...) {
    char message[700];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    graph_fail(c->graph, status, "%s: %s", c->op->name, message);
    return false;
}

const tensor_type *op_in(const op_call *c, int i) {
    return &c->in[i]->type;
}

bool op_want_float(const op_call *c, int i) {
    if (dtype_is_float(op_in(c, i)->dtype)) return true;
    return op_fail(c, WEFT_TYPE, "operand %d is %s: it must be floating point (cast it)", i,
                   TYPE(op_in(c, i)));
}

bool op_want_number(const op_call *c, int i) {
    weft_dtype dtype = op_in(c, i)->dtype;
    if (!c->op->integer) return op_want_float(c, i);
    if (dtype_is_float(dtype)) return true;
    return dtype_is_wide(dtype) ||
           op_fail(c, WEFT_TYPE, "operand %d is %s: it must be floating point, i32 or i64 (cast it)", i,
                   TYPE(op_in(c, i)));
}

bool op_want_same_dtype(const op_call *c) {
    for (int i = 1; i < c->n_in; i++)
        if (c->in[i] && op_in(c, i)->dtype != op_in(c, 0)->dtype)
            return op_fail(c, WEFT_TYPE, "operands are %s and %s: cast one to the other's type",
                           TYPE(op_in(c, 0)), TYPE(op_in(c, i)));
    return true;
}

bool op_want_beside(const op_call *c, int i, int of) {
    if (i >= c->n_in || !c->in[i]) return true;
    weft_dtype own = op_in(c, i)->dtype, other = op_in(c, of)->dtype;
    return own == other || own == dtype_accumulator(other) ||
           op_fail(c, WEFT_TYPE, "operands are %s and %s: cast one to the other's type", TYPE(op_in(c, of)),
                   TYPE(op_in(c, i)));
}

bool op_want_axis(const op_call *c, int64_t *axis) {
    int64_t given = *axis;
    return axis_resolve(axis, op_in(c, 0)->ndim) ||
           op_fail(c, WEFT_SHAPE, "%s has no axis %jd", TYPE(op_in(c, 0)), given);
}

bool infer_same(op_call *c) {
    return op_want_number(c, 0);
}

/* Reports the first pair of axes, from the last axis on, that does not fit. */
static bool broadcast_fail(const op_call *c, const tensor_type *a, const tensor_type *b) {
    int most = a->ndim > b->ndim ? a->ndim : b->ndim;
    for (int i = 0; i < most; i++) {
        int ia = a->ndim - 1 - i, ib = b->ndim - 1 - i;
        if (ia < 0 || ib < 0 || a->shape[ia] == b->shape[ib] || a->shape[ia] == 1 || b->shape[ib] == 1)
            continue;
        return op_fail(c, WEFT_SHAPE, "%s and %s do not broadcast: axis -%d is %jd and %jd", TYPE(a), TYPE(b),
                       i + 1, a->shape[ia], b->shape[ib]);
    }
    return op_fail(c, WEFT_SHAPE, "%s and %s do not broadcast", TYPE(a), TYPE(b));
}

bool infer_broadcast(op_call *c) {
    if (!op_want_same_dtype(c) || !op_want_number(c, 0)) return false;
    for (int i = 1; i < c->n_in; i++)
        if (!shape_broadcast(&c->out[0], op_in(c, i), &c->out[0]))
            return broadcast_fail(c, &c->out[0], op_in(c, i));
    return true;
}

/* Unlike infer_broadcast for gradient ops, whose operands already have the result's shape. */
bool infer_alike(op_call *c) {
    if (!op_want_same_dtype(c) || !op_want_number(c, 0)) return false;
    for (int i = 1; i < c->n_in; i++)
        if (!shape_equal(op_in(c, i), op_in(c, 0)))
            return op_fail(c, WEFT_SHAPE, "operand %d is %s, operand 0 %s: they must have one shape", i,
                           TYPE(op_in(c, i)), TYPE(op_in(c, 0)));
    return true;
}

/* ---- shapes in attributes ---- */

bool shape_attr(weft_graph *g, const char *op, attr_ints *into, int ndim, const int64_t *shape) {
    if (ndim < 0 || ndim > WEFT_MAX_NDIM || (ndim && !shape))
        return graph_fail(g, WEFT_SHAPE, "%s: %d axes, 0 to %d are allowed", op, ndim, WEFT_MAX_NDIM);
    into->n = ndim;
    for (int i = 0; i < ndim; i++) into->v[i] = shape[i];
    return true;
}

bool shape_bind(const op_call *c, tensor_type *type) {
    for (int i = 0; i < type->ndim; i++)
        if (type->shape[i] == WEFT_BATCH) type->shape[i] = c->graph->model->batch;
    return true;
}
