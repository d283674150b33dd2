/* slice.c - elements begin, begin + step, ... before end of one axis; x[..., begin:end:step] in PyTorch.
 * Negative begin and end count from the end, and INT64_MAX means the end; unlike in PyTorch, a range outside
 * the axis, or whose end is before its begin, is an error. A view. dx is dy with zeros around it and, with a
 * step, between its elements. */
#include "ops/kit/basic_attrs.h"
#include "ops/kit/op_kit.h"

static const op_attr attrs[] = {
    AXIS_ROW(slice_attrs),
    {"begin", ATTR_INT, offsetof(slice_attrs, begin)},
    {"end", ATTR_INT, offsetof(slice_attrs, end)},
    {"step", ATTR_INT, offsetof(slice_attrs, step), 0, INT64_MAX},
    {0},
};

/* Ranges outside the axis are false. */
bool slice_range(const slice_attrs *a, const tensor_type *x, slice_attrs *range) {
    *range = *a;
    if (!axis_resolve(&range->axis, x->ndim)) return false;
    int64_t length = x->shape[range->axis];
    if (range->begin == INT64_MAX) range->begin = length;
    if (range->end == INT64_MAX) range->end = length;
    if (range->begin < 0 && range->begin >= -length) range->begin += length;
    if (range->end < 0 && range->end >= -length) range->end += length;
    if (range->step == 0) range->step = 1;
    return range->begin >= 0 && range->begin <= range->end && range->end <= length;
}

static bool infer(op_call *c) {
    const slice_attrs *a = c->attrs;
    const tensor_type *x = op_in(c, 0);
    slice_attrs r;
    if (!slice_range(a, x, &r))
        return op_fail(c, WEFT_SHAPE, "%s has no elements %lld to %lld along axis %lld", TYPE(x),
                       (long long)a->begin, (long long)a->end, (long long)a->axis);
    c->out[0].shape[r.axis] = r.end > r.begin ? (r.end - r.begin - 1) / r.step + 1 : 0;
    return true;
}

/* The result starts `begin` elements of the axis further. A step beyond the end takes one element: it stands
 * in no stride, which could overflow. */
static bool view(const weft_node *n, const int64_t *in_stride, int64_t *out_stride, int64_t *offset) {
    const tensor_type *x = &n->in[0]->type;
    slice_attrs r;
    if (!slice_range(n->attrs, x, &r)) return false;
    for (int i = 0; i < x->ndim; i++) out_stride[i] = in_stride[i];
    if (n->out[0].type.shape[r.axis] > 1) out_stride[r.axis] *= r.step;
    *offset = r.begin * in_stride[r.axis];
    return true;
}

static void gradient(weft_node *n, weft_value *const *dout, const bool *wanted, weft_value **din) {
    const tensor_type *x = &n->in[0]->type;
    slice_attrs r;
    if (!slice_range(n->attrs, x, &r)) return;
    int64_t length = n->out[0].type.shape[r.axis], last = r.begin + (length - 1) * r.step;
    pad_attrs a = {r.axis, r.begin, x->shape[r.axis] - 1 - last, .between = length > 1 ? r.step - 1 : 0};
    din[0] = op_value(&weft_op_pad, 1, dout, &a);
}

const weft_op weft_op_slice = {
    .name = "slice",
    .summary = "a range of one axis, or every step-th element of it",
    .torch = "torch.narrow",
    .min_in = 1,
    .flags = OP_VIEW,
    OP_ATTRS(slice_attrs, attrs),
    .reference_strided = 1,
    .precision = PRECISION_FOLLOWS,
    .infer = infer,
    .simplify = simplify_same_type,
    .gradient = gradient,
    .reference = reference_view,
    .view = view,
    .samples =
        (const op_sample[]){{"f32[5,3]", "begin=1 end=3", .out = "f32[2,3]"},
                            {"f32[2,7,3]", "axis=-2 begin=-4 end=-1", .out = "f32[2,3,3]"},
                            {"i64[4]", "begin=3 end=9223372036854775807", .out = "i64[1]"},
                            {"f32[7,3]", "begin=1 end=6 step=2", .out = "f32[3,3]"},
                            {"f32[2,8,5,3]", "axis=1 begin=-7 end=-1 step=5", .out = "f32[2,2,5,3]"},
                            {"f32[3,37]", "axis=-1 end=9223372036854775807 step=3", .out = "f32[3,13]"},
                            {"u16[9]", "begin=1 end=8 step=3", .out = "u16[3]"},
                            {"u8[3,4]", "axis=1 begin=3 end=4 step=9223372036854775807", .out = "u8[3,1]"},
                            {"f32[5]", "end=5 step=-1", .error = "step=-1: it must be at least 0"},
                            {"f32[5]", "begin=4 end=3", .error = "has no elements 4 to 3"},
                            {"f32[5]", "begin=2 end=6", .error = "has no elements 2 to 6"},
                            {"f32[5]", "begin=-6 end=2", .error = "has no elements -6 to 2"},
                            {"f32[5]", "axis=1 end=1", .error = "along axis 1"},
                            {0}},
};

weft_value *weft_slice(weft_value *x, int axis, int64_t begin, int64_t end) {
    return op_value(&weft_op_slice, 1, &x, &(slice_attrs){axis, begin, end});
}

/* A step of 1 stands in no node, so that equal slices have equal attributes. */
weft_value *weft_strided_slice(weft_value *x, int axis, int64_t begin, int64_t end, int64_t step) {
    if (x && step < 1)
        return value_fail(x, WEFT_ARGUMENT,
                          "strided_slice: step=%lld: it must be at least 1 (weft_flip turns an axis around)",
                          (long long)step);
    return op_value(&weft_op_slice, 1, &x, &(slice_attrs){axis, begin, end, step == 1 ? 0 : step});
}
