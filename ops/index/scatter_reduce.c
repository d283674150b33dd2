/* scatter_reduce.c - x with elements of src joined to it at places along one axis; torch.scatter_reduce:
 *     y[i, ids[i, j, k], k] = join(y[i, ids[i, j, k], k], src[i, j, k])  (axis 1)
 * beginning with x, or at places that ids name with src alone. The op has products and extremes; sums and
 * means are scatter_add. What goes to one place is joined in the order of the axis. Gradients are PyTorch's:
 * equal extremes share it evenly; a product with one factor of 0 gives it the product of the others. */
#include "ops/index/index.h"

static const char *const words[] = {"prod", "amax", "amin", NULL};

static const op_attr attrs[] = {
    {"axis", ATTR_INT, offsetof(scatter_reduce_attrs, at.axis), -WEFT_MAX_NDIM, WEFT_MAX_NDIM - 1},
    {"broadcast", ATTR_BOOL, offsetof(scatter_reduce_attrs, at.broadcast)},
    {"join", ATTR_INT, offsetof(scatter_reduce_attrs, join), 0, SCATTER_AMIN, .words = words},
    {"fresh", ATTR_BOOL, offsetof(scatter_reduce_attrs, fresh)},
    {0},
};

static bool infer(op_call *c) {
    if (op_in(c, 0)->dtype == WEFT_BOOL)
        return op_fail(c, WEFT_TYPE, "%s is of truth values, which are not joined", TYPE(op_in(c, 0)));
    return index_infer_scatter(c);
}

/* ---- gradient ---- */

/* scatter, scatter_add and gather by n's ids. */
static weft_value *scattered(weft_node *n, const weft_op *op, weft_value *x, weft_value *src) {
    return node_value(n->graph, op, 3, (weft_value *[]){x, n->in[1], src}, n->attrs);
}

static weft_value *gathered(weft_node *n, weft_value *x) {
    return node_value(n->graph, &weft_op_gather, 2, (weft_value *[]){x, n->in[1]}, n->attrs);
}

/* src as the loop reads it: without the numbers that it does not. */
static weft_value *src_of(weft_node *n) {
    weft_value *src = n->in[2];
    index_loop loop;
    index_loop_of(n->attrs, &n->in[0]->type, &n->in[1]->type, &loop);
    for (int i = 0; i < src->type.ndim && src->type.ndim; i++)
        if (src->type.shape[i] > loop.shape.shape[i]) src = weft_slice(src, i, 0, loop.shape.shape[i]);
    return weft_broadcast_to(src, loop.shape.ndim, loop.shape.shape);
}

static weft_value *number_like(weft_value *like, double value) {
    return weft_constant(like->node->graph, like->type.dtype, 0, NULL, value);
}

/* Equal ones share dy: the element of x, unless `fresh`, and those of src. */
static void extreme_gradient(weft_node *n, weft_value *dy, const bool *wanted, weft_value **din) {
    bool fresh = ((const scatter_reduce_attrs *)n->attrs)->fresh;
    weft_value *x = n->in[0], *y = &n->out[0], *src = src_of(n);
    weft_value *own = weft_cast(weft_equal(x, y), dy->type.dtype);
    weft_value *same = weft_cast(weft_equal(src, gathered(n, y)), dy->type.dtype);
    if (fresh) own = scattered(n, &weft_op_scatter, own, number_like(dy, 0));
    weft_value *count = scattered(n, &weft_op_scatter_add, own, same);
    /* NaN is equal to nothing: none to share with */
    weft_value *share = weft_div(dy, weft_maximum(count, number_like(dy, 1)));
    if (wanted[0]) din[0] = weft_mul(own, share);
    if (wanted[2]) din[2] = index_to_src(weft_mul(same, gathered(n, share)), n->in[2]);
}

/* dy times the product of the other factors. y / x where no factor is 0; where one is, the product is made
 * again with 1 in its place. */
static void product_gradient(weft_node *n, weft_value *dy, const bool *wanted, weft_value **din) {
    bool fresh = ((const scatter_reduce_attrs *)n->attrs)->fresh;
    weft_value *x = n->in[0], *y = &n->out[0], *src = src_of(n);
    weft_value *zero = number_like(x, 0), *one = number_like(x, 1);
    if (wanted[0]) {
        weft_value *whole = weft_where(weft_equal(x, zero), one, x);
        weft_value *in[] = {whole, n->in[1], n->in[2]};
        whole = weft_div(node_value(n->graph, n->op, 3, in, n->attrs), whole);
        din[0] = weft_mul(dy, whole);
        if (fresh) din[0] = scattered(n, &weft_op_scatter, din[0], zero);
    }
    if (!wanted[2]) return;
    weft_value *is_zero = weft_equal(src, zero);
    weft_value *none = weft_broadcast_to(zero, x->type.ndim, x->type.shape);
    weft_value *zeros = scattered(n, &weft_op_scatter_add, none, weft_cast(is_zero, x->type.dtype));
    weft_value *alone = weft_logical_and(is_zero, weft_equal(gathered(n, zeros), one));
    weft_value *others = weft_where(alone, one, src), *in[] = {x, n->in[1], others};
    others = gathered(n, node_value(n->graph, n->op, 3, in, n->attrs));
    weft_value *own = weft_where(is_zero, one, src), *rest = weft_div(gathered(n, y), own);
    rest = weft_where(is_zero, zero, rest);
    rest = weft_where(alone, others, rest);
    din[2] = index_to_src(weft_mul(gathered(n, dy), rest), n->in[2]);
}

