/* scatter_add.c - x with elements of src added at places along one axis; torch.scatter_add:
 *     y[i, ids[i, j, k], k] += src[i, j, k]  (axis 1), beginning with x
 * Elements that go to one place are added in the order of the axis, so the bits do not depend on threads. An
 * id outside the axis fails the run. Linear: dx is dy, dsrc is gather of dy. */
#include "ops/index/index.h"

static bool infer(op_call *c) {
    if (op_in(c, 0)->dtype == WEFT_BOOL)
        return op_fail(c, WEFT_TYPE, "%s is of truth values, which are not added", TYPE(op_in(c, 0)));
    return index_infer_scatter(c);
}

static void gradient(weft_node *n, weft_value *const *dout, const bool *wanted, weft_value **din) {
    weft_value *in[] = {dout[0], n->in[1]};
    if (wanted[0]) din[0] = dout[0];
    if (wanted[2]) din[2] = index_to_src(node_value(n->graph, &weft_op_gather, 2, in, n->attrs), n->in[2]);
}

/* The sum for the place that the id at `at` names: in double, and rounded once, for results of a reduced
 * type. `at` is the first of its ids, else nothing is done. Quadratic in the number of ids: a reference. */
static void sum_reduced(const index_loop *loop, const kernel_call *c, const int64_t *at) {
    const tensor *ids = &c->in[1], *src = &c->in[2], *y = &c->out[0];
    int64_t to[WEFT_MAX_NDIM], other[WEFT_MAX_NDIM], from[WEFT_MAX_NDIM], k[WEFT_MAX_NDIM];
    double sum;
    for (int i = 0; i < loop->shape.ndim; i++) k[i] = at[i];
    index_target(loop, ids, y, at, to);
    sum = element_get(y, to);
    for (k[loop->axis] = 0; k[loop->axis] < loop->shape.shape[loop->axis]; k[loop->axis]++) {
        index_target(loop, ids, y, k, other);
        if (other[loop->axis] != to[loop->axis]) continue;
        if (k[loop->axis] < at[loop->axis]) return;
        index_place(loop, src, k, from);
        sum += element_get(src, from);
    }
    element_set(y, to, sum);
}

static void add_one(const index_loop *loop, const kernel_call *c, const int64_t *at) {
    const tensor *src = &c->in[2], *y = &c->out[0];
    int64_t to[WEFT_MAX_NDIM], from[WEFT_MAX_NDIM];
    index_target(loop, &c->in[1], y, at, to);
    index_place(loop, src, at, from);
    if (dtype_is_float(y->type.dtype))
        element_set(y, to, element_get(y, to) + element_get(src, from));
    else
        element_set_int(y, to, (int64_t)((uint64_t)element_int(y, to) + (uint64_t)element_int(src, from)));
}

static weft_status reference(const kernel_call *c) {
    const tensor *x = &c->in[0], *ids = &c->in[1], *y = &c->out[0];
    int64_t at[WEFT_MAX_NDIM] = {0};
    index_loop loop;
    if (!index_loop_of(c->attrs, &x->type, &ids->type, &loop)) return WEFT_INTERNAL;
    weft_status status = index_check_ids(c, ids, loop.length);
    if (status) return status;
    do element_copy(y, at, x, at);
    while (index_next(&y->type, at));
    do
        if (dtype_is_reduced(y->type.dtype))
            sum_reduced(&loop, c, at);
        else
            add_one(&loop, c, at);
    while (index_next(&loop.shape, at));
    return WEFT_OK;
}

const weft_op weft_op_scatter_add = {
    .name = "scatter_add",
    .torch = "torch.scatter_add",
    .summary = "x with elements added at places along an axis",
    /* No precision: sums run in f32. */
    .min_in = 3,
    .of_nothing = EMPTY_FIRST,
    OP_ATTRS(index_attrs, index_attr_table),
    .reference_strided = 7,
    .in_place = 1,
    .infer = infer,
    .gradient = gradient,
    .reference = reference,
    .samples =
        (const op_sample[]){{"f32[4,3], i64[5,3], f32[5,3]", .out = "f32[4,3]"},
                            {"f32[2,5,4,3], i32[2,3,4,3], f32[2,3,4,3]", "axis=1", .out = "f32[2,5,4,3]"},
                            {"f32[3,4,6], u8[2,7,4], f32[3,8,4]", "axis=-2", .out = "f32[3,4,6]"},
                            {"f32[37,10], i64[37,1], f32[]", "axis=1", .out = "f32[37,10]"},
                            {"f32[3,5,7], i64[1,6,1], f32[3,6,7]", "axis=1 broadcast=1", .out = "f32[3,5,7]"},
                            {"f32[3,5,7], i64[3,6,1], f32[1,6,7]", "axis=1 broadcast=1"},
                            {"f32[65,100], i32[40,1], f32[40,100]", "broadcast=1", .below = 65},
                            {"f32[9,65], i32[9,140], f32[9,140]", "axis=1", .below = 65},
                            /* long sums; large: fast */
                            {"f32[4,9], i32[1400,9], f32[1400,9]", .no_gradient = true},
                            {"f32[4,70], i32[700,1], f32[700,70]", "broadcast=1", .no_gradient = true},
                            {"i64[9], i64[4], i64[4]", .out = "i64[9]"},
                            {"i32[9,3], i64[40,3], i32[40,3]", .out = "i32[9,3]"},
                            {"u8[9], i64[4], u8[]", .out = "u8[9]"},
                            {"bool[4,4], i64[2,4], bool[2,4]", .error = "which are not added"},
                            {"f32[4,3], i64[5,3], i64[5,3]", .error = "differ in their element type"},
                            {"f32[4,3], i64[5,3], f32[4,3]", .error = "at least as many elements for ids"},
                            {"f32[4,1], i64[5,3], f32[5,3]", "broadcast=1", .error = "f32[4,1] is shorter"},
                            {0}},
};

weft_value *weft_scatter_add(weft_value *x, int axis, weft_value *ids, weft_value *src) {
    return op_value(&weft_op_scatter_add, 3, (weft_value *[]){x, ids, src}, &(index_attrs){axis, false});
}
