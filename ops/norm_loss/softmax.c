/* softmax.c - e^(x - max) / sum of e^(x - max) along an axis, in the shape of x; torch.softmax. The maximum
 * is subtracted so that nothing overflows.
 *     dx = y (dy - sum of dy y along the axis)
 */
#include "ops/norm_loss/norm.h"

#include <math.h>

const op_attr softmax_attr_table[] = {
    {"axis", ATTR_INT, offsetof(softmax_attrs, axis), -WEFT_MAX_NDIM, WEFT_MAX_NDIM - 1},
    {0},
};

bool softmax_infer(op_call *c) {
    int64_t axis = ((const softmax_attrs *)c->attrs)->axis;
    if (!axis_resolve(&axis, op_in(c, 0)->ndim))
        return op_fail(c, WEFT_SHAPE, "axis %lld of %s: it has no such axis", (long long)axis,
                       TYPE(op_in(c, 0)));
    return infer_same(c);
}

static void gradient(weft_node *n, weft_value *const *dout, const bool *wanted, weft_value **din) {
    int64_t axis = ((const softmax_attrs *)n->attrs)->axis;
    weft_value *y = &n->out[0], *dy = dout[0];
    if (wanted[0]) din[0] = weft_mul(y, weft_sub(dy, weft_sum(weft_mul(dy, y), 1, &axis, true)));
}

static weft_status reference(const kernel_call *c) {
    const tensor *x = &c->in[0], *y = &c->out[0];
    int64_t axis = ((const softmax_attrs *)c->attrs)->axis, at[WEFT_MAX_NDIM] = {0};
    axis_resolve(&axis, x->type.ndim);
    int64_t n = x->type.shape[axis];
    do {
        if (at[axis]) continue; /* once for each line along the axis */
        double most = -INFINITY, sum = 0;
        for (at[axis] = 0; at[axis] < n; at[axis]++) most = fmax(most, element_get(x, at));
        for (at[axis] = 0; at[axis] < n; at[axis]++) sum += exp(element_get(x, at) - most);
        for (at[axis] = 0; at[axis] < n; at[axis]++) element_set(y, at, exp(element_get(x, at) - most) / sum);
        at[axis] = 0;
    } while (index_next(&x->type, at));
    return WEFT_OK;
}

const weft_op weft_op_softmax = {
    .name = "softmax",
    .summary = "e^x / sum of e^x along an axis",
    .torch = "torch.nn.functional.softmax",
    .min_in = 1,
    .max_in = 1,
    .flags = OP_FROM_RESULT,
    .attrs_bytes = sizeof(softmax_attrs),
    .attrs = softmax_attr_table,
    /* No precision: runs in f32, as under torch.amp.autocast. */
    .infer = softmax_infer,
    .gradient = gradient,
    .reference = reference,
    .samples = (const op_sample[]){{"f32[4,9]", "axis=-1", .out = "f32[4,9]"},
                                   {"f32[2,5,3]", "axis=1", .out = "f32[2,5,3]"},
                                   {"f32[64,257]", "axis=1", .low = -20, .high = 20, .no_gradient = true},
                                   {"f32[6,33,70]", "axis=1", .no_gradient = true}, /* large: fast kernels */
                                   {"f32[3]", NULL, .out = "f32[3]"},
                                   {"f32[4,9]", "axis=2", .error = "no such axis"},
                                   {"i32[4,9]", "axis=1", .error = "floating point"},
                                   {0}},
};

weft_value *weft_softmax(weft_value *x, int axis) {
    softmax_attrs a = {axis};
    return op_value(&weft_op_softmax, 1, &x, &a);
}
