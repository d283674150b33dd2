/* products.c - matrix products and convolutions, of integers too. */
#include "interchange/onnx/operators/families.h"
#include "interchange/onnx/operators/window.h"

/* ---- matrix products ---- */

/* a b; a vector is a row on the left, a column on the right, and its axis then vanishes. */
static weft_value *product(weft_value *a, weft_value *b) {
    if (!a || !b) return NULL;
    bool is_row = weft_ndim(a) == 1, is_column = weft_ndim(b) == 1;
    if (is_row) a = weft_unsqueeze(a, 0);
    if (is_column) b = weft_unsqueeze(b, 1);
    weft_value *y = weft_matmul(a, b, false, false);
    if (is_column) y = weft_squeeze(y, -1);
    return is_row ? weft_squeeze(y, is_column ? -1 : -2) : y;
}

weft_value *onnx_build_matmul(onnx_call *c) {
    weft_value *a = onnx_in(c, 0), *b = onnx_in(c, 1);
    return product(a, b);
}

/* alpha A B + beta C, with A and B as they are or transposed. x W^T + b is a layer, whose kernel adds b. */
weft_value *onnx_build_gemm(onnx_call *c) {
    weft_value *a = onnx_in(c, 0), *b = onnx_in(c, 1), *d = onnx_in(c, 2);
    bool turns_a = onnx_int(c, "transA", 0), turns_b = onnx_int(c, "transB", 0);
    double alpha = onnx_real(c, "alpha", 1), beta = onnx_real(c, "beta", 1);
    if (!a || !b) return NULL;
    bool is_plain = !turns_a && turns_b && alpha == 1 && beta == 1 && weft_ndim(b) == 2;
    bool is_layer = is_plain && (!d || (weft_ndim(d) == 1 && weft_dim(d, 0) == weft_dim(b, 0)));
    if (is_layer) return weft_linear_op(a, b, d);
    weft_value *y = weft_matmul(a, b, turns_a, turns_b);
    if (alpha != 1) y = weft_scale(y, alpha);
    if (d && beta != 1) d = weft_scale(d, beta);
    return d ? weft_add(y, d) : y;
}

/* ---- convolutions ---- */

static weft_window window_of(const onnx_window *at, int64_t groups) {
    weft_window window = {.groups = groups};
    for (int i = 0; i < at->n; i++) {
        window.stride[i] = at->stride[i];
        window.dilation[i] = at->dilation[i];
        window.pad[i] = at->before[i];
    }
    return window;
}

/* The attributes of a node over x with the weight w. */
static bool window_over(onnx_call *c, weft_value *x, weft_value *w, onnx_window *at) {
    int64_t kernel[ONNX_SPACE];
    if (!x || !w) return false;
    if (weft_ndim(w) != weft_ndim(x) || weft_ndim(x) < 3 || weft_ndim(x) > 2 + ONNX_SPACE)
        return onnx_refuse(c, "x has %d axes, the weight %d: both have 3, 4 or 5", weft_ndim(x),
                           weft_ndim(w));
    for (int i = 0; i + 2 < weft_ndim(w); i++) kernel[i] = weft_dim(w, 2 + i);
    return onnx_window_of(c, x, kernel, at);
}

static weft_value *convolution(onnx_call *c, weft_value *x, weft_value *w, weft_value *b) {
    onnx_window at;
    int64_t groups = onnx_int(c, "group", 1);
    if (!window_over(c, x, w, &at)) return NULL;
    x = onnx_window_pad(x, &at, 0);
    weft_window window = window_of(&at, groups);
    if (at.n == 1) return weft_conv1d_op(x, w, b, &window);
    return at.n == 2 ? weft_conv2d_op(x, w, b, &window) : weft_conv3d_op(x, w, b, &window);
}

weft_value *onnx_build_conv(onnx_call *c) {
    weft_value *x = onnx_in(c, 0), *w = onnx_in(c, 1), *b = onnx_in(c, 2);
    return convolution(c, x, w, b);
}

