/* conv2d.c - two-dimensional convolution (cross-correlation); torch.nn.functional.conv2d. Its functions are
 * conv3d's too.
 *     x [N, C, H, W]   w [out, C/groups, kh, kw]   b [out] (may be left out)   ->   y [N, out, h, w]
 *     y[n,o,y,x] = b[o] + sum over c, ky, kx of x[n, c, y stride - pad + ky dilation, ...] w[o, c, ky, kx]
 *     h = floor((H + 2 pad - dilation (kh - 1) - 1) / stride) + 1, zeros outside of x
 *     dx = conv_transpose2d(dy, w)   dw = conv2d_weight(x, dy)   db = sum of dy over n, y, x
 */
#include "ops/image/conv2d.h"

static const op_attr attrs[] = {
    {"out", ATTR_INT, offsetof(conv_attrs, out), 1, INT64_MAX}, CONV_ATTR_ROWS, {0}};

/* The output size of conv_small is 0 where the kernel is larger than the padded image. */
bool conv_infer(op_call *c) {
    const conv_attrs *a = c->attrs;
    if (!conv_check_axes(c, a) || !conv_check_image(c, 0, "x")) return false;
    const tensor_type *x = op_in(c, 0);
    if (x->shape[1] % a->groups || a->out % a->groups)
        return op_fail(c, WEFT_SHAPE,
                       "%lld channels to %lld in %lld groups: both must be multiples of the groups",
                       (long long)x->shape[1], (long long)a->out, (long long)a->groups);
    if (!conv_check_weight(c, a, a->out, x->shape[1] / a->groups) || !conv_check_bias(c, a)) return false;
    c->out[0].dtype = conv_result_dtype(a, x->dtype);
    c->out[0].shape[1] = a->out;
    for (int i = 0; i < a->kernel.n; i++) {
        c->out[0].shape[2 + i] = conv_small(a, i, x->shape[2 + i]);
        if (c->out[0].shape[2 + i] < 1)
            return op_fail(c, WEFT_SHAPE,
                           "x %s: axis %d with pad %lld on both sides is smaller than the kernel, %lld "
                           "with dilation",
                           TYPE(x), 2 + i, (long long)a->pad.v[i],
                           (long long)(a->dilation.v[i] * (a->kernel.v[i] - 1) + 1));
    }
    return true;
}

void conv_gradient(weft_node *n, weft_value *const *dout, const bool *wanted, weft_value **din) {
    const conv_attrs *a = n->attrs;
    if (wanted[0]) din[0] = conv_big_from(a, dout[0], n->in[1], &n->in[0]->type);
    if (wanted[1]) din[1] = conv_weight_from(a, n->in[0], dout[0]);
    if (n->n_in == 3 && wanted[2]) din[2] = conv_bias_gradient(dout[0]);
}

/* One element of y at index at = [n, o, (z,) y, x], without the bias. `first` is the first input channel of
 * o's group. */
static double window_sum(const kernel_call *c, const conv_attrs *a, const int64_t *at) {
    const tensor *x = &c->in[0], *w = &c->in[1];
    int64_t channels = w->type.shape[1], first = at[1] / (a->out / a->groups) * channels;
    int64_t from[WEFT_MAX_NDIM] = {at[0]}, tap[WEFT_MAX_NDIM] = {at[1]};
    tensor_type taps = conv_taps(a);
    double sum = 0;
    from[1] = first;
    do
        if (conv_meets(a, &x->type, at, tap + 2, from))
            sum = elements_dot(sum, (element_line){x, element_place(x, from), x->stride[1]},
                               (element_line){w, element_place(w, tap), w->stride[1]}, channels);
    while (index_next(&taps, tap + 2));
    return sum;
}

