/* fused.c - nodes that fuse.c puts in the place of several. */
#include "interchange/onnx/operators/families.h"

enum { Q, K, V, MASK, SECOND_MASK };

static weft_value *sum_of_masks(onnx_call *c) {
    weft_value *a = onnx_in(c, MASK), *b = onnx_in(c, SECOND_MASK);
    return a && b ? weft_add(a, b) : a;
}

/* Whether a mask broadcasts to scores, and does not make them larger. */
static bool is_within(const weft_value *mask, const int64_t scores[4]) {
    int n = mask ? weft_ndim(mask) : 0;
    for (int i = 0; i < n && n <= 4; i++)
        if (weft_dim(mask, i) != 1 && weft_dim(mask, i) != scores[4 - n + i]) return false;
    return n <= 4;
}

/* Whether the kernel takes the operands: q, k^T and v of [B, H, T, D] with equal batches and heads, and masks
 * within the scores. */
static bool is_for_kernel(onnx_call *c) {
    const weft_value *q = onnx_in(c, Q), *k = onnx_in(c, K), *v = onnx_in(c, V);
    if (weft_ndim(q) != 4 || weft_ndim(k) != 4 || weft_ndim(v) != 4) return false;
    for (int i = 0; i < 2; i++)
        if (weft_dim(q, i) != weft_dim(k, i) || weft_dim(q, i) != weft_dim(v, i)) return false;
    const int64_t scores[4] = {weft_dim(q, 0), weft_dim(q, 1), weft_dim(q, 2), weft_dim(k, 3)};
    return is_within(onnx_in(c, MASK), scores) && is_within(onnx_in(c, SECOND_MASK), scores);
}

/* The same at each batch: a length of 1 may be a batch of 1. */
static bool is_always_for_kernel(onnx_call *c) {
    bool here = is_for_kernel(c);
    c->side = !c->side;
    bool there = is_for_kernel(c);
    c->side = !c->side;
    return here && there;
}

/* softmax(scale q k^T + masks) v; operands q, k^T, v and up to two masks. */
weft_value *onnx_build_fused_attention(onnx_call *c) {
    weft_value *q = onnx_in(c, Q), *k = onnx_in(c, K), *v = onnx_in(c, V), *mask = sum_of_masks(c);
    double scale = onnx_real(c, "scale", 1);
    weft_attention_options options = {.scale = scale, .mask = mask};
    if (!q || !k || !v) return NULL;
    bool is_plain =
        weft_value_dtype(q) == WEFT_F32; /* others round between the file's nodes, and are to round there */
    if (is_plain && is_always_for_kernel(c)) return weft_attention(q, weft_transpose(k, -2, -1), v, &options);
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