/* [C] as it broadcasts to x[N, C, ...]. */
static weft_value *in_channels(weft_value *v, const weft_value *x) {
    int64_t shape[WEFT_MAX_NDIM] = {-1, 1, 1, 1, 1, 1, 1};
    return weft_reshape(v, weft_ndim(x) - 1, shape);
}

/* Where a transposed convolution begins and ends in what it would be without padding. */
typedef struct placed {
    int64_t full[ONNX_SPACE], before[ONNX_SPACE], length[ONNX_SPACE], more[ONNX_SPACE];
    bool is_builder; /* a builder of Weft has such a padding */
} placed;

static bool place(onnx_call *c, weft_value *x, const onnx_window *at, placed *p) {
    int n, n_more;
    const int64_t *shape = onnx_ints(c, "output_shape", &n), *more = onnx_ints(c, "output_padding", &n_more);
    const char *automatic = onnx_word(c, "auto_pad", "NOTSET");
    bool is_upper = !strcmp(automatic, "SAME_UPPER"), is_same = is_upper || !strcmp(automatic, "SAME_LOWER");
    *p = (placed){.is_builder = true};
    if ((shape && n != at->n) || (more && n_more != at->n))
        return onnx_refuse(c, "output_shape or output_padding has not %d numbers", at->n);
    for (int i = 0; i < at->n; i++) {
        int64_t length = weft_dim(x, 2 + i);
        bool is_far = (shape && (shape[i] < 1 || shape[i] > INT32_MAX)) ||
                      (more && (more[i] < 0 || more[i] > INT32_MAX));
        if (is_far)
            return onnx_refuse(c, "output_shape or output_padding of %jd", shape ? shape[i] : more[i]);
        p->full[i] = at->stride[i] * (length - 1) + (at->kernel[i] - 1) * at->dilation[i] + 1;
        p->more[i] = more ? more[i] : 0;
        p->before[i] = is_same ? 0 : at->before[i];
        p->length[i] = p->full[i] + p->more[i] - at->before[i] - at->after[i];
        if (shape && !is_same && (at->before[i] || at->after[i]))
            return onnx_refuse(c, "output_shape and pads");
        if (shape || is_same) {
            p->length[i] = shape ? shape[i] : length * at->stride[i];
            int64_t total = p->full[i] + p->more[i] - p->length[i];
            if (total < 0 && !shape)
                return onnx_refuse(c,
                                   "auto_pad SAME with strides beyond the kernel: export with output_shape");
            p->before[i] = total <= 0 ? 0 : is_upper ? total / 2 : total - total / 2;
        }
        int64_t after = p->full[i] + p->more[i] - p->before[i] - p->length[i];
        p->is_builder =
            p->is_builder && after == p->before[i] && p->more[i] >= 0 && p->more[i] < at->stride[i];
        if (p->length[i] < 1)
            return onnx_refuse(c, "axis %d of the result has length %jd", 2 + i, p->length[i]);
    }
    return true;
}

static weft_value *transposed(weft_value *x, weft_value *w, weft_value *b, int n, const weft_window *window) {
    if (n == 1) return weft_conv_transpose1d_op(x, w, b, window);
    return n == 2 ? weft_conv_transpose2d_op(x, w, b, window) : weft_conv_transpose3d_op(x, w, b, window);
}

weft_value *onnx_build_conv_transpose(onnx_call *c) {
    weft_value *x = onnx_in(c, 0), *w = onnx_in(c, 1), *b = onnx_in(c, 2);
    int64_t groups = onnx_int(c, "group", 1), pads[2 * ONNX_SPACE];
    onnx_window at;
    placed p;
    if (!window_over(c, x, w, &at) || !place(c, x, &at, &p)) return NULL;
    weft_window window = window_of(&at, groups);
    for (int i = 0; i < at.n; i++) {
        window.pad[i] = p.is_builder ? p.before[i] : 0;
        window.output_padding[i] = p.is_builder ? p.more[i] : 0;
        pads[2 * (at.n - 1 - i)] = -p.before[i];
        pads[2 * (at.n - 1 - i) + 1] = p.before[i] + p.length[i] - p.full[i];
    }
    if (p.is_builder) return transposed(x, w, b, at.n, &window);
    weft_value *y = weft_constant_pad(transposed(x, w, NULL, at.n, &window), at.n, pads, 0);
    return b && y ? weft_add(y, in_channels(b, y)) : y;
}

