/* conv2d_weight.c - the gradient of a convolution's weight. conv2d uses it with (x, dy), conv_transpose2d
 * with (dy, x). Its functions are conv3d_weight's too.
 *     big [N, C, H, W]   small [N, O, h, w]   ->   dw [O, C/groups, kh, kw]
 *     dw[o,c,ky,kx] = sum over n, y, x of small[n,o,y,x] big[n, c, y stride - pad + ky dilation, ...]
 *     dbig = conv_transpose2d(small, ddw)   dsmall = conv2d(big, ddw)
 */
#include "ops/image/conv2d.h"

#include <string.h>

static const op_attr attrs[] = {CONV_ATTR_ROWS, {0}};

/* Whether some output padding leads from small to big on axis i. */
static bool infer_axis(op_call *c, const conv_attrs *a, int i) {
    const tensor_type *big = op_in(c, 0), *small = op_in(c, 1);
    return conv_growth_fits(a, i, conv_growth(a, i, big->shape[2 + i], small->shape[2 + i])) ||
           op_fail(c, WEFT_SHAPE,
                   "%s and %s: no convolution with this window leads from axis %d of one to the other",
                   TYPE(big), TYPE(small), 2 + i);
}

bool conv_weight_infer(op_call *c) {
    const conv_attrs *a = c->attrs;
    if (!conv_check_axes(c, a) || !conv_check_image(c, 0, "big") || !conv_check_image(c, 1, "small") ||
        !op_want_same_dtype(c))
        return false;
    const tensor_type *big = op_in(c, 0), *small = op_in(c, 1);
    if (big->shape[0] != small->shape[0])
        return op_fail(c, WEFT_SHAPE, "%s and %s: both must have the same number of images", TYPE(big),
                       TYPE(small));
    if (big->shape[1] % a->groups || small->shape[1] % a->groups)
        return op_fail(c, WEFT_SHAPE,
                       "%lld and %lld channels in %lld groups: both must be multiples of the groups",
                       (long long)big->shape[1], (long long)small->shape[1], (long long)a->groups);
    c->out[0] =
        conv_weight_type(a, conv_result_dtype(a, big->dtype), small->shape[1], big->shape[1] / a->groups);
    for (int i = 0; i < a->kernel.n; i++)
        if (!infer_axis(c, a, i)) return false;
    return true;
}

void conv_weight_gradient(weft_node *n, weft_value *const *dout, const bool *wanted, weft_value **din) {
    const conv_attrs *a = n->attrs;
    if (wanted[0]) din[0] = conv_big_from(a, n->in[1], dout[0], &n->in[0]->type);
    if (wanted[1]) din[1] = conv_small_from(a, n->in[0], dout[0], &n->in[1]->type);
}

/* One element of dw: the correlation of `channel` of big with channel at[0] of small, shifted by at[2] and
 * those after it. */
static double correlation(const kernel_call *c, const conv_attrs *a, const int64_t *at, int64_t channel) {
    const tensor *big = &c->in[0], *small = &c->in[1];
    int64_t from[WEFT_MAX_NDIM] = {0, channel}, by[WEFT_MAX_NDIM] = {0};
    int last = small->type.ndim - 1, x = last - 2;
    tensor_type rows = small->type;
    rows.shape[1] = rows.shape[last] = 1; /* of one channel */
    /* the part of a row of small that meets one of big: X = x stride - pad + k dilation */
    int64_t stride = a->stride.v[x], shift = a->pad.v[x] - at[last] * a->dilation.v[x];
    int64_t begin = shift > 0 ? (shift + stride - 1) / stride : 0;
    int64_t reach = big->type.shape[last] - 1 + shift, end = reach < 0 ? 0 : reach / stride + 1;
    if (end > small->type.shape[last]) end = small->type.shape[last];
    double sum = 0;
    do {
        int64_t one[WEFT_MAX_NDIM];
        memcpy(one, by, sizeof one);
        one[last] = begin;
        if (begin >= end || !conv_meets(a, &big->type, one, at + 2, from)) continue;
        one[1] = at[0];
        from[0] = by[0];
        sum = elements_dot(sum, (element_line){small, element_place(small, one), small->stride[last]},
                           (element_line){big, element_place(big, from), big->stride[last] * stride},
                           end - begin);
    } while (index_next(&rows, by));
    return sum;
}

