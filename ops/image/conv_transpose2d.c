/* conv_transpose2d.c - transposed convolution, the data gradient of conv2d;
 * torch.nn.functional.conv_transpose2d. Its functions are conv_transpose3d's too.
 *     x [N, C, h, w]   w [C, out/groups, kh, kw]   b [out] (may be left out)   ->   y [N, out, H, W]
 *     y[n,o,Y,X] = b[o] + sum of x[n,c,y,x] w[c,o,ky,kx] over c, ky, kx and y with
 *                  y stride - pad + ky dilation = Y
 *     H = (h - 1) stride - 2 pad + dilation (kh - 1) + 1 + output_padding
 *     dx = conv2d(dy, w)   dw = conv2d_weight(dy, x)   db = sum of dy over n, Y, X
 */
#include "ops/image/conv2d.h"

static const op_attr attrs[] = {
    {"out", ATTR_INT, offsetof(conv_attrs, out), 1, INT64_MAX},
    CONV_ATTR_ROWS,
    {"output_padding", ATTR_INTS, offsetof(conv_attrs, output_padding), 0, CONV_MAX},
    {0},
};

/* Sets the length of one axis of the result. */
static bool infer_axis(op_call *c, const conv_attrs *a, int i) {
    if (!conv_growth_fits(a, i, a->output_padding.v[i]))
        return op_fail(c, WEFT_SHAPE,
                       "output_padding %lld: it must be smaller than the stride %lld or the dilation "
                       "%lld",
                       (long long)a->output_padding.v[i], (long long)a->stride.v[i],
                       (long long)a->dilation.v[i]);
    c->out[0].shape[2 + i] = conv_big(a, i, op_in(c, 0)->shape[2 + i]) + a->output_padding.v[i];
    return c->out[0].shape[2 + i] >= 1 || op_fail(c, WEFT_SHAPE, "x %s: pad %lld leaves nothing of axis %d",
                                                  TYPE(op_in(c, 0)), (long long)a->pad.v[i], 2 + i);
}

bool conv_transpose_infer(op_call *c) {
    const conv_attrs *a = c->attrs;
    if (!conv_check_axes(c, a) || !conv_check_image(c, 0, "x")) return false;
    const tensor_type *x = op_in(c, 0);
    if (x->shape[1] % a->groups || a->out % a->groups)
        return op_fail(c, WEFT_SHAPE,
                       "%lld channels to %lld in %lld groups: both must be multiples of the groups",
                       (long long)x->shape[1], (long long)a->out, (long long)a->groups);
    if (!conv_check_weight(c, a, x->shape[1], a->out / a->groups) || !conv_check_bias(c, a)) return false;
    c->out[0].dtype = conv_result_dtype(a, x->dtype);
    c->out[0].shape[1] = a->out;
    for (int i = 0; i < a->kernel.n; i++)
        if (!infer_axis(c, a, i)) return false;
    return true;
}

void conv_transpose_gradient(weft_node *n, weft_value *const *dout, const bool *wanted, weft_value **din) {
    const conv_attrs *a = n->attrs;
    if (wanted[0]) din[0] = conv_small_from(a, dout[0], n->in[1], &n->in[0]->type);
    if (wanted[1]) din[1] = conv_weight_from(a, dout[0], n->in[0]);
    if (n->n_in == 3 && wanted[2]) din[2] = conv_bias_gradient(dout[0]);
}

/* Fills y of `from` with y stride - pad + k dilation = Y of `at` on all axes of the window; false: there is
 * none. */
static bool source(const conv_attrs *a, const tensor_type *x, const int64_t *at, const int64_t *k,
                   int64_t *from) {
    for (int i = 0; i < a->kernel.n; i++) {
        int64_t steps = at[2 + i] + a->pad.v[i] - k[i] * a->dilation.v[i];
        if (steps < 0 || steps % a->stride.v[i] || steps / a->stride.v[i] >= x->shape[2 + i]) return false;
        from[2 + i] = steps / a->stride.v[i];
    }
    return true;
}

/* One element of y at index at = [n, o, (Z,) Y, X], without the bias. */
static double window_sum(const kernel_call *c, const conv_attrs *a, const int64_t *at) {
    const tensor *x = &c->in[0], *w = &c->in[1];
    int64_t per_group = w->type.shape[1], channels = x->type.shape[1] / a->groups;
    int64_t first = at[1] / per_group * channels;
    int64_t from[WEFT_MAX_NDIM] = {at[0]}, tap[WEFT_MAX_NDIM] = {0, at[1] % per_group};
    tensor_type taps = conv_taps(a);
    double sum = 0;
    from[1] = tap[0] = first;
    do
        if (source(a, &x->type, at, tap + 2, from))
            sum = elements_dot(sum, (element_line){x, element_place(x, from), x->stride[1]},
                               (element_line){w, element_place(w, tap), w->stride[0]}, channels);
    while (index_next(&taps, tap + 2));
    return sum;
}

