/* softmax.c - e^(x - max) / sum of e^(x - max) along an axis, and its logarithm, in the shape of x;
 * torch.softmax, torch.log_softmax. The maximum is subtracted so that nothing overflows. */
#include "ops/norm_loss/norm.h"

#include <math.h>

static const op_attr attrs[] = {AXIS_ROW(softmax_attrs), {0}};

static bool infer(op_call *c) {
    int64_t axis = ((const softmax_attrs *)c->attrs)->axis;
    return op_want_axis(c, &axis) && infer_same(c);
}

/* dx = y (dy - sum of dy y along the axis) */
static void softmax_gradient(weft_node *n, weft_value *const *dout, const bool *wanted, weft_value **din) {
    int64_t axis = ((const softmax_attrs *)n->attrs)->axis;
    weft_value *y = &n->out[0], *dy = dout[0];
    din[0] = weft_mul(y, weft_sub(dy, weft_sum(weft_mul(dy, y), 1, &axis, true)));
}

/* dx = dy - e^y (sum of dy along the axis) */
static void log_softmax_gradient(weft_node *n, weft_value *const *dout, const bool *wanted,
                                 weft_value **din) {
    int64_t axis = ((const softmax_attrs *)n->attrs)->axis;
    weft_value *sum = weft_sum(dout[0], 1, &axis, true);
    din[0] = weft_sub(dout[0], weft_mul(weft_exp(&n->out[0]), sum));
}

static weft_status reference(const kernel_call *c) {
    const tensor *x = &c->in[0], *y = &c->out[0];
    bool is_log = c->node->op == &weft_op_log_softmax;
    int64_t axis = ((const softmax_attrs *)c->attrs)->axis, at[WEFT_MAX_NDIM] = {0};
    axis_resolve(&axis, x->type.ndim);
    int64_t n = x->type.shape[axis], *k = &at[axis];
    do {
        if (*k) continue; /* once for each line along the axis */
        double most = -INFINITY, sum = 0;
        for (*k = 0; *k < n; ++*k) most = fmax(most, element_get(x, at));
        for (*k = 0; *k < n; ++*k) sum += exp(element_get(x, at) - most);
        double shift = most + log(sum);
        for (*k = 0; *k < n; ++*k) {
            double v = element_get(x, at);
            element_set(y, at, is_log ? v - shift : exp(v - most) / sum);
        }
        *k = 0;
    } while (index_next(&x->type, at));
    return WEFT_OK;
}

static const op_sample samples[] = {{"f32[4,9]", "axis=-1", .out = "f32[4,9]"},
                                    {"f32[2,5,3]", "axis=1", .out = "f32[2,5,3]"},
                                    {"f32[64,257]", "axis=1", .low = -20, .high = 20, .no_gradient = true},
                                    {"f32[6,33,70]", "axis=1", .no_gradient = true}, /* large: fast kernels */
                                    {"f32[3]", NULL, .out = "f32[3]"},
                                    {"f32[4,9]", "axis=2", .error = "has no axis 2"},
                                    {"f32[4,9]", "axis=-3", .error = "has no axis -3"},
                                    {"i32[4,9]", "axis=1", .error = "floating point"},
                                    {0}};

/* No precision: they run in f32, as under torch.amp.autocast. */
#define SOFTMAX_OP(NAME, TEXT)                                                                               \
    const weft_op weft_op_##NAME = {                                                                         \
        .name = #NAME,                                                                                       \
        .summary = TEXT,                                                                                     \
        .torch = "torch.nn.functional." #NAME,                                                               \
        .min_in = 1,                                                                                         \
        .flags = OP_FROM_RESULT,                                                                             \
        OP_ATTRS(softmax_attrs, attrs),                                                                      \
        .infer = infer,                                                                                      \
        .gradient = NAME##_gradient,                                                                         \
        .reference = reference,                                                                              \
        .samples = samples,                                                                                  \
    };                                                                                                       \
    weft_value *weft_##NAME(weft_value *x, int axis) {                                                       \
        return op_value(&weft_op_##NAME, 1, &x, &(softmax_attrs){axis});                                     \
    }

SOFTMAX_OP(softmax, "e^x / sum of e^x along an axis")
SOFTMAX_OP(log_softmax, "x - log of the sum of e^x along an axis")
