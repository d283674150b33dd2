/* conv_kit.c - see conv2d.h: checks and sizes shared by the three convolutions, and each of them as a builder
 * for the gradients of the others. */
#include "ops/image/conv2d.h"

/* ---- attributes ---- */

bool conv_attrs_from(conv_attrs *a, const weft_op *op, weft_value *x, weft_value *w,
                     const weft_window *window) {
    /* 0 means: stride 1, no padding, dilation 1, one group. */
    static const weft_window defaults;
    weft_graph *g = op_graph(op, 2, (weft_value *[]){x, w});
    if (!g) return false;
    if (w->type.ndim != 4)
        return model_fail(g->model, g, WEFT_SHAPE, "%s: weight %s: it must have 4 axes", op->name,
                          TYPE(&w->type));
    if (!window) window = &defaults;
    if (op == &weft_op_conv2d && (window->output_padding[0] || window->output_padding[1]))
        return model_fail(g->model, g, WEFT_ARGUMENT,
                          "conv2d: output_padding is conv_transpose2d's alone: leave it 0");
    *a = (conv_attrs){.groups = window->groups ? window->groups : 1};
    a->kernel.n = a->stride.n = a->pad.n = a->dilation.n = a->output_padding.n = 2;
    for (int i = 0; i < 2; i++) {
        a->kernel.v[i] = w->type.shape[2 + i];
        a->stride.v[i] = window->stride[i] ? window->stride[i] : 1;
        a->pad.v[i] = window->pad[i];
        a->dilation.v[i] = window->dilation[i] ? window->dilation[i] : 1;
        a->output_padding.v[i] = window->output_padding[i];
    }
    return true;
}

/* ---- checks ---- */

static bool check_pair(const op_call *c, const char *name, const attr_ints *pair) {
    return pair->n == 2 ||
           op_fail(c, WEFT_ARGUMENT, "%s has %d numbers: it must have 2, height and width", name, pair->n);
}

bool conv_check_pairs(const op_call *c, const conv_attrs *a) {
    return check_pair(c, "kernel", &a->kernel) && check_pair(c, "stride", &a->stride) &&
           check_pair(c, "pad", &a->pad) && check_pair(c, "dilation", &a->dilation);
}

bool conv_check_image(const op_call *c, int i, const char *name) {
    if (!op_want_float(c, i)) return false;
    return op_in(c, i)->ndim == 4 ||
           op_fail(c, WEFT_SHAPE, "%s %s: it must be [N, C, H, W]", name, TYPE(op_in(c, i)));
}

bool conv_is_packed(const tensor_type *weight) {
    return weight->dtype == WEFT_U8 && weight->ndim == 1;
}

/* A packed weight was checked before it was packed. */
bool conv_check_weight(const op_call *c, const conv_attrs *a, int64_t o, int64_t channels) {
    const tensor_type *w = op_in(c, 1), *x = op_in(c, 0);
    if (conv_is_packed(w)) return true;
    if (w->dtype != x->dtype)
        return op_fail(c, WEFT_TYPE, "x is %s and the weight %s: cast one to the other's type", TYPE(x),
                       TYPE(w));
    tensor_type want = type_of(x->dtype, 4, (int64_t[]){o, channels, a->kernel.v[0], a->kernel.v[1]});
    return type_equal(w, &want) ||
           op_fail(c, WEFT_SHAPE, "x %s and weight %s: it must be [%lld, %lld, %lld, %lld]", TYPE(x), TYPE(w),
                   (long long)o, (long long)channels, (long long)a->kernel.v[0], (long long)a->kernel.v[1]);
}

weft_dtype conv_result_dtype(const conv_attrs *a, weft_dtype dtype) {
    return a->f32_output ? dtype_accumulator(dtype) : dtype;
}

bool conv_check_bias(const op_call *c, const conv_attrs *a) {
    if (c->n_in < 3 || !c->in[2]) return true;
    tensor_type want = type_of(op_in(c, 0)->dtype, 1, &a->out),
                wide = type_of(dtype_accumulator(want.dtype), 1, &a->out);
    return type_equal(op_in(c, 2), &want) || type_equal(op_in(c, 2), &wide) ||
           op_fail(c, WEFT_SHAPE, "bias %s: it must be %s", TYPE(op_in(c, 2)), TYPE(&want));
}

/* ---- sizes of one axis ---- */

/* Length of the kernel with dilation. */
static int64_t extent(const conv_attrs *a, int axis) {
    return a->dilation.v[axis] * (a->kernel.v[axis] - 1) + 1;
}

int64_t conv_small(const conv_attrs *a, int axis, int64_t big) {
    int64_t room = big + 2 * a->pad.v[axis] - extent(a, axis);
    return room < 0 ? 0 : room / a->stride.v[axis] + 1;
}

int64_t conv_big(const conv_attrs *a, int axis, int64_t small) {
    return (small - 1) * a->stride.v[axis] - 2 * a->pad.v[axis] + extent(a, axis);
}

int64_t conv_growth(const conv_attrs *a, int axis, int64_t big, int64_t small) {
    return big - conv_big(a, axis, small);
}

bool conv_growth_fits(const conv_attrs *a, int axis, int64_t growth) {
    return growth >= 0 && (growth < a->stride.v[axis] || growth < a->dilation.v[axis]);
}

/* ---- each of the three from the other two ---- */

weft_value *conv_big_from(const conv_attrs *a, weft_value *small, weft_value *weight,
                          const tensor_type *big) {
    if (!small || !weight) return NULL;
    conv_attrs b = *a;
    b.f32_output = false;
    /* The output padding restores the exact size of big, which the stride has rounded away. */
    b.out = big->shape[1];
    b.output_padding.n = 2;
    for (int i = 0; i < 2; i++)
        b.output_padding.v[i] = conv_growth(a, i, big->shape[2 + i], small->type.shape[2 + i]);
    return node_value(small->node->graph, &weft_op_conv_transpose2d, 2, (weft_value *[]){small, weight}, &b);
}

/* Where dilation exceeds the stride, the output padding may be a whole stride or more. Then conv2d makes more
 * positions than small has; they are cut off. */
weft_value *conv_small_from(const conv_attrs *a, weft_value *big, weft_value *weight,
                            const tensor_type *small) {
    if (!big || !weight) return NULL;
    conv_attrs b = *a;
    b.f32_output = false;
    b.out = small->shape[1];
    b.output_padding.n = 0;
    weft_value *v = node_value(big->node->graph, &weft_op_conv2d, 2, (weft_value *[]){big, weight}, &b);
    for (int i = 2; v && i < 4; i++)
        if (v->type.shape[i] > small->shape[i]) v = weft_slice(v, i, 0, small->shape[i]);
    return v;
}

weft_value *conv_weight_from(const conv_attrs *a, weft_value *big, weft_value *small) {
    if (!big || !small) return NULL;
    conv_attrs b = *a;
    b.f32_output = false;
    b.out = 0;
    b.output_padding.n = 0;
    return node_value(big->node->graph, &weft_op_conv2d_weight, 2, (weft_value *[]){big, small}, &b);
}