/* ---- products of integers of 8 bits: exact in f64 ---- */

/* Operand i minus its zero point (operand `zero`, or NULL). A zero point of one axis belongs to an axis
 * of the operand: `axis` of it. */
static weft_value *centered(onnx_call *c, int i, int zero, int axis) {
    int64_t shape[WEFT_MAX_NDIM] = {0};
    weft_value *x = onnx_in(c, i), *z = onnx_in(c, zero);
    if (!x) return NULL;
    if (axis < 0) axis += weft_ndim(x);
    x = weft_cast(x, WEFT_F64);
    if (!z) return x;
    for (int j = 0; j < weft_ndim(x); j++) shape[j] = j == axis ? weft_dim(z, 0) : 1;
    z = weft_cast(z, WEFT_F64);
    return weft_sub(x, weft_ndim(z) == 1 && weft_dim(z, 0) > 1 ? weft_reshape(z, weft_ndim(x), shape)
                       : weft_ndim(z) == 1                     ? weft_reshape(z, 0, NULL)
                                                               : z);
}

weft_value *onnx_build_matmul_integer(onnx_call *c) {
    weft_value *a = centered(c, 0, 2, -2), *b = centered(c, 1, 3, -1);
    return weft_cast(product(a, b), WEFT_I32);
}

weft_value *onnx_build_conv_integer(onnx_call *c) {
    weft_value *x = centered(c, 0, 2, -1), *w = centered(c, 1, 3, 0);
    return weft_cast(convolution(c, x, w, NULL), WEFT_I32);
}

/* A number or a vector [C] for axis `axis` of x, which x is multiplied by. */
static weft_value *along_axis(weft_value *v, weft_value *x, int axis) {
    int64_t shape[WEFT_MAX_NDIM];
    if (!v || !x || weft_ndim(v) != 1) return v;
    if (weft_dim(v, 0) == 1) return weft_reshape(v, 0, NULL);
    for (int i = 0; i < weft_ndim(x); i++) shape[i] = i == axis ? -1 : 1;
    return weft_reshape(v, weft_ndim(x), shape);
}

/* The products of operands 0 and 3 in the scale of the result, as integers of its type: operands 1 and 4 are
 * scales of both, 6 and 7 scale and zero point of the result. */
static weft_value *requantized(onnx_call *c, weft_value *y, int axis_a, int axis_b) {
    weft_value *a = along_axis(onnx_in(c, 1), y, axis_a), *b = along_axis(onnx_in(c, 4), y, axis_b),
               *s = along_axis(onnx_in(c, 6), y, axis_a);
    weft_value *zero = along_axis(onnx_in(c, 7), y, axis_a);
    if (!y || !a || !b || !s || !zero) return NULL;
    weft_dtype to = weft_value_dtype(zero);
    if (to != WEFT_U8 && to != WEFT_I8) return onnx_refuse(c, "a result of %s", weft_dtype_name(to));
    weft_value *factor = weft_cast(weft_div(weft_mul(a, b), s), WEFT_F64);
    y = weft_round(weft_mul(y, factor));
    y = weft_add(y, weft_cast(zero, WEFT_F64));
    return weft_cast(weft_clamp(y, to == WEFT_U8 ? 0 : -128, to == WEFT_U8 ? 255 : 127), to);
}

weft_value *onnx_build_qlinear_matmul(onnx_call *c) {
    weft_value *a = centered(c, 0, 2, -2), *b = centered(c, 3, 5, -1), *y = product(a, b);
    return y ? requantized(c, y, weft_ndim(y) - 2, weft_ndim(y) - 1) : NULL;
}

/* The bias is of the scale of the products. */
weft_value *onnx_build_qlinear_conv(onnx_call *c) {
    weft_value *x = centered(c, 0, 2, -1), *w = centered(c, 3, 5, 0), *b = onnx_in(c, 8);
    if (b) b = weft_cast(b, WEFT_F64);
    return requantized(c, convolution(c, x, w, b), 1, 1);
}
