/* pad.c - one value, 0 if not said, before and after x along one axis; torch.nn.functional.pad with mode
 * "constant". Passes and gradients also put it `between` x's elements, as XLA's interior padding: each is the
 * other's gradient with slices of step between + 1. The axis becomes before + length + (length - 1) between +
 * after long. dx is the slice of dy without the padding. */
#include "ops/kit/basic_attrs.h"
#include "ops/kit/op_kit.h"

static const op_attr attrs[] = {
    AXIS_ROW(pad_attrs),
    {"before", ATTR_INT, offsetof(pad_attrs, before), 0, (int64_t)1 << 46},
    {"after", ATTR_INT, offsetof(pad_attrs, after), 0, (int64_t)1 << 46},
    {"value", ATTR_REAL, offsetof(pad_attrs, value), .any_real = true},
    {"between", ATTR_INT, offsetof(pad_attrs, between), 0, (int64_t)1 << 46},
    {0},
};

static bool infer(op_call *c) {
    const pad_attrs *a = c->attrs;
    const tensor_type *x = op_in(c, 0);
    int64_t axis = a->axis;
    if (!op_want_axis(c, &axis)) return false;
    if (!constant_fits(x->dtype, a->value))
        return op_fail(c, WEFT_ARGUMENT, "%s cannot hold the value %g", TYPE(x), a->value);
    size_t gaps;
    size_t between = x->shape[axis] ? (size_t)x->shape[axis] - 1 : 0; /* pairs of neighbours */
    if (!size_mul(&gaps, between, (size_t)a->between) || gaps > (size_t)1 << 46)
        return op_fail(c, WEFT_SHAPE, "%s with %lld elements between its own along axis %lld is too large",
                       TYPE(x), (long long)a->between, (long long)a->axis);
    c->out[0].shape[axis] += a->before + a->after + (int64_t)gaps; /* each at most 2^46: cannot overflow */
    return true;
}

static void gradient(weft_node *n, weft_value *const *dout, const bool *wanted, weft_value **din) {
    const pad_attrs *a = n->attrs;
    int64_t axis = a->axis;
    if (!axis_resolve(&axis, n->in[0]->type.ndim)) return;
    int64_t end = n->out[0].type.shape[axis] - a->after;
    din[0] = weft_strided_slice(dout[0], (int)axis, a->before, end, a->between + 1);
}

/* Goes over the result; an index before 0, past the operand or between its elements is padding. */
static weft_status reference(const kernel_call *c) {
    const pad_attrs *a = c->attrs;
    const tensor *x = &c->in[0], *y = &c->out[0];
    int64_t axis = a->axis, to[WEFT_MAX_NDIM] = {0};
    axis_resolve(&axis, x->type.ndim);
    do {
        int64_t from[WEFT_MAX_NDIM];
        for (int i = 0; i < x->type.ndim; i++) from[i] = to[i];
        int64_t at = to[axis] - a->before, step = a->between + 1;
        from[axis] = at / step;
        if (at < 0 || at % step || from[axis] >= x->type.shape[axis])
            element_set(y, to, a->value);
        else
            element_copy(y, to, x, from);
    } while (index_next(&y->type, to));
    return WEFT_OK;
}

const weft_op weft_op_pad = {
    .name = "pad",
    .summary = "zeros, or another value, before, after and between elements along one axis",
    .torch = "torch.nn.functional.pad",
    .min_in = 1,
    .flags = OP_MOVES,
    .of_nothing = EMPTY_FILL,
    OP_ATTRS(pad_attrs, attrs),
    .reference_strided = 1,
    .precision = PRECISION_FOLLOWS,
    .infer = infer,
    .gradient = gradient,
    .reference = reference,
    .samples =
        (const op_sample[]){
            {"f32[2,3]", "axis=1 before=1 after=2", .out = "f32[2,6]"},
            {"f32[2,3,4]", "axis=-2 after=1", .out = "f32[2,4,4]"},
            {"i64[3]", "before=2", .out = "i64[5]"},
            {"f32[2,3,4]", "axis=1 before=2 after=1 value=-1.5", .out = "f32[2,6,4]"},
            {"i32[3,5]", "axis=1 after=3 value=7"},
            {"u8[3,5]", "before=1 value=255"},
            {"i8[3,5]", "before=1 value=-128", .out = "i8[4,5]"},
            {"u16[3,5]", "axis=1 after=1 value=65536", .error = "cannot hold the value 65536"},
            {"f32[2,3,4]", "axis=1 before=1 after=2 between=2", .out = "f32[2,10,4]"},
            {"f32[5,6]", "axis=-1 value=0.5 between=1", .out = "f32[5,11]"},
            {"f32[1,6]", "after=3 between=5", .out = "f32[4,6]"},
            {"f32[9,6]", "between=70368744177664", .error = "is too large"},
            {"f32[2,3]", "axis=1 after=1 value=-inf", .out = "f32[2,4]", .no_gradient = true},
            {"i32[2]", "after=1 value=nan", .error = "i32[2] cannot hold the value nan"},
            {"u8[3,5]", "before=1 value=256", .error = "cannot hold the value 256"},
            {"f32[2,3]", "axis=2 before=1", .error = "has no axis 2"},
            {"f32[2,3]", "before=-1", .error = "before=-1"},
            {0}},
};

weft_value *weft_pad(weft_value *x, int axis, int64_t before, int64_t after) {
    return op_value(&weft_op_pad, 1, &x, &(pad_attrs){axis, before, after});
}

/* One axis: a negative number of elements is cut off. */
static weft_value *pad_or_cut(weft_value *x, pad_attrs a) {
    int64_t cut_before = a.before < 0 ? -a.before : 0, cut_after = a.after < 0 ? a.after : INT64_MAX;
    if (cut_before || a.after < 0) x = weft_slice(x, (int)a.axis, cut_before, cut_after);
    a.before = a.before < 0 ? 0 : a.before;
    a.after = a.after < 0 ? 0 : a.after;
    if (!x || (a.before == 0 && a.after == 0)) return x;
    return op_value(&weft_op_pad, 1, (weft_value *[]){x}, &a);
}

weft_value *weft_constant_pad(weft_value *x, int n_axes, const int64_t *pads, double value) {
    if (!x) return NULL;
    int ndim = x->type.ndim;
    if (n_axes < 0 || n_axes > ndim || (n_axes && !pads))
        return value_fail(x, WEFT_SHAPE, "constant_pad: %d pairs for %s: at most one for each axis", n_axes,
                          TYPE(&x->type));
    for (int i = 0; x && i < n_axes; i++)
        x = pad_or_cut(x, (pad_attrs){ndim - 1 - i, pads[2 * i], pads[2 * i + 1], value});
    return x;
}
