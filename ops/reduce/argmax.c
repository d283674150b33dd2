/* argmax.c - the index of the largest element along an axis, i64; torch.argmax. The first of equal ones; NaN
 * counts as largest, as in PyTorch. Result: the shape of x without the axis, or with length 1 (`keep`). No
 * gradient. */
#include "ops/kit/basic_attrs.h"
#include "ops/kit/op_kit.h"

static const op_attr attrs[] = {
    {"axis", ATTR_INT, offsetof(axis_attrs, axis), -WEFT_MAX_NDIM, WEFT_MAX_NDIM - 1},
    {"keep", ATTR_BOOL, offsetof(axis_attrs, keep), 0, 0},
    {0},
};

/* Any element type; the index is i64. */
static bool infer(op_call *c) {
    const axis_attrs *a = c->attrs;
    const tensor_type *x = op_in(c, 0);
    tensor_type *out = &c->out[0];
    int64_t axis = a->axis;
    if (!axis_resolve(&axis, x->ndim))
        return op_fail(c, WEFT_SHAPE, "%s has no axis %lld", TYPE(x), (long long)axis);
    *out = type_scalar(WEFT_I64);
    for (int i = 0; i < x->ndim; i++)
        if (i != axis)
            out->shape[out->ndim++] = x->shape[i];
        else if (a->keep)
            out->shape[out->ndim++] = 1;
    c->n_out = 1;
    return true;
}

static weft_status reference(const kernel_call *c) {
    const tensor *x = &c->in[0], *y = &c->out[0];
    int64_t axis = ((const axis_attrs *)c->attrs)->axis, at[WEFT_MAX_NDIM] = {0}, to[WEFT_MAX_NDIM] = {0};
    axis_resolve(&axis, x->type.ndim);
    /* One result for each index of x with the axis at 0. */
    tensor_type rows = x->type;
    rows.shape[axis] = 1;
    do {
        int64_t from[WEFT_MAX_NDIM], best = 0;
        double most = 0;
        for (int i = 0; i < rows.ndim; i++) from[i] = at[i];
        for (int64_t k = 0; k < x->type.shape[axis]; k++) {
            from[axis] = k;
            double v = element_get(x, from);
            /* v != v: a first NaN wins against any number */
            if (k == 0 || v > most || (v != v && most == most)) {
                best = k;
                most = v;
            }
        }
        element_set_int(y, to, best);
        index_next(&y->type, to);
    } while (index_next(&rows, at));
    return WEFT_OK;
}

const weft_op weft_op_argmax = {
    .name = "argmax",
    .summary = "the index of the largest element",
    .torch = "torch.argmax",
    .min_in = 1,
    .max_in = 1,
    .flags = OP_NO_GRADIENT,
    .attrs_bytes = sizeof(axis_attrs),
    .attrs = attrs,
    .reference_strided = 1,
    .precision = PRECISION_FOLLOWS,
    .reduced_in = 1,
    .infer = infer,
    .reference = reference,
    .samples = (const op_sample[]){{"f32[4,10]", "axis=-1", .out = "i64[4]"},
                                   {"f32[2,37,3]", "axis=1 keep=1", .out = "i64[2,1,3]"},
                                   {"i64[9]", .out = "i64[]"},
                                   {"f32[50,333]", "axis=1"},
                                   {"f32[2,3]", "axis=2", .error = "has no axis 2"},
                                   {0}},
};

weft_value *weft_argmax(weft_value *x, int axis, bool keep) {
    return op_value(&weft_op_argmax, 1, &x, &(axis_attrs){axis, keep});
}
