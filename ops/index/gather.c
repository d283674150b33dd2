/* gather.c - elements of x by their place along one axis; torch.gather, and with `broadcast`
 * torch.take_along_dim:
 *     y[i, j, k] = x[i, ids[i, j, k], k]  (axis 1)
 * y has the shape of ids, after broadcasting. An id outside the axis fails the run. dx is scatter_add into
 * zeros. index_select is it with ids along one axis. */
#include "ops/index/index.h"

static bool infer(op_call *c) {
    index_loop loop;
    if (!index_want_loop(c, &loop)) return false;
    c->out[0] = loop.shape;
    return true;
}

static void gradient(weft_node *n, weft_value *const *dout, const bool *wanted, weft_value **din) {
    weft_value *x = n->in[0], *ids = n->in[1];
    index_loop loop;
    if (!wanted[0] || !index_loop_of(n->attrs, &x->type, &ids->type, &loop)) return;
    weft_value *zeros = index_zeros(x, &loop, x->type.dtype);
    weft_value *in[] = {zeros, ids, dout[0]};
    din[0] = zeros ? sum_to(node_value(n->graph, &weft_op_scatter_add, 3, in, n->attrs), x) : NULL;
}

static weft_status reference(const kernel_call *c) {
    const tensor *x = &c->in[0], *ids = &c->in[1], *y = &c->out[0];
    index_loop loop;
    if (!index_loop_of(c->attrs, &x->type, &ids->type, &loop)) return WEFT_INTERNAL;
    weft_status status = index_check_ids(c, ids, loop.length);
    if (status) return status;
    int64_t at[WEFT_MAX_NDIM] = {0}, from[WEFT_MAX_NDIM];
    do {
        index_target(&loop, ids, x, at, from);
        element_copy(y, at, x, from);
    } while (index_next(&y->type, at));
    return WEFT_OK;
}

const weft_op weft_op_gather = {
    .name = "gather",
    .torch = "torch.gather",
    .summary = "elements by their place along an axis",
    .min_in = 2,
    .flags = OP_MOVES,
    OP_ATTRS(index_attrs, index_attr_table),
    .reference_strided = 3,
    .precision = PRECISION_FOLLOWS,
    .infer = infer,
    .gradient = gradient,
    .reference = reference,
    .samples =
        (const op_sample[]){{"f32[4,3], i64[5,3]", .out = "f32[5,3]"},
                            {"f32[2,5,4,3], i32[2,3,4,3]", "axis=1", .out = "f32[2,3,4,3]"},
                            {"f32[3,4,6], u8[2,7,4]", "axis=-2", .out = "f32[2,7,4]"}, /* shorter axes */
                            {"f32[37,10], i64[37,1]", "axis=1", .out = "f32[37,1]"},
                            {"f32[3,5,7], i64[1,6,1]", "axis=1 broadcast=1", .out = "f32[3,6,7]"},
                            {"f32[5,1,7], i32[1,4,3]", "axis=2 broadcast=1", .out = "f32[5,4,3]"},
                            {"f32[1,300], i64[65,1,300]", .error = "as many axes"},
                            {"f32[65,100], i32[40,1]", "broadcast=1", .below = 65},
                            {"i64[9], i64[4]", .out = "i64[4]"},
                            {"bool[4,4], i64[2,4]", .out = "bool[2,4]"},
                            {"u16[4,67], i64[2,67]", .out = "u16[2,67]"},
                            {"u32[4,3], u16[2,3]", .error = "ids are u16[2,3]: they must be integer"},
                            {"f32[4,3], f32[5,3]", .error = "ids are f32[5,3]: they must be integer"},
                            {"f32[4,3], i64[5,4]", .error = "outside axis 0 those of ids are not longer"},
                            {"f32[4,3], i64[5,2]", "broadcast=1", .error = "outside axis 0 they broadcast"},
                            {"f32[4,3], i64[5,3]", "axis=2", .error = "f32[4,3] has no axis 2"},
                            {"f32[], i64[]", .error = "f32[] has no axis 0"},
                            {0}},
};

weft_value *weft_gather(weft_value *x, int axis, weft_value *ids) {
    return op_value(&weft_op_gather, 2, (weft_value *[]){x, ids}, &(index_attrs){axis, false});
}

weft_value *weft_take_along_axis(weft_value *x, weft_value *ids, int axis) {
    return op_value(&weft_op_gather, 2, (weft_value *[]){x, ids}, &(index_attrs){axis, true});
}

weft_value *index_ids_along(const char *name, weft_value *x, int64_t axis, weft_value *ids) {
    int64_t shape[WEFT_MAX_NDIM];
    if (!axis_resolve(&axis, x->type.ndim))
        return value_fail(x, WEFT_SHAPE, "%s: %s has no axis %lld", name, TYPE(&x->type), (long long)axis);
    if (ids->type.ndim > 1)
        return value_fail(x, WEFT_SHAPE, "%s: ids are %s: they must have one axis", name, TYPE(&ids->type));
    for (int i = 0; i < x->type.ndim; i++) shape[i] = i == axis ? -1 : 1;
    return weft_reshape(ids, x->type.ndim, shape);
}

weft_value *weft_index_select(weft_value *x, int axis, weft_value *ids) {
    if (!x || !ids) return weft_gather(x, axis, ids);
    ids = index_ids_along("index_select", x, axis, ids);
    return ids ? weft_take_along_axis(x, ids, axis) : NULL;
}

weft_value *weft_index_add(weft_value *x, int axis, weft_value *ids, weft_value *src) {
    if (!x || !ids || !src) return weft_scatter_add(x, axis, ids, src);
    ids = index_ids_along("index_add", x, axis, ids);
    if (!ids) return NULL;
    return op_value(&weft_op_scatter_add, 3, (weft_value *[]){x, ids, src}, &(index_attrs){axis, true});
}
