/* fused.c - nodes that fuse.c puts in the place of several. */
#include "interchange/onnx/operators/families.h"

static weft_value *sum_of_masks(onnx_call *c) {
    weft_value *a = onnx_in(c, 3), *b = onnx_in(c, 4);
    return a && b ? weft_add(a, b) : a;
}

/* Whether q, k^T and v are of [B, H, T, D] with equal batches and heads, as the kernel takes them. */
static bool are_of_heads(weft_value *q, weft_value *k, weft_value *v) {
    bool are_four = weft_ndim(q) == 4 && weft_ndim(k) == 4 && weft_ndim(v) == 4;
    for (int i = 0; i < 2 && are_four; i++)
        are_four = weft_dim(q, i) == weft_dim(k, i) && weft_dim(q, i) == weft_dim(v, i);
    return are_four;
}

/* softmax(scale q k^T + masks) v; operands q, k^T, v and up to two masks. */
weft_value *onnx_build_fused_attention(onnx_call *c) {
    weft_value *q = onnx_in(c, 0), *k = onnx_in(c, 1), *v = onnx_in(c, 2), *mask = sum_of_masks(c);
    double scale = onnx_real(c, "scale", 1);
    weft_attention_options options = {.scale = scale, .mask = mask};
    if (!q || !k || !v) return NULL;
    bool is_plain =
        weft_value_dtype(q) == WEFT_F32; /* others round between the file's nodes, and are to round there */
    if (is_plain && are_of_heads(q, k, v)) return weft_attention(q, weft_transpose(k, -2, -1), v, &options);
    weft_value *scores = weft_matmul(q, k, false, false);
    if (scale != 1) scores = weft_scale(scores, scale);
    if (mask) scores = weft_add(scores, mask);
    return weft_matmul(weft_softmax(scores, -1), v, false, false);
}

/* x / sqrt(mean(x^2) + eps) along the last axis. */
weft_value *onnx_build_fused_rms_norm(onnx_call *c) {
    weft_value *x = onnx_in(c, 0);
    return weft_rms_norm_op(x, NULL, onnx_real(c, "eps", 0));
}
