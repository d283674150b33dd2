/* index_put.c - x with values put at the places that index takes (places.h), or added to it; torch.index_put.
 * Values broadcast to what index gives. Where several ids name one place, the last, in the row-major order of
 * the ids, is kept, or all are added in that order, so the bits do not depend on threads. dx is dy with zeros
 * at these places, or dy; dvalues is index of dy, 0 for an element that a later one replaced. */
#include "ops/index/places.h"

static const op_attr attrs[] = {
    {"axes", ATTR_INTS, offsetof(places_attrs, axes), 0, WEFT_MAX_NDIM - 1},
    {"accumulate", ATTR_BOOL, offsetof(places_attrs, accumulate)},
    {0},
};

static bool infer(op_call *c) {
    places_loop loop;
    tensor_type all;
    if (!places_want_loop(c, 1, &loop)) return false;
    const tensor_type *x = op_in(c, 0), *values = op_in(c, c->n_in - 1);
    if (values->dtype != x->dtype)
        return op_fail(c, WEFT_TYPE, "%s and values %s differ in their element type", TYPE(x), TYPE(values));
    if (x->dtype == WEFT_BOOL && ((const places_attrs *)c->attrs)->accumulate)
        return op_fail(c, WEFT_TYPE, "%s is of truth values, which are not added", TYPE(x));
    if (!shape_broadcast(values, &loop.shape, &all) || !shape_equal(&all, &loop.shape))
        return op_fail(c, WEFT_SHAPE, "values are %s: they must broadcast to what the ids name, %s",
                       TYPE(values), TYPE(&loop.shape));
    return true;
}

/* A node of `op` over the ids of n, of x, and of values that may be NULL. */
static weft_value *by_ids(weft_node *n, const weft_op *op, weft_value *x, weft_value *values,
                          places_attrs a) {
    weft_value *in[WEFT_MAX_NDIM + 2];
    int count = n->n_in - 1;
    in[0] = x;
    for (int k = 1; k < count; k++) in[k] = n->in[k];
    if (values) in[count++] = values;
    return x ? node_value(n->graph, op, count, in, &a) : NULL;
}

/* 1 at each place of the ids whose values are in the result: the number that index reads back is its own. */
static weft_value *stays(weft_node *n, const places_loop *loop) {
    int64_t table[WEFT_MAX_NDIM], shape[WEFT_MAX_NDIM];
    int ndim = loop->ids.ndim;
    places_attrs a = {.axes.n = loop->n};
    for (int k = 0; k < loop->n; k++) {
        a.axes.v[k] = k;
        table[k] = n->in[0]->type.shape[loop->axis[k]];
    }
    weft_value *number = weft_arange(n->graph, WEFT_I64, 0, (double)type_elements(&loop->ids), 1);
    number = weft_reshape(number, ndim, loop->ids.shape);
    weft_value *last = weft_broadcast_to(weft_constant(n->graph, WEFT_I64, 0, NULL, 0), loop->n, table);
    last = by_ids(n, n->op, last, number, a);
    weft_value *kept = weft_equal(by_ids(n, &weft_op_index, last, NULL, a), number);
    for (int i = 0; i < ndim; i++) shape[i] = loop->ids.shape[i];
    for (int i = loop->first + ndim; i < loop->shape.ndim; i++) shape[ndim++] = 1;
    return weft_reshape(kept, ndim, shape);
}

static void gradient(weft_node *n, weft_value *const *dout, const bool *wanted, weft_value **din) {
    const places_attrs *a = n->attrs;
    weft_value *dy = dout[0], *zero = weft_constant(n->graph, dy->type.dtype, 0, NULL, 0);
    places_loop loop;
    if (places_loop_of(a, n->in, &loop)) return;
    if (wanted[0]) din[0] = a->accumulate ? dy : by_ids(n, n->op, dy, zero, *a);
    if (!wanted[n->n_in - 1]) return;
    weft_value *taken = by_ids(n, &weft_op_index, dy, NULL, (places_attrs){.axes = a->axes});
    if (!a->accumulate) taken = weft_where(stays(n, &loop), taken, zero);
    din[n->n_in - 1] = sum_to(taken, n->in[n->n_in - 1]);
}

/* ---- reference ---- */

/* Element `at` of the loop, as a place of the values. */
static double value_at(const kernel_call *c, const places_loop *loop, const int64_t *at) {
    return element_broadcast(&c->in[c->n_in - 1], &loop->shape, at);
}

static bool is_same(const tensor_type *t, const int64_t *a, const int64_t *b) {
    for (int i = 0; i < t->ndim; i++)
        if (a[i] != b[i]) return false;
    return true;
}

/* The sum for the place that `at` names: in double, and rounded once, for results of a reduced type. Nothing
 * is done where an element before `at` names it, too. Quadratic: a reference. */