weft_status conv_weight_reference(const kernel_call *c) {
    const conv_attrs *a = c->attrs;
    const tensor_type *w = &c->out[0].type;
    int64_t at[WEFT_MAX_NDIM] = {0};
    do
        element_set(&c->out[0], at,
                    correlation(c, a, at, at[0] / (w->shape[0] / a->groups) * w->shape[1] + at[1]));
    while (index_next(w, at));
    return WEFT_OK;
}

const weft_op weft_op_conv2d_weight = {
    .name = "conv2d_weight",
    .summary = "gradient of a convolution's weight, from its larger and its smaller image",
    CONV_WEIGHT_FIELDS,
    .samples =
        (const op_sample[]){
            {"f32[2,3,5,6], f32[2,4,3,4]", "kernel=3,3 stride=1,1 pad=0,0 dilation=1,1 groups=1",
             .out = "f32[4,3,3,3]"},
            {"bf16[2,16,6,6], bf16[2,32,6,6]",
             "kernel=3,3 stride=1,1 pad=1,1 dilation=1,1 groups=1 f32_output=1", .out = "f32[32,16,3,3]",
             .no_gradient = true},
            {"f32[2,1,6,5], f32[2,3,3,2]", "kernel=4,4 stride=2,2 pad=1,1 dilation=1,1 groups=1",
             .out = "f32[3,1,4,4]"},
            {"f32[1,4,7,8], f32[1,4,3,11]", "kernel=3,2 stride=2,1 pad=1,2 dilation=2,1 groups=2",
             .out = "f32[4,2,3,2]"},
            {"f32[1,2,9,6], f32[1,2,3,3]", "kernel=3,3 stride=1,1 pad=1,1 dilation=3,2 groups=1",
             .out = "f32[2,2,3,3]"},
            /* too large for differences element by element */
            {"f32[2,16,12,12], f32[2,32,12,12]", "kernel=3,3 stride=1,1 pad=1,1 dilation=1,1 groups=1",
             .out = "f32[32,16,3,3]", .no_gradient = true},
            /* few channels on many pixels: oneDNN for AVX2 divides the images among threads (parts.c) */
            {"f32[2,8,24,24], f32[2,8,24,24]", "kernel=3,3 stride=1,1 pad=1,1 dilation=1,1 groups=1",
             .out = "f32[8,8,3,3]", .no_gradient = true},
            {"f32[2,3,16,16], f32[2,48,8,8]", "kernel=4,4 stride=2,2 pad=1,1 dilation=1,1 groups=1",
             .out = "f32[48,3,4,4]", .no_gradient = true},
            {"f32[2,32,8,8], f32[2,100,8,8]", "kernel=1,1 stride=1,1 pad=0,0 dilation=1,1 groups=1",
             .out = "f32[100,32,1,1]", .no_gradient = true},
            {"f32[2,32,9,9], f32[2,32,5,5]", "kernel=3,3 stride=2,2 pad=1,1 dilation=1,1 groups=2",
             .out = "f32[32,16,3,3]", .no_gradient = true},
            {"f32[2,3,5,6], f32[1,4,3,4]", "kernel=3,3 stride=1,1 pad=0,0 dilation=1,1 groups=1",
             .error = "the same number of images"},
            {"f32[2,3,5,6], f32[2,4,4,4]", "kernel=3,3 stride=1,1 pad=0,0 dilation=1,1 groups=1",
             .error = "no convolution with this window leads from axis 2"},
            {"f32[2,3,5,6], f32[2,4,3,4]", "kernel=3,3 stride=1,1 pad=0,0 dilation=1,1 groups=2",
             .error = "3 and 4 channels in 2 groups"},
            {0}},
};