weft_status conv_reference(const kernel_call *c) {
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

const weft_op weft_op_conv2d = {
    .name = "conv2d",
    .summary = "two-dimensional convolution of images x[N,C,H,W] with w[out,C/groups,kh,kw], + b",
    .torch = "torch.nn.functional.conv2d",
    CONV_FIELDS(WEFT_PARAMS_DEPTHWISE),
    .infer = conv_infer,
    .gradient = conv_gradient,
    .reference = conv_reference,
    .samples =
        (const op_sample[]){
            {"f32[2,3,5,6], f32[4,3,3,3], f32[4]",
             "out=4 kernel=3,3 stride=1,1 pad=0,0 dilation=1,1 groups=1", .out = "f32[2,4,3,4]"},
            {"bf16[2,16,6,6], bf16[32,16,3,3], f32[32]",
             "out=32 kernel=3,3 stride=1,1 pad=1,1 dilation=1,1 groups=1", .out = "bf16[2,32,6,6]",
             .no_gradient = true},
            {"bf16[2,3,5,6], bf16[4,3,3,3]",
             "out=4 kernel=3,3 stride=1,1 pad=0,0 dilation=1,1 groups=1 f32_output=1", .out = "f32[2,4,3,4]",
             .no_gradient = true},
            {"f32[2,3,4,4], f32[2,3,1,1]", "out=2 kernel=1,1 stride=1,1 pad=0,0 dilation=1,1 groups=1",
             .out = "f32[2,2,4,4]"},
            {"f32[2,1,6,5], f32[3,1,4,4], f32[3]",
             "out=3 kernel=4,4 stride=2,2 pad=1,1 dilation=1,1 groups=1", .out = "f32[2,3,3,2]"},
            {"f32[1,4,7,8], f32[4,2,3,2]", "out=4 kernel=3,2 stride=2,1 pad=1,2 dilation=2,1 groups=2",
             .out = "f32[1,4,3,11]"},
            {"f32[2,4,5,5], f32[8,1,3,3], f32[8]",
             "out=8 kernel=3,3 stride=2,2 pad=1,1 dilation=1,1 groups=4", .out = "f32[2,8,3,3]"},
            /* as large as it takes for the fast kernels to be real; too large for differences element by
               element */
            {"f32[2,16,12,12], f32[32,16,3,3], f32[32]",
             "out=32 kernel=3,3 stride=1,1 pad=1,1 dilation=1,1 groups=1", .out = "f32[2,32,12,12]",
             .no_gradient = true},
            {"f32[2,3,16,16], f32[48,3,4,4]", "out=48 kernel=4,4 stride=2,2 pad=1,1 dilation=1,1 groups=1",
             .out = "f32[2,48,8,8]", .no_gradient = true},
            {"f32[2,32,9,9], f32[64,32,1,1]", "out=64 kernel=1,1 stride=2,2 pad=0,0 dilation=1,1 groups=1",
             .out = "f32[2,64,5,5]", .no_gradient = true},
            {"f32[2,32,8,8], f32[32,16,3,3]", "out=32 kernel=3,3 stride=1,1 pad=2,2 dilation=2,2 groups=2",
             .out = "f32[2,32,8,8]", .no_gradient = true},
            {"f32[2,3,5,6], f32[4,2,3,3]", "out=4 kernel=3,3 stride=1,1 pad=0,0 dilation=1,1 groups=1",
             .error = "weight f32[4,2,3,3]: it must be f32[4,3,3,3]"},
            {"f32[2,3,5,6], f32[4,3,3,3], f32[3]",
             "out=4 kernel=3,3 stride=1,1 pad=0,0 dilation=1,1 groups=1",
             .error = "bias f32[3]: it must be f32[4]"},
            {"f32[2,3,5,6], f32[4,3,7,3]", "out=4 kernel=7,3 stride=1,1 pad=0,0 dilation=1,1 groups=1",
             .error = "axis 2 with pad 0 on both sides is smaller than the kernel, 7 with dilation"},
            {"f32[2,3,5,6], f32[4,1,3,3]", "out=4 kernel=3,3 stride=1,1 pad=0,0 dilation=1,1 groups=2",
             .error = "3 channels to 4 in 2 groups"},
            {"f32[2,3,5,6], f32[4,3,3,3]", "out=4 kernel=3,3 stride=0,1 pad=0,0 dilation=1,1 groups=1",
             .error = "stride[0]=0: it must be 1 to 65536"},
            {"f32[2,3,5,6], f32[4,3,3,3]", "out=4 kernel=3,3 stride=1 pad=0,0 dilation=1,1 groups=1",
             .error = "stride has 1 numbers: it must have 2"},
            {"f32[3,5,6], f32[4,3,3,3]", "out=4 kernel=3,3 stride=1,1 pad=0,0 dilation=1,1 groups=1",
             .error = "x f32[3,5,6]: it must be [N, C, H, W]"},
            {"f32[2,3,5,6], f64[4,3,3,3]", "out=4 kernel=3,3 stride=1,1 pad=0,0 dilation=1,1 groups=1",
             .error = "cast one"},
            {"u8[2,3,5,6], u8[4,3,3,3]", "out=4 kernel=3,3 stride=1,1 pad=0,0 dilation=1,1 groups=1",
             .error = "must be floating point"},
            {0}},
};

weft_value *conv_value(const weft_op *op, weft_value *x, weft_value *w, weft_value *b,
                       const weft_window *window) {
    conv_attrs a;
    if (!conv_attrs_from(&a, op, x, w, window)) return NULL;
    a.out = w->type.shape[0];
    a.output_padding.n = 0;
    return op_value(op, b ? 3 : 2, (weft_value *[]){x, w, b}, &a);
}

weft_value *weft_conv2d_op(weft_value *x, weft_value *w, weft_value *b, const weft_window *window) {
    return conv_value(&weft_op_conv2d, x, w, b, window);
}