static void sum_reduced(const kernel_call *c, const places_loop *loop, const int64_t *at, const int64_t *to) {
    const tensor *y = &c->out[0];
    int64_t other[WEFT_MAX_NDIM] = {0}, place[WEFT_MAX_NDIM];
    double sum = element_get(y, to);
    bool is_later = false;
    do {
        is_later |= is_same(&loop->shape, other, at);
        places_target(c, loop, other, place);
        if (!is_same(&y->type, place, to)) continue;
        if (!is_later) return;
        sum += value_at(c, loop, other);
    } while (index_next(&loop->shape, other));
    element_set(y, to, sum);
}

static void put_one(const kernel_call *c, const places_loop *loop, const int64_t *at) {
    const tensor *values = &c->in[c->n_in - 1], *y = &c->out[0];
    int64_t to[WEFT_MAX_NDIM], from[WEFT_MAX_NDIM];
    places_target(c, loop, at, to);
    index_broadcast(values, &loop->shape, at, from);
    if (!((const places_attrs *)c->attrs)->accumulate)
        element_copy(y, to, values, from);
    else if (dtype_is_reduced(y->type.dtype))
        sum_reduced(c, loop, at, to);
    else if (dtype_is_float(y->type.dtype))
        element_set(y, to, element_get(y, to) + element_get(values, from));
    else
        element_set_int(y, to, (int64_t)((uint64_t)element_int(y, to) + (uint64_t)element_int(values, from)));
}

static weft_status reference(const kernel_call *c) {
    const tensor *x = &c->in[0], *y = &c->out[0];
    int64_t at[WEFT_MAX_NDIM] = {0};
    places_loop loop;
    if (places_loop_of(c->attrs, c->node->in, &loop)) return WEFT_INTERNAL;
    weft_status status = places_check(c, &loop);
    if (status) return status;
    do element_copy(y, at, x, at);
    while (index_next(&y->type, at));
    do put_one(c, &loop, at);
    while (index_next(&loop.shape, at));
    return WEFT_OK;
}

const weft_op weft_op_index_put = {
    .name = "index_put",
    .torch = "torch.index_put",
    .summary = "x with values put or added at ids for several axes",
    /* No precision: sums run in f32. */
    .min_in = 3,
    .max_in = WEFT_MAX_NDIM + 2,
    .of_nothing = EMPTY_FIRST,
    OP_ATTRS(places_attrs, attrs),
    .reference_strided = (1 << (WEFT_MAX_NDIM + 2)) - 1,
    .in_place = 1,
    .infer = infer,
    .gradient = gradient,
    .reference = reference,
    .samples =
        (const op_sample[]){
            {"f32[4,5], i64[6], i64[6], f32[6]", "axes=0,1", .out = "f32[4,5]"},
            {"f32[4,5], i64[6], i64[6], f32[]", "axes=0,1 accumulate=1", .out = "f32[4,5]"},
            {"f32[2,4,5,3], i64[6], i32[6], f32[2,6,3]", "axes=1,2"},
            {"f32[2,4,5,3], i64[6], i32[6], f32[6,1]", "axes=1,2 accumulate=1"},
            {"f32[4,2,5,3], i64[7], i64[7], f32[7,2,3]", "axes=0,2 accumulate=1"},
            {"f32[4,2,5,3], i64[7], i64[7], f32[1,1,3]", "axes=0,2"},
            {"f32[4,5,6], i64[3,1], i64[1,2], f32[3,2,6]", "axes=0,1", .least = -4, .below = 4},
            {"f32[5,3], i64[], f32[3]", "axes=0"},
            {"f32[5], i64[], f32[]", "axes=0 accumulate=1"},
            {"f32[2,3,5], u8[2,4], f32[2,4]", "axes=2 accumulate=1"},
            {"f32[37,9,40], i64[65], i64[65], f32[65,40]", "axes=0,1 accumulate=1", .below = 9},
            {"f32[9,40,37], i64[5,1], i64[70], f32[5,70,40]", "axes=0,2", .below = 9},
            {"f32[5,9], i64[700], f32[700,9]", "axes=0 accumulate=1", .no_gradient = true},
            {"bool[4,4], i64[2], i64[2], bool[2]", "axes=0,1", .out = "bool[4,4]"},
            {"i64[5,2], i64[3], i64[2]", "axes=0 accumulate=1", .out = "i64[5,2]"},
            {"i32[5,2], i64[30], i32[30,2]", "axes=0 accumulate=1", .out = "i32[5,2]"},
            {"u8[5,2], i64[3], u8[]", "axes=0 accumulate=1", .out = "u8[5,2]"},
            {"bool[4], i64[2], bool[2]", "axes=0 accumulate=1", .error = "are not added"},
            {"f32[4,3], i64[5], i64[5]", "axes=0", .error = "differ in their element type"},
            {"f32[4,3], i64[5], f32[5]", "axes=0", .error = "must broadcast to what the ids name"},
            {"f32[4,3], i64[5], i64[5], -", "axes=0,1", .error = "operand 3 is missing"},
            {"f32[4,3], i64[5], f32[5]", "axes=0,1", .error = "and values"},
            {0}},
};
