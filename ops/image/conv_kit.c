/* conv_kit.c - see conv2d.h: checks and sizes shared by the convolutions, and each of them as a builder for
 * the gradients of the others. */
#include "ops/image/conv2d.h"

/* ---- the ops ---- */

static const struct {
    const weft_op *op;
    conv_part part;
    int axes;
} ops[] = {
    {&weft_op_conv2d, CONV_SMALL, 2},         {&weft_op_conv_transpose2d, CONV_BIG, 2},
    {&weft_op_conv2d_weight, CONV_WEIGHT, 2}, {&weft_op_conv3d, CONV_SMALL, 3},
    {&weft_op_conv_transpose3d, CONV_BIG, 3}, {&weft_op_conv3d_weight, CONV_WEIGHT, 3},
};
enum { OPS = sizeof ops / sizeof *ops };

conv_part conv_part_of(const weft_op *op) {
    for (int i = 0; i < OPS; i++)
        if (ops[i].op == op) return ops[i].part;
    return CONV_NO_PART;
}

int conv_axes(const weft_op *op) {
    for (int i = 0; i < OPS; i++)
        if (ops[i].op == op) return ops[i].axes;
    return 0;
}

static const weft_op *op_of(conv_part part, int axes) {
    for (int i = 0; i < OPS; i++)
        if (ops[i].part == part && ops[i].axes == axes) return ops[i].op;
    return NULL;
}

/* ---- attributes ---- */

/* An image has no third number, and only transposed convolutions have an output padding. */
static bool window_fits(const weft_op *op, const weft_window *w, weft_graph *g) {
    const int64_t *grown = w->output_padding;
    if (conv_part_of(op) == CONV_SMALL && (grown[0] || grown[1] || grown[2]))
        return model_fail(g->model, g, WEFT_ARGUMENT, "%s: output_padding is %s's alone: leave it 0",
                          op->name, op_of(CONV_BIG, conv_axes(op))->name);
    return conv_axes(op) == 3 || !(w->stride[2] || w->pad[2] || w->dilation[2] || grown[2]) ||
           model_fail(g->model, g, WEFT_ARGUMENT,
                      "%s: an image has two axes: leave the third number of each setting 0", op->name);
}

bool conv_attrs_from(conv_attrs *a, const weft_op *op, weft_value *x, weft_value *w,
                     const weft_window *window) {
    /* 0 means: stride 1, no padding, dilation 1, one group. */
    static const weft_window defaults;
    weft_graph *g = op_graph(op, 2, (weft_value *[]){x, w});
    if (!g) return false;
    int axes = conv_axes(op);
    if (w->type.ndim != 2 + axes)
        return model_fail(g->model, g, WEFT_SHAPE, "%s: weight %s: it must have %d axes", op->name,
                          TYPE(&w->type), 2 + axes);
    if (!window) window = &defaults;
    if (!value_reserved(x, op->name, window->reserved, sizeof window->reserved) ||
        !window_fits(op, window, g))
        return false;
    *a = (conv_attrs){.groups = window->groups ? window->groups : 1};
    a->kernel.n = a->stride.n = a->pad.n = a->dilation.n = a->output_padding.n = axes;
    for (int i = 0; i < axes; i++) {
        a->kernel.v[i] = w->type.shape[2 + i];
        a->stride.v[i] = window->stride[i] ? window->stride[i] : 1;
        a->pad.v[i] = window->pad[i];
        a->dilation.v[i] = window->dilation[i] ? window->dilation[i] : 1;
        a->output_padding.v[i] = window->output_padding[i];
    }
    return true;
}

/* ---- checks ---- */

static bool check_axes(const op_call *c, const char *name, const attr_ints *numbers) {
    int axes = conv_axes(c->op);
    return numbers->n == axes ||
           op_fail(c, WEFT_ARGUMENT, "%s has %d numbers: it must have %d, %sheight and width", name,
                   numbers->n, axes, axes == 3 ? "depth, " : "");
}

