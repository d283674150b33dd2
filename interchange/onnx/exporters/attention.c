/* attention.c - attention and rotary positions as nodes of ONNX. Attention and RotaryEmbedding are operators
 * since opset 23, which not every runtime has; their parts are older, and runtimes fuse them. */
#include "interchange/onnx/exporters/exporter_families.h"

#include <float.h>
#include <math.h>

enum { Q, K, V, MASK };
enum { HEADS = 1, ROWS = 2, COLUMNS = 3 }; /* axes of q[B, H, T, D], k[B, H / n, S, D] */

/* ---- attention ---- */

/* Which keys a row sees, whatever the mask operand. */
typedef struct seen_keys {
    bool *all;     /* [T, S] */
    bool hides;    /* not every row sees every key */
    bool is_empty; /* a row sees none */
} seen_keys;

static bool sees(const export_call *c, int64_t row, int64_t key) {
    int64_t t = row + export_int(c, "offset"), window = export_int(c, "window"),
            ahead = export_int(c, "ahead");
    if (export_int(c, "causal") && key > t) return false;
    if (ahead && key - t >= ahead) return false;
    return !window || t - key < window;
}

static bool seen_of(export_call *c, int64_t rows, int64_t keys, seen_keys *seen) {
    *seen = (seen_keys){.all = kit_take(c->e->arena, (size_t)(rows * keys), sizeof *seen->all)};
    for (int64_t t = 0; seen->all && t < rows; t++) {
        int64_t count = 0;
        for (int64_t s = 0; s < keys; s++) count += seen->all[t * keys + s] = sees(c, t, s);
        seen->hides |= count < keys;
        seen->is_empty |= count == 0;
    }
    return seen->all;
}

/* Heads of k and v, each repeated for the heads of q that share it. */
static edge *for_heads(export_call *c, int i) {
    weft_value *x = export_operand(c, i);
    int64_t own = weft_dim(x, HEADS), times = weft_dim(export_operand(c, Q), HEADS) / own;
    export_length length[WEFT_MAX_NDIM], to[WEFT_MAX_NDIM];
    if (times == 1) return export_in(c, i);
    if (!export_lengths(c, x, length)) return NULL;
    const export_length from[] = {length[0], length[1], {0, 1}, length[2], length[3]};
    for (int k = 0; k < 5; k++) to[k] = from[k];
    to[2].rest = times;
    length[HEADS] = (export_length){0, own * times};
    return export_reshape(c, export_expand(c, export_unsqueeze(c, export_in(c, i), ROWS), 5, from, 5, to), 4,
                          length);
}

static edge *scores_of(export_call *c, weft_dtype dtype) {
    double scale = export_real(c, "scale"), cap = export_real(c, "softcap");
    edge *k = export_permute(c, for_heads(c, K), 4, (int64_t[]){0, 1, 3, 2});
    if (scale == 0) scale = 1 / sqrt((double)weft_dim(export_operand(c, Q), COLUMNS));
    edge *scores = export_2(c, "MatMul", export_in(c, Q), k);
    scores = export_2(c, "Mul", scores, export_number(c, dtype, scale));
    if (cap == 0) return scores;
    scores = export_1(c, "Tanh", export_2(c, "Div", scores, export_number(c, dtype, cap)));
    return export_2(c, "Mul", scores, export_number(c, dtype, cap));
}

static double lowest(weft_dtype dtype) {
    return dtype == WEFT_F64 ? -DBL_MAX : dtype == WEFT_F16 ? -65504 : -3.3e38;
}

static edge *softmax(export_call *c, edge *scores) {
    return with_int(c, export_1(c, "Softmax", scores), "axis", -1);
}

/* A row that sees no key is 0, where a softmax of -inf alone would be NaN. */
static edge *weights_of(export_call *c, edge *scores, edge *seen, bool may_be_empty, weft_dtype dtype) {
    if (!seen) return softmax(c, scores);
    edge *hidden = export_number(c, dtype, may_be_empty ? lowest(dtype) : -INFINITY);
    edge *weights = softmax(c, export_3(c, "Where", seen, scores, hidden));
    return may_be_empty ? export_3(c, "Where", seen, weights, export_number(c, dtype, 0)) : weights;
}

