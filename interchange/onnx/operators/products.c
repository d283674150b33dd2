/* products.c - matrix products and convolutions. */
#include "interchange/onnx/families.h"
#include "interchange/onnx/operators/window.h"

/* alpha A B + beta C, with A and B as they are or transposed. x W^T + b is a layer, whose kernel adds b. */
weft_value *onnx_build_gemm(onnx_call *c) {
    weft_value *a = onnx_in(c, 0), *b = onnx_in(c, 1), *d = onnx_in(c, 2);
    bool turns_a = onnx_int(c, "transA", 0), turns_b = onnx_int(c, "transB", 0);
    double alpha = onnx_real(c, "alpha", 1), beta = onnx_real(c, "beta", 1);
    if (!a || !b) return NULL;
    bool is_layer = !turns_a && turns_b && alpha == 1 && beta == 1 && (!d || weft_ndim(d) == 1);
    if (is_layer && weft_ndim(b) == 2)
        return weft_linear_op(a, b, d && weft_dim(d, 0) == weft_dim(b, 0) ? d : NULL);
    weft_value *y = weft_matmul(a, b, turns_a, turns_b);
    if (alpha != 1) y = weft_scale(y, alpha);
    if (d && beta != 1) d = weft_scale(d, beta);
    return d ? weft_add(y, d) : y;
}

weft_value *onnx_build_conv(onnx_call *c) {
    weft_value *x = onnx_in(c, 0), *w = onnx_in(c, 1), *b = onnx_in(c, 2);
    int64_t kernel[ONNX_SPACE], pads[2 * ONNX_SPACE];
    onnx_window at;
    weft_window window = {.groups = onnx_int(c, "group", 1)};
    if (!x || !w) return NULL;
    for (int i = 0; i < ONNX_SPACE; i++) kernel[i] = weft_dim(w, 2 + i);
    if (!onnx_window_of(c, x, kernel, &at)) return NULL;
    bool is_even = onnx_window_is_even(&at);
    for (int i = 0; i < at.n; i++) {
        window.stride[i] = at.stride[i];
        window.dilation[i] = at.dilation[i];
        window.pad[i] = is_even ? at.before[i] : 0;
        pads[2 * (at.n - 1 - i)] = at.before[i]; /* the last axis first */
        pads[2 * (at.n - 1 - i) + 1] = at.after[i];
    }
    if (!is_even) x = weft_constant_pad(x, at.n, pads, 0);
    if (at.n == 1) return weft_conv1d_op(x, w, b, &window);
    return at.n == 2 ? weft_conv2d_op(x, w, b, &window) : weft_conv3d_op(x, w, b, &window);
}
