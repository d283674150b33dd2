/* scatter.c - x with elements of src put at places along one axis; torch.scatter:
 *     y[i, ids[i, j, k], k] = src[i, j, k]  (axis 1), and x elsewhere
 * Where several ids name one place, the last along the axis is kept, on every device; PyTorch leaves that
 * open. An id outside the axis fails the run. dx is dy with zeros at these places, dsrc is gather of dy, 0
 * for an element that a later one replaced. */
#include "ops/index/index.h"

/* 1 at each element of src that is in the result: the number that gather reads back is its own. */
static weft_value *is_kept(weft_node *n, const index_loop *loop) {
    weft_value *ids = n->in[1];
    int64_t shape[WEFT_MAX_NDIM];
    for (int i = 0; i < loop->shape.ndim; i++) shape[i] = i == loop->axis ? -1 : 1;
    weft_value *number = weft_arange(n->graph, WEFT_I64, 0, (double)loop->shape.shape[loop->axis], 1);
    number = weft_reshape(number, loop->shape.ndim, shape);
    number = weft_broadcast_to(number, loop->shape.ndim, loop->shape.shape);
    weft_value *last = index_zeros(n->in[0], loop, WEFT_I64);
    last = node_value(n->graph, n->op, 3, (weft_value *[]){last, ids, number}, n->attrs);
    return weft_equal(node_value(n->graph, &weft_op_gather, 2, (weft_value *[]){last, ids}, n->attrs),
                      number);
}

static void gradient(weft_node *n, weft_value *const *dout, const bool *wanted, weft_value **din) {
    weft_value *ids = n->in[1], *zero = weft_constant(n->graph, dout[0]->type.dtype, 0, NULL, 0);
    index_loop loop;
    if (!index_loop_of(n->attrs, &n->in[0]->type, &ids->type, &loop)) return;
    if (wanted[0]) din[0] = node_value(n->graph, n->op, 3, (weft_value *[]){dout[0], ids, zero}, n->attrs);
    if (!wanted[2]) return;
    weft_value *kept = is_kept(n, &loop);
    weft_value *all = node_value(n->graph, &weft_op_gather, 2, (weft_value *[]){dout[0], ids}, n->attrs);
    din[2] = index_to_src(weft_where(kept, all, zero), n->in[2]);
}

static weft_status reference(const kernel_call *c) {
    const tensor *x = &c->in[0], *ids = &c->in[1], *src = &c->in[2], *y = &c->out[0];
    int64_t at[WEFT_MAX_NDIM] = {0}, from[WEFT_MAX_NDIM], to[WEFT_MAX_NDIM];
    index_loop loop;
    if (!index_loop_of(c->attrs, &x->type, &ids->type, &loop)) return WEFT_INTERNAL;
    weft_status status = index_check_ids(c, ids, loop.length);
    if (status) return status;
    do element_copy(y, at, x, at);
    while (index_next(&y->type, at));
    do {
        index_target(&loop, ids, y, at, to);
        index_place(&loop, src, at, from);
        element_copy(y, to, src, from);
    } while (index_next(&loop.shape, at));
    return WEFT_OK;
}

const weft_op weft_op_scatter = {
    .name = "scatter",
    .torch = "torch.scatter",
    .summary = "x with elements put at places along an axis",
    .min_in = 3,
    .of_nothing = EMPTY_FIRST,
    OP_ATTRS(index_attrs, index_attr_table),
    .reference_strided = 7,
    .in_place = 1,
    .precision = PRECISION_FOLLOWS,
    .infer = index_infer_scatter,
    .gradient = gradient,
    .reference = reference,
    .samples =
        (const op_sample[]){{"f32[4,3], i64[5,3], f32[5,3]", .out = "f32[4,3]"},
                            {"f32[2,5,4,3], i32[2,3,4,3], f32[2,3,4,3]", "axis=1", .out = "f32[2,5,4,3]"},
                            {"f32[3,4,6], u8[2,7,4], f32[3,8,4]", "axis=-2", .out = "f32[3,4,6]"},
                            {"f32[37,10], i64[37,1], f32[]", "axis=1", .out = "f32[37,10]"},
                            {"f32[3,5,7], i64[1,6,1], f32[3,6,7]", "axis=1 broadcast=1", .out = "f32[3,5,7]"},
                            {"f32[3,5,7], i64[3,6,1], f32[1,6,7]", "axis=1 broadcast=1"},
                            {"f32[65,9], i32[140,9], f32[140,9]", .below = 65},
                            {"f32[9,65], i32[9,140], f32[9,140]", "axis=1", .below = 65},
                            {"i64[9], i64[4], i64[4]", .out = "i64[9]"},
                            {"bool[4,4], i64[2,4], bool[2,4]", .out = "bool[4,4]"},
                            {"f32[4,3], i64[5,3], i64[5,3]", .error = "differ in their element type"},
                            {"f32[4,3], i64[5,3], f32[4,3]", .error = "at least as many elements for ids"},
                            {"f32[4,1], i64[5,3], f32[5,3]", "broadcast=1", .error = "f32[4,1] is shorter"},
                            {"f32[4,3], f32[5,3], f32[5,3]", .error = "they must be integer"},
                            {0}},
};

weft_value *weft_scatter(weft_value *x, int axis, weft_value *ids, weft_value *src) {
    return op_value(&weft_op_scatter, 3, (weft_value *[]){x, ids, src}, &(index_attrs){axis, false});
}