static void gradient(weft_node *n, weft_value *const *dout, const bool *wanted, weft_value **din) {
    if (((const scatter_reduce_attrs *)n->attrs)->join == SCATTER_PROD)
        product_gradient(n, dout[0], wanted, din);
    else
        extreme_gradient(n, dout[0], wanted, din);
}

/* ---- reference ---- */

double scatter_join(int64_t kind, double a, double b) {
    if (kind == SCATTER_PROD) return a * b;
    if (isnan(a)) return a;
    return isnan(b) || (kind == SCATTER_AMAX ? b > a : b < a) ? b : a;
}

int64_t scatter_join_int(int64_t kind, int64_t a, int64_t b) {
    if (kind == SCATTER_PROD) return (int64_t)((uint64_t)a * (uint64_t)b);
    return (kind == SCATTER_AMAX ? b > a : b < a) ? b : a;
}

int64_t scatter_neutral_int(int64_t kind, weft_dtype dtype) {
    if (kind == SCATTER_PROD) return 1;
    bool low = kind == SCATTER_AMAX;
    if (dtype == WEFT_I64) return low ? INT64_MIN : INT64_MAX;
    if (dtype == WEFT_I32) return low ? INT32_MIN : INT32_MAX;
    return low ? 0 : UINT8_MAX;
}

/* A product of a reduced type is rounded at each step: scatter_reduce runs in f32 where a model computes in
 * one. */
static weft_status reference(const kernel_call *c) {
    const tensor *x = &c->in[0], *ids = &c->in[1], *src = &c->in[2], *y = &c->out[0];
    const scatter_reduce_attrs *a = c->attrs;
    int64_t at[WEFT_MAX_NDIM] = {0}, from[WEFT_MAX_NDIM], to[WEFT_MAX_NDIM];
    index_loop loop;
    if (!index_loop_of(&a->at, &x->type, &ids->type, &loop)) return WEFT_INTERNAL;
    weft_status status = index_check_ids(c, ids, loop.length);
    if (status) return status;
    do element_copy(y, at, x, at);
    while (index_next(&y->type, at));
    /* fresh: places first hold what changes no element */
    for (int pass = a->fresh ? 0 : 1; pass < 2; pass++) do {
            index_target(&loop, ids, y, at, to);
            index_place(&loop, src, at, from);
            if (pass == 0 && dtype_is_float(y->type.dtype))
                element_set(y, to, scatter_neutral(a->join));
            else if (pass == 0)
                element_set_int(y, to, scatter_neutral_int(a->join, y->type.dtype));
            else if (dtype_is_float(y->type.dtype))
                element_set(y, to, scatter_join(a->join, element_get(y, to), element_get(src, from)));
            else
                element_set_int(y, to, scatter_join_int(a->join, element_int(y, to), element_int(src, from)));
        } while (index_next(&loop.shape, at));
    return WEFT_OK;
}