edge *export_attention(export_call *c) {
    weft_dtype dtype = export_dtype(c, Q);
    bool has_mask = export_in(c, MASK), adds = has_mask && export_dtype(c, MASK) != WEFT_BOOL,
         hides = has_mask;
    edge *scores = scores_of(c, dtype), *mask = export_in(c, MASK), *seen = mask;
    seen_keys keys = {.is_empty = false};
    if (adds) {
        seen = export_1(c, "Not", with_int(c, export_1(c, "IsInf", mask), "detect_positive", 0));
        scores = export_2(c, "Add", scores, export_cast(c, mask, export_dtype(c, MASK), dtype));
    }
    if (export_int(c, "causal") || export_int(c, "window") || export_int(c, "ahead")) {
        int64_t shape[] = {export_fixed(c, export_operand(c, Q), ROWS),
                           export_fixed(c, export_operand(c, K), ROWS)};
        if (shape[0] < 0 || shape[1] < 0 || !seen_of(c, shape[0], shape[1], &keys)) return NULL;
        edge *all = keys.hides ? export_constant(c, WEFT_BOOL, 2, shape, keys.all) : NULL;
        seen = !all ? seen : seen ? export_2(c, "And", seen, all) : all;
    }
    edge *weights = weights_of(c, scores, seen, hides || keys.is_empty, dtype);
    return export_permute(c, export_2(c, "MatMul", weights, for_heads(c, V)), 4, (int64_t[]){0, 2, 1, 3});
}

/* ---- rotary ---- */

/* cos or sin of the angle of each pair of columns in each row, [T, pairs]. */
static edge *angles(export_call *c, int64_t rows, int64_t pairs, double (*function)(double)) {
    weft_dtype dtype = export_dtype(c, 0);
    int64_t shape[] = {rows, pairs}, offset = export_int(c, "offset");
    double base = export_real(c, "base"), *wide = kit_take(c->e->arena, (size_t)(rows * pairs), sizeof *wide);
    float *all = kit_take(c->e->arena, (size_t)(rows * pairs), sizeof *all);
    for (int64_t i = 0; wide && all && i < rows * pairs; i++) {
        wide[i] = function((double)(offset + i / pairs) * pow(base, -(double)(i % pairs) / (double)pairs));
        all[i] = (float)wide[i];
    }
    if (!wide || !all) return NULL;
    if (dtype == WEFT_F64) return export_constant(c, dtype, 2, shape, wide);
    return export_cast(c, export_constant(c, WEFT_F32, 2, shape, all), WEFT_F32, dtype);
}

/* Neighbours again, [..., pairs] and [..., pairs] -> [..., 2 pairs]. */
static edge *interleave(export_call *c, edge *a, edge *b, int64_t pairs) {
    weft_value *x = export_operand(c, 0);
    export_length length[WEFT_MAX_NDIM];
    int n = weft_ndim(x);
    if (!export_lengths(c, x, length)) return NULL;
    length[n - 1] = (export_length){0, 2 * pairs};
    edge *first = export_unsqueeze(c, a, n), *second = export_unsqueeze(c, b, n), *both[] = {first, second};
    return export_reshape(c, export_concat(c, 2, both, n), n, length);
}

/* (a, b) -> (a cos - b sin, b cos + a sin) */
edge *export_rotary(export_call *c) {
    weft_value *x = export_operand(c, 0);
    int last = weft_ndim(x) - 1;
    int64_t rows = export_fixed(c, x, last - 1), columns = export_fixed(c, x, last),
            dims = export_int(c, "dims");
    if (rows < 0 || columns < 0) return NULL;
    int64_t all = dims ? dims : columns, pairs = all / 2;
    bool inverse = export_int(c, "inverse"), by_two = export_int(c, "interleaved");
    edge *in = export_in(c, 0), *cosine = angles(c, rows, pairs, cos), *sine = angles(c, rows, pairs, sin);
    edge *a = export_slice(c, in, last, 0, by_two ? all : pairs, by_two ? 2 : 1);
    edge *b = export_slice(c, in, last, by_two ? 1 : pairs, all, by_two ? 2 : 1);
    edge *a_cosine = export_2(c, "Mul", a, cosine), *b_sine = export_2(c, "Mul", b, sine),
         *first = export_2(c, inverse ? "Add" : "Sub", a_cosine, b_sine);
    edge *b_cosine = export_2(c, "Mul", b, cosine), *a_sine = export_2(c, "Mul", a, sine),
         *second = export_2(c, inverse ? "Sub" : "Add", b_cosine, a_sine);
    edge *parts[3] = {first, second, all < columns ? export_slice(c, in, last, all, columns, 1) : NULL};
    if (!by_two) return export_concat(c, all < columns ? 3 : 2, parts, last);
    parts[1] = parts[2];
    parts[0] = interleave(c, first, second, pairs);
    return export_concat(c, all < columns ? 2 : 1, parts, last);
}
