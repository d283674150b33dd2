/* pad.c - zeros before and after x along one axis; torch.nn.functional.pad with mode "constant". The axis
 * becomes before + length + after long. dx is the slice of dy without the padding. */
#include "ops/kit/basic_attrs.h"
#include "ops/kit/op_kit.h"

static const op_attr attrs[] = {
    {"axis", ATTR_INT, offsetof(pad_attrs, axis), -WEFT_MAX_NDIM, WEFT_MAX_NDIM - 1},
    {"before", ATTR_INT, offsetof(pad_attrs, before), 0, (int64_t)1 << 46},
    {"after", ATTR_INT, offsetof(pad_attrs, after), 0, (int64_t)1 << 46},
    {0},
};

static bool infer(op_call *c) {
    const pad_attrs *a = c->attrs;
    const tensor_type *x = op_in(c, 0);
    int64_t axis = a->axis;
    if (!axis_resolve(&axis, x->ndim))
        return op_fail(c, WEFT_SHAPE, "%s has no axis %lld", TYPE(x), (long long)axis);
    c->n_out = 1;
    c->out[0] = *x;
    c->out[0].shape[axis] += a->before + a->after; /* each at most 2^46: cannot overflow */
    return true;
}

static void gradient(weft_node *n, weft_value *const *dout, const bool *wanted, weft_value **din) {
    (void)wanted;
    const pad_attrs *a = n->attrs;
    int64_t axis = a->axis;
    if (!axis_resolve(&axis, n->in[0]->type.ndim)) return;
    din[0] = weft_slice(dout[0], (int)axis, a->before, a->before + n->in[0]->type.shape[axis]);
}

/* Goes over the result; an index before 0 or past the operand is padding. */
static weft_status reference(const kernel_call *c) {
    const pad_attrs *a = c->attrs;
    const tensor *x = &c->in[0], *y = &c->out[0];
    int64_t axis = a->axis, to[WEFT_MAX_NDIM] = {0};
    axis_resolve(&axis, x->type.ndim);
    do {
        int64_t from[WEFT_MAX_NDIM];
        for (int i = 0; i < x->type.ndim; i++) from[i] = to[i] - (i == axis ? a->before : 0);
        if (from[axis] < 0 || from[axis] >= x->type.shape[axis])
            element_set(y, to, 0);
        else
            element_copy(y, to, x, from);
    } while (index_next(&y->type, to));
    return WEFT_OK;
}

const weft_op weft_op_pad = {
    .name = "pad",
    .summary = "zeros before and after along one axis",
    .min_in = 1,
    .max_in = 1,
    .attrs_bytes = sizeof(pad_attrs),
    .attrs = attrs,
    .reference_strided = 1,
    .precision = PRECISION_FOLLOWS,
    .reduced_in = 1,
    .reduced_out = 1,
    .infer = infer,
    .gradient = gradient,
    .reference = reference,
    .samples = (const op_sample[]){{"f32[2,3]", "axis=1 before=1 after=2", .out = "f32[2,6]"},
                                   {"f32[2,3,4]", "axis=-2 after=1", .out = "f32[2,4,4]"},
                                   {"i64[3]", "before=2", .out = "i64[5]"},
                                   {"f32[2,3]", "axis=2 before=1", .error = "has no axis 2"},
                                   {"f32[2,3]", "before=-1", .error = "before=-1"},
                                   {0}},
};

weft_value *weft_pad(weft_value *x, int axis, int64_t before, int64_t after) {
    return op_value(&weft_op_pad, 1, &x, &(pad_attrs){axis, before, after});
}
