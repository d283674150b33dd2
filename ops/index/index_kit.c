/* index_kit.c - see index.h. */
#include "ops/index/index.h"

const op_attr index_attr_table[] = {
    AXIS_ROW(index_attrs),
    {"broadcast", ATTR_BOOL, offsetof(index_attrs, broadcast)},
    {0},
};

bool index_loop_of(const index_attrs *a, const tensor_type *x, const tensor_type *ids, index_loop *loop) {
    int64_t axis = a->axis;
    if (ids->ndim != x->ndim || !axis_resolve(&axis, x->ndim)) return false;
    *loop = (index_loop){*ids, (int)axis, x->shape[axis]};
    loop->shape.dtype = x->dtype;
    for (int i = 0; i < x->ndim; i++) {
        if (i == axis || ids->shape[i] == x->shape[i]) continue;
        if (a->broadcast ? ids->shape[i] != 1 && x->shape[i] != 1 : ids->shape[i] > x->shape[i]) return false;
        if (a->broadcast && ids->shape[i] == 1) loop->shape.shape[i] = x->shape[i];
    }
    return true;
}

bool index_want_loop(op_call *c, index_loop *loop) {
    const index_attrs *a = c->attrs;
    const tensor_type *x = op_in(c, 0), *ids = op_in(c, 1);
    int64_t axis = a->axis;
    if (!dtype_is_integer(ids->dtype))
        return op_fail(c, WEFT_TYPE, "ids are %s: they must be integer", TYPE(ids));
    if (!op_want_axis(c, &axis)) return false;
    if (!index_loop_of(a, x, ids, loop))
        return op_fail(c, WEFT_SHAPE, "%s and ids %s: they have as many axes, and outside axis %lld %s",
                       TYPE(x), TYPE(ids), (long long)a->axis,
                       a->broadcast ? "they broadcast" : "those of ids are not longer");
    return true;
}

/* Whether src has a number for each place of the loop. */
static bool src_fits(const index_attrs *a, const index_loop *loop, const tensor_type *src) {
    if (src->ndim == 0) return true;
    if (src->ndim != loop->shape.ndim) return false;
    for (int i = 0; i < src->ndim; i++) {
        int64_t own = src->shape[i], need = loop->shape.shape[i];
        if (a->broadcast ? own != need && own != 1 : own < need) return false;
    }
    return true;
}

bool index_infer_scatter(op_call *c) {
    const index_attrs *a = c->attrs;
    const tensor_type *x = op_in(c, 0), *src = op_in(c, 2);
    index_loop loop;
    if (src->dtype != x->dtype)
        return op_fail(c, WEFT_TYPE, "%s and src %s differ in their element type", TYPE(x), TYPE(src));
    if (!index_want_loop(c, &loop)) return false;
    for (int i = 0; i < x->ndim; i++)
        if (i != loop.axis && loop.shape.shape[i] > x->shape[i])
            return op_fail(c, WEFT_SHAPE, "%s is shorter than ids %s along axis %d", TYPE(x),
                           TYPE(op_in(c, 1)), i);
    if (!src_fits(a, &loop, src))
        return op_fail(c, WEFT_SHAPE, "src is %s: it must be one number or have %s elements for ids %s",
                       TYPE(src), a->broadcast ? "as many" : "at least as many", TYPE(&loop.shape));
    return true;
}

/* One number stands for all places. */
void index_strides(const index_loop *loop, const tensor *t, int64_t stride[WEFT_MAX_NDIM]) {
    for (int i = 0; i < loop->shape.ndim; i++)
        stride[i] = t->type.ndim == 0 || t->type.shape[i] == 1 ? 0 : t->stride[i];
}

/* Goes over ids alone, which name the error; kernels have faster checks and call this when they fail. */
weft_status index_check_ids(const kernel_call *c, const tensor *ids, int64_t length) {
    int64_t at[WEFT_MAX_NDIM] = {0}, number = 0;
    do {
        int64_t id = element_int(ids, at);
        if (id < 0 || id >= length)
            return kernel_fail_at(c, number, "id %lld (number %lld) is outside the axis, 0 to %lld",
                                  (long long)id, (long long)number, (long long)(length - 1));
        number++;
    } while (index_next(&ids->type, at));
    return WEFT_OK;
}

void index_place(const index_loop *loop, const tensor *t, const int64_t *at, int64_t *place) {
    for (int i = 0; i < loop->shape.ndim; i++)
        place[i] = t->type.ndim == 0 || t->type.shape[i] == 1 ? 0 : at[i];
}

void index_target(const index_loop *loop, const tensor *ids, const tensor *t, const int64_t *at,
                  int64_t *place) {
    index_place(loop, ids, at, place);
    int64_t id = element_int(ids, place);
    index_place(loop, t, at, place);
    place[loop->axis] = id;
}

weft_value *index_zeros(weft_value *x, const index_loop *loop, weft_dtype dtype) {
    tensor_type whole = x->type;
    for (int i = 0; i < whole.ndim; i++)
        if (i != loop->axis && loop->shape.shape[i] > whole.shape[i]) whole.shape[i] = loop->shape.shape[i];
    weft_value *zero = weft_constant(x->node->graph, dtype, 0, NULL, 0);
    return weft_broadcast_to(zero, whole.ndim, whole.shape);
}

/* Numbers of src that were not read get 0. */
weft_value *index_to_src(weft_value *gradient, const weft_value *src) {
    if (src->type.ndim == 0) return weft_sum(gradient, 0, NULL, false);
    for (int i = 0; gradient && i < src->type.ndim; i++) {
        int64_t missing = src->type.shape[i] - gradient->type.shape[i];
        if (missing > 0) gradient = weft_pad(gradient, i, 0, missing);
    }
    return sum_to(gradient, src);
}
