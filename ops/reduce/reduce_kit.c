/* reduce_kit.c - see reduce.h. */
#include "ops/reduce/reduce.h"

#include "ops/kit/integer.h"

#include <math.h>
#include <stdio.h>

unsigned sum_axes(const sum_attrs *a, int ndim) {
    unsigned mask = a->axes.n ? 0 : (1u << ndim) - 1;
    for (int i = 0; i < a->axes.n; i++) {
        int64_t axis = a->axes.v[i];
        if (axis_resolve(&axis, ndim)) mask |= 1u << axis;
    }
    return mask;
}

double sum_divisor(const sum_attrs *a, int64_t count) {
    return a->mean ? fmax(0, (double)count - a->correction) : 1;
}

reduce_kind reduce_kind_of(const weft_op *op) {
    return op == &weft_op_amax   ? REDUCE_MAX
           : op == &weft_op_amin ? REDUCE_MIN
           : op == &weft_op_prod ? REDUCE_PROD
                                 : REDUCE_SUM;
}

/* Whether x has these axes, each once; else `why`. */
static bool axes_fit(const tensor_type *x, const attr_ints *axes, char why[300]) {
    unsigned seen = 0; /* bit i: axis i was named */
    for (int i = 0; i < axes->n; i++) {
        int64_t axis = axes->v[i];
        bool exists = axis_resolve(&axis, x->ndim), twice = exists && seen >> axis & 1;
        if (!exists) snprintf(why, 300, "%s has no axis %lld", TYPE(x), (long long)axis);
        if (twice) snprintf(why, 300, "axis %lld is named twice", (long long)axis);
        if (!exists || twice) return false;
        seen |= 1u << axis;
    }
    return true;
}

bool reduce_infer(op_call *c, weft_dtype dtype) {
    const sum_attrs *a = c->attrs;
    const tensor_type *x = op_in(c, 0);
    tensor_type *out = &c->out[0];
    char why[300];
    if (!axes_fit(x, &a->axes, why)) return op_fail(c, WEFT_SHAPE, "%s", why);
    unsigned mask = sum_axes(a, x->ndim);
    *out = type_scalar(dtype);
    for (int i = 0; i < x->ndim; i++)
        if (!(mask >> i & 1))
            out->shape[out->ndim++] = x->shape[i];
        else if (a->keep)
            out->shape[out->ndim++] = 1;
    return true;
}

weft_dtype reduce_total(weft_dtype dtype) {
    return dtype_is_float(dtype) ? dtype : WEFT_I64;
}

static double first(reduce_kind kind) {
    return kind == REDUCE_MAX ? -INFINITY : kind == REDUCE_MIN ? INFINITY : kind == REDUCE_PROD ? 1 : 0;
}

/* A NaN, once met, stays: it is neither above nor below. */
static double join(reduce_kind kind, double a, double b) {
    switch (kind) {
    case REDUCE_MAX:
        return a != a || a > b ? a : b;
    case REDUCE_MIN:
        return a != a || a < b ? a : b;
    case REDUCE_PROD:
        return a * b;
    default:
        return a + b;
    }
}

/* The same of integers, exactly: sums and products are modulo 2^64. */
static int64_t first_int(reduce_kind kind) {
    return kind == REDUCE_MAX ? INT64_MIN : kind == REDUCE_MIN ? INT64_MAX : kind == REDUCE_PROD;
}

static int64_t join_int(reduce_kind kind, int64_t a, int64_t b) {
    switch (kind) {
    case REDUCE_MAX:
        return a > b ? a : b;
    case REDUCE_MIN:
        return a < b ? a : b;
    case REDUCE_PROD:
        return int_mul(a, b);
    default:
        return int_add(a, b);
    }
}

/* The elements of one result: `inner` is the shape of the reduced axes alone. */
typedef struct reduced {
    const kernel_call *c;
    reduce_kind kind;
    tensor_type inner;
    int axis[WEFT_MAX_NDIM]; /* of the operand */
} reduced;

/* The index of element `in` of the result whose elements begin at `at`. */
static void place_in(const reduced *r, const int64_t *at, const int64_t *in, int64_t from[WEFT_MAX_NDIM]) {
    for (int i = 0; i < r->c->in[0].type.ndim; i++) from[i] = at[i];
    for (int i = 0; i < r->inner.ndim; i++) from[r->axis[i]] = in[i];
}

static double fold(const reduced *r, const int64_t *at) {
    int64_t in[WEFT_MAX_NDIM] = {0}, from[WEFT_MAX_NDIM];
    double result = first(r->kind);
    do {
        place_in(r, at, in, from);
        result = join(r->kind, result, element_get(&r->c->in[0], from));
    } while (index_next(&r->inner, in));
    return result;
}

