/* reduce_kit.c - see reduce.h. */
#include "ops/reduce/reduce.h"

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
    c->n_out = 1;
    return true;
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

weft_status reduce_reference(const kernel_call *c) {
    const sum_attrs *a = c->attrs;
    const tensor *x = &c->in[0], *y = &c->out[0];
    reduce_kind kind = reduce_kind_of(c->node->op);
    tensor_type inner = type_scalar(x->type.dtype); /* shape of the reduced axes alone */
    tensor_type kept = x->type;                     /* that of x with length 1 at the reduced axes */
    unsigned mask = sum_axes(a, x->type.ndim);
    int inner_axis[WEFT_MAX_NDIM];
    for (int i = 0; i < x->type.ndim; i++)
        if (mask >> i & 1) {
            inner_axis[inner.ndim] = i;
            inner.shape[inner.ndim++] = x->type.shape[i];
            kept.shape[i] = 1;
        }
    int64_t at[WEFT_MAX_NDIM] = {0}, to[WEFT_MAX_NDIM] = {0};
    do {
        int64_t in[WEFT_MAX_NDIM] = {0};
        double result = first(kind);
        do {
            int64_t from[WEFT_MAX_NDIM];
            for (int i = 0; i < x->type.ndim; i++) from[i] = at[i];
            for (int i = 0; i < inner.ndim; i++) from[inner_axis[i]] = in[i];
            result = join(kind, result, element_get(x, from));
        } while (index_next(&inner, in));
        element_set(y, to, result / sum_divisor(a, type_elements(&inner)));
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

/* ---- amax and amin ---- */

const op_attr reduce_extremum_attrs[] = {REDUCE_ATTRS, {0}};

bool reduce_extremum_infer(op_call *c) {
    return reduce_infer(c, op_in(c, 0)->dtype);
}

const op_sample reduce_extremum_samples[] = {
    {"f32[2,3,4]", "axes=1", .out = "f32[2,4]"},
    {"f32[2,3,4]", "axes=-1,0 keep=1", .out = "f32[1,3,1]"},
    {"f32[2,3]", .out = "f32[]"},
    {"f32[]", .out = "f32[]"},
    {"f16[2,3,4]", "axes=1", .out = "f16[2,4]", .no_gradient = true},
    {"bf16[33,70]", "axes=1", .out = "bf16[33]", .no_gradient = true},
    {"bool[5,7]", "axes=0", .out = "bool[7]", .below = 2},
    {"u8[300,41]", "axes=1", .out = "u8[300]", .below = 256},
    {"u8[4,64,48]", "axes=2", .below = 256},
    {"i32[6,5]", "axes=0", .out = "i32[5]", .below = 1000},
    {"i64[3,9]", .out = "i64[]", .below = 1000},
    {"f32[33,70]", "axes=0", .out = "f32[70]"},
    {"f32[33,70]", "axes=1", .out = "f32[33]"},
    {"f32[3,5,4,7]", "axes=0,2,3", .out = "f32[5]"},
    /* many chunks, narrow rows, rows of more than a tile; no gradient checks:
     * the nearest elements are closer than the differences */
    {"f32[40001]", .no_gradient = true},
    {"f32[9000,3]", "axes=0", .no_gradient = true},
    {"f32[150,1100]", "axes=0", .no_gradient = true},
    {"f32[3,5000,7]", "axes=1", .no_gradient = true},
    {"f32[2,19,11,13]", "axes=0,2,3", .no_gradient = true},
    {"f32[2,3]", "axes=2", .error = "has no axis 2"},
    {"f32[2,3]", "axes=1,-1", .error = "axis 1 is named twice"},
    {0},
};

/* dx is dy / (number of equal ones) where x is equal to y, as in PyTorch; where y is NaN nothing is equal,
 * and dx is dy 0 / 0, NaN. */
void reduce_extremum_gradient(weft_node *n, weft_value *const *dout, const bool *wanted, weft_value **din) {
    const sum_attrs *a = n->attrs;
    weft_value *x = n->in[0], *y = reduce_kept(n, &n->out[0]), *dy = reduce_kept(n, dout[0]);
    weft_value *chosen = weft_cast(weft_equal(x, y), x->type.dtype);
    (void)wanted;
    weft_value *number = weft_sum(chosen, a->axes.n, a->axes.n ? a->axes.v : NULL, true);
    din[0] = weft_mul(chosen, weft_div(dy, number));
}

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
    weft_graph *g = x->node->graph;
    if (wants_float && !dtype_is_float(x->type.dtype))
        return model_fail(g->model, g, WEFT_TYPE, "%s: x is %s: it must be floating point: use weft_cast",
                          name, TYPE(&x->type));
    return axes_fit(&x->type, &list, why) || model_fail(g->model, g, WEFT_SHAPE, "%s: %s", name, why);
}

weft_value *reduce_root(weft_value *v, double exponent, place p) {
    v = placed(v, p);
    return op_value(&weft_op_root, 1, &v, &(number_attrs){exponent});
}

weft_value *reduce_squeeze(weft_value *y, int n_axes, const int64_t *axes, place p) {
    sum_attrs a = {0};
    if (!y || !axes_attr(y->node->graph, "squeeze", &a.axes, n_axes, axes)) return NULL;
    unsigned mask = sum_axes(&a, y->type.ndim);
    for (int i = y->type.ndim - 1; i >= 0; i--)
        if (mask >> i & 1) y = weft_squeeze(placed(y, p), i);
    return y;
}
