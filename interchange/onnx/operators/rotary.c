/* rotary.c - RotaryEmbedding: rotary positions, with cosines and sines that are operands. */
#include "interchange/onnx/operators/families.h"

enum { X, COS, SIN, POSITIONS };

/* x[B, H, T, D] or [B, T, H D] as four axes; *heads becomes the axis of heads. */
static weft_value *in_heads(onnx_call *c, int *heads) {
    int64_t own[WEFT_MAX_NDIM], n = onnx_int(c, "num_heads", 0);
    weft_value *x = onnx_in(c, X);
    *heads = 1;
    if (!x || weft_ndim(x) == 4) return x;
    if (weft_ndim(x) != 3) return onnx_refuse(c, "x has %d axes; 3 or 4 are taken", weft_ndim(x));
    onnx_shape_of(c, X, own);
    if (n < 1 || own[2] < 0 || own[2] % n)
        return onnx_refuse(c, "num_heads %jd does not divide the features", n);
    *heads = 2;
    return onnx_reshape(c, x, 4, (int64_t[]){own[0], own[1], n, own[2] / n});
}

/* The cosines or sines of each row, [B, 1, T, pairs], or with the axis of heads where x has it. */
static weft_value *of_rows(onnx_call *c, int i, int heads, int64_t pairs) {
    weft_value *cache = onnx_in(c, i), *positions = onnx_in(c, POSITIONS);
    int axes = positions ? 2 : 3;
    if (!cache) return NULL;
    if (weft_ndim(cache) != axes || weft_dim(cache, axes - 1) != pairs)
        return onnx_refuse(c, "operand %d must have %d axes, the last of length %jd", i, axes, pairs);
    return weft_unsqueeze(positions ? weft_embedding_op(cache, positions) : cache, heads);
}

weft_value *onnx_build_rotary_embedding(onnx_call *c) {
    int heads;
    bool is_interleaved = onnx_int(c, "interleaved", 0);
    int64_t dims = onnx_int(c, "rotary_embedding_dim", 0);
    weft_value *x = in_heads(c, &heads), *a, *b;
    if (!x) return NULL;
    int64_t features = weft_dim(x, 3);
    if (dims == 0) dims = features;
    if (dims < 2 || dims % 2 || dims > features)
        return onnx_refuse(c, "%jd of %jd features are rotated; it must be an even number of them", dims,
                           features);
    weft_value *cosine = of_rows(c, COS, heads, dims / 2), *sine = of_rows(c, SIN, heads, dims / 2);
    if (!cosine || !sine) return NULL;
    a = is_interleaved ? weft_strided_slice(x, 3, 0, dims, 2) : weft_slice(x, 3, 0, dims / 2);
    b = is_interleaved ? weft_strided_slice(x, 3, 1, dims, 2) : weft_slice(x, 3, dims / 2, dims);
    weft_value *cosine_a = weft_mul(cosine, a), *sine_b = weft_mul(sine, b),
               *first = weft_sub(cosine_a, sine_b);
    weft_value *sine_a = weft_mul(sine, a), *cosine_b = weft_mul(cosine, b),
               *second = weft_add(sine_a, cosine_b);
    weft_value *turned[] = {first, second};
    weft_value *y = is_interleaved ? weft_flatten(weft_stack(2, turned, 4), 3) : weft_concat(2, turned, 3);
    if (dims < features) y = weft_concat(2, (weft_value *[]){y, weft_slice(x, 3, dims, INT64_MAX)}, 3);
    return heads == 2 ? weft_flatten(y, 2) : y;
}
