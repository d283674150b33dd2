/* products.c - products of matrices and convolutions as nodes of ONNX. */
#include "interchange/onnx/exporters/exporter_families.h"

/* Operand i with its last two axes exchanged. */
static edge *transposed(export_call *c, int i) {
    int n = export_ndim(c, i);
    int64_t axes[WEFT_MAX_NDIM];
    for (int k = 0; k < n; k++) axes[k] = k;
    axes[n - 1] = n - 2;
    axes[n - 2] = n - 1;
    return export_permute(c, export_in(c, i), n, axes);
}

edge *export_matmul(export_call *c) {
    edge *a = export_int(c, "transpose_a") ? transposed(c, 0) : export_in(c, 0);
    edge *b = export_int(c, "transpose_b") ? transposed(c, 1) : export_in(c, 1);
    return export_2(c, "MatMul", a, b);
}

/* Of matrices one Gemm; else the product over the last axis. */
edge *export_linear(export_call *c) {
    edge *x = export_in(c, 0), *bias = export_in(c, 2);
    if (export_ndim(c, 0) == 2)
        return with_int(c, export_3(c, "Gemm", x, export_in(c, 1), bias), "transB", 1);
    edge *y = export_2(c, "MatMul", x, transposed(c, 1));
    return bias ? export_2(c, "Add", y, bias) : y;
}

/* The window of a convolution: equal padding on both sides. */
static edge *with_window(export_call *c, edge *y) {
    weft_attribute kernel = export_attribute_of(c, "kernel"), stride = export_attribute_of(c, "stride"),
                   pad = export_attribute_of(c, "pad"), dilation = export_attribute_of(c, "dilation");
    int64_t pads[2 * WEFT_MAX_NDIM];
    for (int i = 0; i < pad.n; i++) pads[i] = pads[pad.n + i] = pad.integers[i];
    with_ints(c, y, "kernel_shape", kernel.n, kernel.integers);
    with_ints(c, y, "strides", stride.n, stride.integers);
    with_ints(c, y, "pads", 2 * pad.n, pads);
    with_ints(c, y, "dilations", dilation.n, dilation.integers);
    return with_int(c, y, "group", export_int(c, "groups"));
}

static edge *convolved(export_call *c, const char *op) {
    return with_window(c, export_3(c, op, export_in(c, 0), export_in(c, 1), export_in(c, 2)));
}

edge *export_conv(export_call *c) {
    return convolved(c, "Conv");
}

edge *export_conv_transpose(export_call *c) {
    weft_attribute more = export_attribute_of(c, "output_padding");
    edge *y = convolved(c, "ConvTranspose");
    return more.n ? with_ints(c, y, "output_padding", more.n, more.integers) : y;
}