static int64_t fold_int(const reduced *r, const int64_t *at) {
    int64_t in[WEFT_MAX_NDIM] = {0}, from[WEFT_MAX_NDIM], result = first_int(r->kind);
    do {
        place_in(r, at, in, from);
        result = join_int(r->kind, result, element_int(&r->c->in[0], from));
    } while (index_next(&r->inner, in));
    return result;
}

weft_status reduce_reference(const kernel_call *c) {
    const tensor *x = &c->in[0], *y = &c->out[0];
    reduced r = {.c = c, .kind = reduce_kind_of(c->node->op), .inner = type_scalar(x->type.dtype)};
    tensor_type kept = x->type; /* that of x with length 1 at the reduced axes */
    unsigned mask = sum_axes(c->attrs, x->type.ndim);
    for (int i = 0; i < x->type.ndim; i++)
        if (mask >> i & 1) {
            r.axis[r.inner.ndim] = i;
            r.inner.shape[r.inner.ndim++] = x->type.shape[i];
            kept.shape[i] = 1;
        }
    int64_t at[WEFT_MAX_NDIM] = {0}, to[WEFT_MAX_NDIM] = {0};
    do {
        if (dtype_is_float(x->type.dtype))
            element_set(y, to, fold(&r, at) / sum_divisor(c->attrs, type_elements(&r.inner)));
        else
            element_set_int(y, to, fold_int(&r, at));
        index_next(&y->type, to);
    } while (index_next(&kept, at));
    return WEFT_OK;
}

weft_value *reduce_kept(const weft_node *n, weft_value *v) {
    tensor_type kept = n->in[0]->type;
    unsigned mask = sum_axes(n->attrs, kept.ndim);
    for (int i = 0; i < kept.ndim; i++)
        if (mask >> i & 1) kept.shape[i] = 1;
    kept.dtype = v ? v->type.dtype : kept.dtype;
    return v && !shape_equal(&v->type, &kept) ? weft_reshape(v, kept.ndim, kept.shape) : v;
}

/* ---- the builder ---- */

/* Puts the caller's axes into an attribute; false after recording the error. */
static bool axes_attr(weft_graph *g, const char *name, attr_ints *into, int n_axes, const int64_t *axes) {
    if (n_axes == 0 && axes)
        return model_fail(g->model, g, WEFT_ARGUMENT,
                          "%s: 0 axes of a list: for all axes pass NULL (none would leave x as it is)", name);
    if (n_axes && !axes)
        return model_fail(g->model, g, WEFT_ARGUMENT,
                          "%s: %d axes, and their list is NULL: pass 0 for all axes", name, n_axes);
    return shape_attr(g, name, into, n_axes, axes);
}

weft_value *reduce_value(const weft_op *op, weft_value *x, int n_axes, const int64_t *axes, sum_attrs a) {
    if (!x || !axes_attr(x->node->graph, op->name, &a.axes, n_axes, axes)) return NULL;
    return node_value(x->node->graph, op, 1, &x, &a);
}

/* ---- builders of several ops ---- */

bool reduce_fits(const char *name, const weft_value *x, bool wants_float, int n_axes, const int64_t *axes) {
    attr_ints list = {0};
    char why[300];
    if (!x || !axes_attr(x->node->graph, name, &list, n_axes, axes)) return false;
    if (wants_float && !dtype_is_float(x->type.dtype))
        return value_fail(x, WEFT_TYPE, "%s: x is %s: it must be floating point: use weft_cast", name,
                          TYPE(&x->type));
    return axes_fit(&x->type, &list, why) || value_fail(x, WEFT_SHAPE, "%s: %s", name, why);
}

bool reduce_is_empty(const weft_value *x, int n_axes, const int64_t *axes) {
    sum_attrs a = {0};
    if (!axes_attr(x->node->graph, "reduce", &a.axes, n_axes, axes)) return false;
    unsigned mask = sum_axes(&a, x->type.ndim);
    for (int i = 0; i < x->type.ndim; i++)
        if ((mask >> i & 1) && x->type.shape[i] == 0) return true;
    return false;
}

weft_value *reduce_root(weft_value *v, double exponent) {
    return op_value(&weft_op_root, 1, &v, &(number_attrs){exponent});
}

weft_value *reduce_squeeze(weft_value *y, int n_axes, const int64_t *axes) {
    sum_attrs a = {0};
    if (!y || !axes_attr(y->node->graph, "squeeze", &a.axes, n_axes, axes)) return NULL;
    unsigned mask = sum_axes(&a, y->type.ndim);
    for (int i = y->type.ndim - 1; i >= 0; i--)
        if (mask >> i & 1) y = weft_squeeze(y, i);
    return y;
}