/* Only transposed convolutions have an output padding. */
bool conv_check_axes(const op_call *c, const conv_attrs *a) {
    return check_axes(c, "kernel", &a->kernel) && check_axes(c, "stride", &a->stride) &&
           check_axes(c, "pad", &a->pad) && check_axes(c, "dilation", &a->dilation) &&
           (conv_part_of(c->op) != CONV_BIG || check_axes(c, "output_padding", &a->output_padding));
}

bool conv_check_image(const op_call *c, int i, const char *name) {
    int axes = conv_axes(c->op);
    if (!op_want_float(c, i)) return false;
    return op_in(c, i)->ndim == 2 + axes || op_fail(c, WEFT_SHAPE, "%s %s: it must be [N, C, %sH, W]", name,
                                                    TYPE(op_in(c, i)), axes == 3 ? "D, " : "");
}

tensor_type conv_weight_type(const conv_attrs *a, weft_dtype dtype, int64_t o, int64_t channels) {
    tensor_type w = type_of(dtype, 2, (int64_t[]){o, channels});
    for (int i = 0; i < a->kernel.n; i++) w.shape[w.ndim++] = a->kernel.v[i];
    return w;
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
    tensor_type want = conv_weight_type(a, x->dtype, o, channels);
    return type_equal(w, &want) ||
           op_fail(c, WEFT_SHAPE, "x %s and weight %s: it must be %s", TYPE(x), TYPE(w), TYPE(&want));
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
    b.output_padding.n = a->kernel.n;
    for (int i = 0; i < a->kernel.n; i++)
        b.output_padding.v[i] = conv_growth(a, i, big->shape[2 + i], small->type.shape[2 + i]);
    return node_value(small->node->graph, op_of(CONV_BIG, a->kernel.n), 2, (weft_value *[]){small, weight},
                      &b);
}

/* Where dilation exceeds the stride, the output padding may be a whole stride or more. Then the convolution
 * makes more positions than small has; they are cut off. */
weft_value *conv_small_from(const conv_attrs *a, weft_value *big, weft_value *weight,
                            const tensor_type *small) {
    if (!big || !weight) return NULL;
    conv_attrs b = *a;
    b.f32_output = false;
    b.out = small->shape[1];
    b.output_padding.n = 0;
    weft_value *v =
        node_value(big->node->graph, op_of(CONV_SMALL, a->kernel.n), 2, (weft_value *[]){big, weight}, &b);
    for (int i = 2; v && i < 2 + a->kernel.n; i++)
        if (v->type.shape[i] > small->shape[i]) v = weft_slice(v, i, 0, small->shape[i]);
    return v;
}

weft_value *conv_weight_from(const conv_attrs *a, weft_value *big, weft_value *small) {
    if (!big || !small) return NULL;
    conv_attrs b = *a;
    b.f32_output = false;
    b.out = 0;
    b.output_padding.n = 0;
    return node_value(big->node->graph, op_of(CONV_WEIGHT, a->kernel.n), 2, (weft_value *[]){big, small}, &b);
}

weft_value *conv_bias_gradient(weft_value *dy) {
    const int64_t axes[] = {0, 2, 3, 4};
    return weft_sum(dy, dy->type.ndim - 1, axes, false);
}

/* ---- for the references ---- */

tensor_type conv_taps(const conv_attrs *a) {
    return type_of(WEFT_F32, a->kernel.n, a->kernel.v);
}

bool conv_meets(const conv_attrs *a, const tensor_type *big, const int64_t *small, const int64_t *k,
                int64_t *at) {
    for (int i = 0; i < a->kernel.n; i++) {
        at[2 + i] = small[2 + i] * a->stride.v[i] - a->pad.v[i] + k[i] * a->dilation.v[i];
        if (at[2 + i] < 0 || at[2 + i] >= big->shape[2 + i]) return false;
    }
    return true;
}