const weft_op weft_op_scatter_reduce = {
    .name = "scatter_reduce",
    .torch = "torch.scatter_reduce",
    .summary = "x with elements multiplied to it, or the largest or smallest kept, at places along an axis",
    /* No precision: products run in f32. */
    .min_in = 3,
    .of_nothing = EMPTY_FIRST,
    .flags = OP_FROM_RESULT,
    OP_ATTRS(scatter_reduce_attrs, attrs),
    .reference_strided = 7,
    .in_place = 1,
    .infer = infer,
    .gradient = gradient,
    .reference = reference,
    .samples =
        (const op_sample[]){
            {"f32[4,3], i64[5,3], f32[5,3]", "join=prod", .out = "f32[4,3]"},
            {"f32[4,3], i64[5,3], f32[5,3]", "join=amax fresh=1", .out = "f32[4,3]"},
            {"f32[2,5,4,3], i32[2,3,4,3], f32[2,3,4,3]", "axis=1 join=amin"},
            {"f32[2,5,4,3], i32[2,3,4,3], f32[2,3,4,3]", "axis=1 join=prod fresh=1"},
            {"f32[3,4,6], u8[2,7,4], f32[3,8,4]", "axis=-2 join=amax", .out = "f32[3,4,6]"},
            {"f32[37,10], i64[37,1], f32[]", "axis=1 join=amin", .no_gradient = true},
            {"f32[3,5,7], i64[1,6,1], f32[3,6,7]", "axis=1 broadcast=1 join=prod"},
            {"f32[3,5,7], i64[3,6,1], f32[1,6,7]", "axis=1 broadcast=1 join=amax fresh=1"},
            {"f32[65,100], i32[40,1], f32[40,100]", "broadcast=1 join=amin", .below = 65},
            {"f32[9,65], i32[9,140], f32[9,140]", "axis=1 join=amax fresh=1", .below = 65},
            {"f32[9,65], i32[9,70], f32[9,70]", "axis=1 join=prod", .below = 65},
            {"i64[9], i64[4], i64[4]", "join=amax fresh=1", .out = "i64[9]"},
            {"i32[9,3], i64[40,3], i32[40,3]", "join=amin fresh=1", .out = "i32[9,3]"},
            {"u8[9], i64[4], u8[4]", "join=amin fresh=1", .out = "u8[9]"},
            {"u8[9], i64[4], u8[]", "join=prod", .out = "u8[9]"},
            {"bool[4,4], i64[2,4], bool[2,4]", "join=amax", .error = "which are not joined"},
            {"f32[4,3], i64[5,3], i64[5,3]", "join=amax", .error = "differ in their element"},
            {"f32[4,3], i64[5,3], f32[4,3]", "join=prod", .error = "at least as many elements"},
            {0}},
};

/* ---- builders ---- */

/* x with 0 where ids name a place, unless its elements are joined. */
static weft_value *begun(weft_value *x, weft_value *ids, index_attrs at, bool include_self) {
    weft_value *zero = include_self ? x : weft_constant(x->node->graph, x->type.dtype, 0, NULL, 0);
    return include_self ? x : op_value(&weft_op_scatter, 3, (weft_value *[]){x, ids, zero}, &at);
}

static weft_value *sum_at(weft_value *x, weft_value *ids, weft_value *src, index_attrs at) {
    return op_value(&weft_op_scatter_add, 3, (weft_value *[]){x, ids, src}, &at);
}

/* The sum divided by how many it has, which is 1 where no id names the place. */
static weft_value *mean_at(weft_value *x, weft_value *ids, weft_value *src, index_attrs at,
                           bool include_self) {
    weft_value *sum = sum_at(begun(x, ids, at, include_self), ids, src, at);
    if (!sum) return NULL;
    weft_value *one = weft_constant(x->node->graph, x->type.dtype, 0, NULL, 1);
    weft_value *count = weft_add(zeros_like(x), one);
    count = sum_at(count ? begun(count, ids, at, include_self) : NULL, ids, one, at);
    return dtype_is_float(x->type.dtype) ? weft_div(sum, count) : weft_floor_divide(sum, count);
}

static weft_value *reduce_at(weft_value *x, weft_value *ids, weft_value *src, index_attrs at,
                             weft_scatter_reduction reduction, bool include_self) {
    scatter_reduce_attrs a = {.at = at, .fresh = !include_self};
    switch (reduction) {
    case WEFT_SCATTER_SUM:
        return sum_at(begun(x, ids, at, include_self), ids, src, at);
    case WEFT_SCATTER_MEAN:
        return mean_at(x, ids, src, at, include_self);
    case WEFT_SCATTER_PROD:
        a.join = SCATTER_PROD;
        break;
    case WEFT_SCATTER_AMAX:
        a.join = SCATTER_AMAX;
        break;
    case WEFT_SCATTER_AMIN:
        a.join = SCATTER_AMIN;
        break;
    default:
        return value_fail(x, WEFT_ARGUMENT, "scatter_reduce: reduction %d: it must be 0 to 4",
                          (int)reduction);
    }
    return op_value(&weft_op_scatter_reduce, 3, (weft_value *[]){x, ids, src}, &a);
}

weft_value *weft_scatter_reduce(weft_value *x, int axis, weft_value *ids, weft_value *src,
                                weft_scatter_reduction reduction, bool include_self) {
    if (!x || !ids || !src) return weft_scatter_add(x, axis, ids, src);
    return reduce_at(x, ids, src, (index_attrs){axis, false}, reduction, include_self);
}

weft_value *weft_index_reduce(weft_value *x, int axis, weft_value *ids, weft_value *src,
                              weft_scatter_reduction reduction, bool include_self) {
    if (!x || !ids || !src) return weft_scatter_add(x, axis, ids, src);
    ids = index_ids_along("index_reduce", x, axis, ids);
    return ids ? reduce_at(x, ids, src, (index_attrs){axis, true}, reduction, include_self) : NULL;
}