weft_status conv_transpose_reference(const kernel_call *c) {
    if (conv_is_packed(&c->in[1].type))
        return kernel_fail(c, "%s: only the kernel that packed a weight takes it", c->node->op->name);
    bool has_bias = c->n_in == 3 && c->in[2].data;
    int64_t at[WEFT_MAX_NDIM] = {0};
    do
        element_set(&c->out[0], at,
                    (has_bias ? element_get(&c->in[2], &at[1]) : 0) + window_sum(c, c->attrs, at));
    while (index_next(&c->out[0].type, at));
    return WEFT_OK;
}

const weft_op weft_op_conv_transpose2d = {
    .name = "conv_transpose2d",
    .summary = "transposed convolution of x[N,C,h,w] with w[C,out/groups,kh,kw], + b",
    .torch = "torch.nn.functional.conv_transpose2d",
    CONV_FIELDS(0),
    .infer = conv_transpose_infer,
    .gradient = conv_transpose_gradient,
    .reference = conv_transpose_reference,
    .samples =
        (const op_sample[]){
            {"f32[2,4,3,4], f32[4,3,3,3], f32[3]",
             "out=3 kernel=3,3 stride=1,1 pad=0,0 dilation=1,1 groups=1 output_padding=0,0",
             .out = "f32[2,3,5,6]"},
            {"f32[2,3,3,2], f32[3,1,4,4], f32[1]",
             "out=1 kernel=4,4 stride=2,2 pad=1,1 dilation=1,1 groups=1 output_padding=0,0",
             .out = "f32[2,1,6,4]"},
            {"f32[1,4,3,5], f32[4,2,3,2]",
             "out=4 kernel=3,2 stride=2,3 pad=0,1 dilation=2,1 groups=2 output_padding=1,2",
             .out = "f32[1,4,10,14]"},
            /* an output padding of a whole stride: dx is cut */
            {"f32[1,2,3,3], f32[2,2,3,3], f32[2]",
             "out=2 kernel=3,3 stride=1,1 pad=1,1 dilation=3,2 groups=1 output_padding=2,1",
             .out = "f32[1,2,9,6]"},
            {"f32[2,100,1,1], f32[100,32,4,4]",
             "out=32 kernel=4,4 stride=1,1 pad=0,0 dilation=1,1 groups=1 output_padding=0,0",
             .out = "f32[2,32,4,4]",
             .no_gradient = true}, /* too large for differences element by element, as those below */
            {"f32[2,32,6,6], f32[32,48,4,4], f32[48]",
             "out=48 kernel=4,4 stride=2,2 pad=1,1 dilation=1,1 groups=1 output_padding=0,0",
             .out = "f32[2,48,12,12]", .no_gradient = true},
            {"f32[3,64,8,7], f32[64,3,4,4], f32[3]",
             "out=3 kernel=4,4 stride=2,2 pad=1,1 dilation=1,1 groups=1 output_padding=0,0",
             .out = "f32[3,3,16,14]", .no_gradient = true},
            {"f32[2,32,5,5], f32[32,8,3,3]",
             "out=16 kernel=3,3 stride=2,2 pad=1,1 dilation=1,1 groups=2 output_padding=1,1",
             .out = "f32[2,16,10,10]", .no_gradient = true},
            {"f32[2,4,3,4], f32[3,3,3,3]",
             "out=3 kernel=3,3 stride=1,1 pad=0,0 dilation=1,1 groups=1 output_padding=0,0",
             .error = "it must be f32[4,3,3,3]"},
            {"f32[2,4,3,4], f32[4,3,3,3]",
             "out=3 kernel=3,3 stride=2,2 pad=0,0 dilation=1,1 groups=1 output_padding=2,0",
             .error = "output_padding 2: it must be smaller than the stride 2 or the dilation 1"},
            {"f32[2,4,1,4], f32[4,3,3,3]",
             "out=3 kernel=3,3 stride=1,1 pad=2,0 dilation=1,1 groups=1 output_padding=0,0",
             .error = "pad 2 leaves nothing of axis 2"},
            {"f32[2,4,3,4], f32[4,1,3,3]",
             "out=3 kernel=3,3 stride=1,1 pad=0,0 dilation=1,1 groups=2 output_padding=0,0",
             .error = "4 channels to 3 in 2 groups"},
            {"f32[2,4,3,4], f32[4,3,3,3], f32[4]",
             "out=3 kernel=3,3 stride=1,1 pad=0,0 dilation=1,1 groups=1 output_padding=0,0",
             .error = "it must be f32[3]"},
            {0}},
};

weft_value *conv_transpose_value(const weft_op *op, weft_value *x, weft_value *w, weft_value *b,
                                 const weft_window *window) {
    conv_attrs a;
    if (!conv_attrs_from(&a, op, x, w, window)) return NULL;
    /* If a hostile number of groups overflows, infer rejects it. */
    if (__builtin_mul_overflow(w->type.shape[1], a.groups, &a.out)) a.out = w->type.shape[1];
    return op_value(op, b ? 3 : 2, (weft_value *[]){x, w, b}, &a);
}

weft_value *weft_conv_transpose2d_op(weft_value *x, weft_value *w, weft_value *b, const weft_window *window) {
    return conv_transpose_value(&weft_op_conv_transpose2d, x, w, b, window);
}
