/* attention.c - Attention and FlexAttention, whose products run in Weft's attention. */
#include "interchange/onnx/operators/families.h"

#include <math.h>

/* ---- heads ---- */

/* Operand i, [B, H, T, D] or [B, T, H D], as [B, H, T, D]. `heads` 0: they are not given. */
static weft_value *in_heads(onnx_call *c, int i, int64_t heads) {
    int64_t own[WEFT_MAX_NDIM];
    weft_value *x = onnx_in(c, i);
    if (!x) return NULL;
    if (weft_ndim(x) == 4) {
        bool fits = heads == 0 || heads == weft_dim(x, 1);
        return fits ? x
                    : onnx_refuse(c, "its operand %d has %jd heads, and not %jd", i, weft_dim(x, 1), heads);
    }
    if (weft_ndim(x) != 3)
        return onnx_refuse(c, "its operand %d has %d axes; 3 or 4 are taken", i, weft_ndim(x));
    onnx_shape_of(c, i, own);
    if (heads < 1 || own[2] < 0 || own[2] % heads)
        return onnx_refuse(c, "%jd heads do not divide the features of operand %d", heads, i);
    x = onnx_reshape(c, x, 4, (int64_t[]){own[0], own[1], heads, own[2] / heads});
    return weft_transpose(x, 1, 2);
}

/* [B, H, T, D] -> [B, T, H D] */
static weft_value *merged(weft_value *x) {
    return weft_flatten(weft_transpose(x, 1, 2), 2);
}

static bool is_wide(const weft_value *x) {
    return weft_value_dtype(x) == WEFT_F64;
}

/* A type that holds the numbers of both. */
static weft_dtype common(const weft_value *a, const weft_value *b) {
    if (weft_value_dtype(a) == weft_value_dtype(b)) return weft_value_dtype(a);
    return is_wide(a) || is_wide(b) ? WEFT_F64 : WEFT_F32;
}

static weft_value *cast(weft_value *x, weft_dtype dtype) {
    return x && weft_value_dtype(x) != dtype ? weft_cast(x, dtype) : x;
}

/* Whether a softmax must be computed in f64; Weft's are in f32 of smaller types. */
static bool wants_wide(onnx_call *c, bool *is_refused) {
    int64_t type = onnx_int(c, "softmax_precision", ONNX_UNDEFINED);
    weft_dtype dtype = WEFT_F32;
    bool is_float = type == ONNX_UNDEFINED || type == ONNX_FLOAT || type == ONNX_FLOAT16 ||
                    type == ONNX_BFLOAT16 || type == ONNX_DOUBLE;
    *is_refused = !is_float;
    if (!is_float) onnx_refuse(c, "softmax_precision is %s", onnx_type_name((int)type));
    return is_float && onnx_dtype((int)type, &dtype) && dtype == WEFT_F64;
}

/* ---- Attention ---- */

enum { Q, K, V, MASK, PAST_KEY, PAST_VALUE, KEYS_IN_USE };
enum { Y, PRESENT_KEY, PRESENT_VALUE, SCORES };
enum { AS_PRODUCT, AFTER_CAP, AFTER_MASK, AFTER_SOFTMAX };

/* Which keys a row sees. Row i is at position i + offset. */
typedef struct limits {
    bool is_causal;
    int64_t left, right; /* keys before and after the row's own; -1: all */
    int64_t offset;
    weft_value *used; /* how many keys each batch has, i64[B]; they end with the last row. NULL: all */
} limits;

typedef struct attention {
    weft_value *q, *k, *v; /* [B, H, T, D], of one type */
    weft_value *mask;      /* bool, or of q's type; may be NULL */
    int64_t rows, keys;    /* below 0: they depend on the batch */
    limits sees;
    double scale, softcap;
} attention;

/* New keys or values after those of the operand `past`. */
static weft_value *after_past(onnx_call *c, weft_value *x, int past, int64_t *before) {
    int64_t own[WEFT_MAX_NDIM];
    weft_value *old = onnx_in(c, past);
    *before = 0;
    if (!x || !old) return x;
    if (weft_ndim(old) != 4) return onnx_refuse(c, "its operand %d has %d axes, not 4", past, weft_ndim(old));
    onnx_shape_of(c, past, own);
    *before = own[2];
    if (*before < 0) return onnx_refuse(c, "how many keys are in its past depends on the batch");
    return weft_concat(2, (weft_value *[]){old, x}, 2);
}

/* Numbers 0 to n - 1 along the last axis but `after`. */
static weft_value *indices(onnx_call *c, int64_t n, int after) {
    weft_value *x = weft_arange(onnx_graph_of(c), WEFT_I64, 0, (double)n, 1);
    return after ? weft_unsqueeze(x, 1) : x;
}

static weft_value *both(weft_value *a, weft_value *b) {
    return !a ? b : !b ? a : weft_logical_and(a, b);
}

/* What the limits let a row see, as bool that broadcasts to [B, 1, T, S]. NULL: all, or after an error. */
static weft_value *seen(onnx_call *c, const attention *a) {
    const limits *l = &a->sees;
    weft_value *all = NULL, *used = NULL;
    bool is_limited = l->is_causal || l->left >= 0 || l->right >= 0;
    if (!is_limited && !l->used) return NULL;
    if (a->keys < 0 || a->rows < 0)
        return onnx_refuse(c, "how many rows or keys it has depends on the batch");
    weft_value *key = indices(c, a->keys, 0), *row = weft_offset(indices(c, a->rows, 1), (double)l->offset);
    if (l->used) {
        used = weft_unsqueeze(weft_unsqueeze(weft_unsqueeze(l->used, 1), 1), 1);
        all = weft_less(key, used);
        row = weft_add(row, weft_offset(used, -(double)a->rows));
    }
    if (l->is_causal) all = both(all, weft_less_equal(key, row));
    if (l->left >= 0) all = both(all, weft_greater_equal(key, weft_offset(row, -(double)l->left)));
    if (l->right >= 0) all = both(all, weft_less_equal(key, weft_offset(row, (double)l->right)));
    return all;
}

/* What is added to the scores, with -inf for keys that are not seen; NULL: nothing. */
static weft_value *bias(onnx_call *c, const attention *a, weft_value *seen) {
    weft_value *mask = a->mask, *hidden = onnx_constant(c, a->q, -INFINITY);
    bool is_bool = mask && weft_value_dtype(mask) == WEFT_BOOL;
    weft_value *shown = is_bool ? both(mask, seen) : seen;
    weft_value *added = is_bool || !mask ? onnx_constant(c, a->q, 0) : mask;
    if (!mask && !shown) return NULL;
    return shown ? weft_where(shown, added, hidden) : added;
}

/* A softmax over keys; 0 in rows that see no key. */
static weft_value *softmax_of_seen(onnx_call *c, weft_value *scores, weft_value *bias) {
    weft_value *zero = onnx_constant(c, scores, 0);
    if (!bias) return weft_softmax(scores, -1);
    weft_value *most = weft_amax(bias, 1, (int64_t[]){-1}, true);
    weft_value *sees = weft_greater(most, onnx_constant(c, bias, -INFINITY));
    return weft_where(sees, weft_softmax(weft_where(sees, scores, zero), -1), zero);
}

/* The scores at one of the places where the operator shows them, [B, H, T, S]. */
static weft_value *scores_of(onnx_call *c, const attention *a, int64_t place) {
    int64_t group = weft_dim(a->q, 1) / weft_dim(a->k, 1);
    weft_value *k = group > 1 ? weft_repeat_interleave(a->k, group, 1) : a->k;
    weft_value *scores = weft_matmul(weft_scale(a->q, a->scale), k, false, true);
    if (place == AS_PRODUCT) return scores;
    if (a->softcap > 0) scores = weft_scale(weft_tanh(weft_scale(scores, 1 / a->softcap)), a->softcap);
    if (place == AFTER_CAP) return scores;
    weft_value *added = bias(c, a, seen(c, a));
    if (added) scores = weft_add(scores, added);
    return place == AFTER_MASK ? scores : softmax_of_seen(c, scores, added);
}

static weft_value *attend(onnx_call *c, const attention *a) {
    const limits *l = &a->sees;
    weft_attention_options options = {.scale = a->scale, .softcap = a->softcap, .mask = a->mask};
    if (l->used) { /* limits of each batch are a mask */
        weft_value *shown = seen(c, a);
        bool is_bool = a->mask && weft_value_dtype(a->mask) == WEFT_BOOL;
        options.mask = !a->mask || is_bool ? both(a->mask, shown) : bias(c, a, shown);
    } else {
        options.causal = l->is_causal;
        options.offset = l->offset;
        options.window = l->left >= 0 ? l->left + 1 : 0;
        options.ahead = l->right >= 0 ? l->right + 1 : l->left >= 0 ? INT64_MAX : 0;
    }
    if (a->scale != 0) return weft_attention(a->q, a->k, a->v, &options);
    options.scale = 1;
    return weft_attention(weft_scale(a->q, 0), a->k, a->v, &options);
}

/* The mask as bool or in q's type, and as wide as the keys: those that it does not name are not seen. */
static bool take_mask(onnx_call *c, attention *a) {
    weft_value *mask = onnx_in(c, MASK);
    if (!mask) return true;
    bool is_bool = weft_value_dtype(mask) == WEFT_BOOL;
    int64_t width = weft_ndim(mask) ? weft_dim(mask, weft_ndim(mask) - 1) : 1, keys = weft_dim(a->k, 2);
    a->mask = is_bool ? mask : cast(mask, weft_value_dtype(a->q));
    if (width >= keys || (width == 1 && c->opset < 24)) return true;
    if (width == 1 || c->opset < 24)
        return onnx_refuse(c, "its mask has %jd columns for %jd keys: repeat or pad it before", width, keys);
    a->mask = weft_constant_pad(a->mask, 1, (int64_t[]){0, keys - width}, is_bool ? 0 : -INFINITY);
    return true;
}

static bool window(onnx_call *c, const char *name, int64_t *width) {
    *width = onnx_int(c, name, -1);
    if (*width >= -1 && *width < INT32_MAX) return true;
    return onnx_refuse(c, "%s is %jd", name, *width);
}

static bool take_limits(onnx_call *c, attention *a, int64_t past) {
    limits *l = &a->sees;
    l->is_causal = onnx_int(c, "is_causal", 0);
    l->offset = past;
    l->used = cast(onnx_in(c, KEYS_IN_USE), WEFT_I64);
    if (l->used && onnx_has(c, PAST_KEY)) return onnx_refuse(c, "nonpad_kv_seqlen beside past keys");
    if (c->opset >= 25)
        return window(c, "left_window_size", &l->left) && window(c, "right_window_size", &l->right);
    l->left = l->right = -1;
    return true;
}

/* The length of operand i along its axis of times. */
static int64_t times(onnx_call *c, int i) {
    int64_t own[WEFT_MAX_NDIM];
    weft_value *x = onnx_in(c, i);
    onnx_shape_of(c, i, own);
    return own[weft_ndim(x) == 4 ? 2 : 1];
}

static bool take_attention(onnx_call *c, attention *a) {
    int64_t past, of_values, heads = onnx_int(c, "q_num_heads", 0), kv_heads = onnx_int(c, "kv_num_heads", 0);
    *a = (attention){.q = in_heads(c, Q, heads)};
    if (onnx_has(c, PAST_KEY) != onnx_has(c, PAST_VALUE))
        return onnx_refuse(c, "one of past_key and past_value");
    a->k = after_past(c, in_heads(c, K, kv_heads), PAST_KEY, &past);
    a->v = after_past(c, in_heads(c, V, kv_heads), PAST_VALUE, &of_values);
    if (!a->q || !a->k || !a->v) return false;
    onnx_result(c, PRESENT_KEY, a->k);
    onnx_result(c, PRESENT_VALUE, a->v);
    int64_t keys = times(c, K);
    a->rows = times(c, Q);
    a->keys = keys < 0 ? keys : keys + past;
    a->scale = onnx_real(c, "scale", 1 / sqrt((double)weft_dim(a->q, 3)));
    a->softcap = onnx_real(c, "softcap", 0);
    if (a->softcap < 0) a->softcap = 0;
    return take_limits(c, a, past);
}

/* q, k and v in one type. */
static void in_type(attention *a, weft_dtype dtype) {
    a->q = cast(a->q, dtype);
    a->k = cast(a->k, dtype);
    a->v = cast(a->v, dtype);
}

weft_value *onnx_build_attention(onnx_call *c) {
    attention a;
    bool is_refused;
    int64_t place = onnx_int(c, "qk_matmul_output_mode", AS_PRODUCT);
    bool is_wide = wants_wide(c, &is_refused);
    if (is_refused || !take_attention(c, &a)) return NULL;
    weft_dtype dtype = weft_value_dtype(a.q);
    bool is_flat = weft_ndim(onnx_in(c, Q)) == 3;
    if (place < AS_PRODUCT || place > AFTER_SOFTMAX)
        return onnx_refuse(c, "qk_matmul_output_mode is %jd", place);
    in_type(&a, is_wide ? WEFT_F64 : common(a.q, a.v));
    if (!take_mask(c, &a)) return NULL;
    if (onnx_wants(c, SCORES)) onnx_result(c, SCORES, cast(scores_of(c, &a, place), dtype));
    weft_value *y = cast(attend(c, &a), dtype);
    return is_flat ? merged(y) : y;
}

/* ---- FlexAttention: four axes, and graphs for its scores and its weights ---- */

/* What a graph makes of values on both sides; they stay as they are where the node has no such graph. */
static bool by_graph(onnx_call *c, const char *attribute, weft_value *values[SIDES]) {
    onnx_value *in = kit_take(c->in->arena, 1, sizeof *in), *out = NULL;
    if (!onnx_attribute_of(c, attribute)) return true;
    const onnx_graph *body = onnx_body_of(c, attribute);
    if (!in || !body) return false;
    if (body->n_inputs != 1 || body->n_outputs != 1)
        return onnx_refuse(c, "%s has %d inputs and %d outputs", attribute, body->n_inputs, body->n_outputs);
    *in = (onnx_value){.name = attribute, .value = {values[0], values[1]}};
    if (!onnx_body(c, body, &in, &out)) return false;
    for (int side = 0; side < SIDES; side++) values[side] = onnx_value_in(c->in, out, side);
    return values[0] && values[1];
}

/* The operands on a side; the type of the scores is f32, or f64 for a softmax in it. */
static bool take_flex(onnx_call *c, attention *a) {
    bool is_refused, is_double = wants_wide(c, &is_refused);
    weft_value *q = onnx_in(c, Q), *k = onnx_in(c, K), *v = onnx_in(c, V);
    *a = (attention){.q = q, .k = k, .v = v, .sees = {.left = -1, .right = -1}};
    if (is_refused || !a->q || !a->k || !a->v) return false;
    if (weft_ndim(a->q) != 4 || weft_ndim(a->k) != 4) return onnx_refuse(c, "its operands must have 4 axes");
    if (weft_dim(a->k, 1) < 1 || weft_dim(a->q, 1) % weft_dim(a->k, 1))
        return onnx_refuse(c, "%jd heads for %jd of the keys", weft_dim(a->q, 1), weft_dim(a->k, 1));
    a->scale = onnx_real(c, "scale", 1 / sqrt((double)weft_dim(a->q, 3)));
    in_type(a, is_double || is_wide(a->q) ? WEFT_F64 : WEFT_F32);
    return true;
}

/* Weights times v, whose heads are shared by those of the weights. */
static weft_value *weighted(const attention *a, weft_value *weights) {
    int64_t group = weft_dim(a->q, 1) / weft_dim(a->v, 1);
    weft_value *v = group > 1 ? weft_repeat_interleave(a->v, group, 1) : a->v;
    return weft_matmul(weights, v, false, false);
}

static bool flex_by_graphs(onnx_call *c, const attention a[SIDES], weft_value *y[SIDES]) {
    weft_value *scores[SIDES];
    for (int side = 0; side < SIDES; side++) scores[side] = scores_of(c, &a[side], AS_PRODUCT);
    if (!by_graph(c, "score_mod", scores)) return false;
    for (int side = 0; side < SIDES; side++) scores[side] = weft_softmax(scores[side], -1);
    if (!by_graph(c, "prob_mod", scores)) return false;
    for (int side = 0; side < SIDES; side++) y[side] = weighted(&a[side], scores[side]);
    return true;
}

bool onnx_flex_attention(onnx_call *c) {
    attention a[SIDES];
    weft_value *y[SIDES];
    onnx_value *result = kit_take(c->in->arena, 1, sizeof *result);
    bool has_graphs = onnx_attribute_of(c, "score_mod") || onnx_attribute_of(c, "prob_mod");
    if (!result) return kit_no_memory(c->in->error, c->node->op), false;
    for (c->side = 0; c->side < SIDES; c->side++) {
        if (!take_flex(c, &a[c->side])) return false;
        if (!has_graphs) y[c->side] = attend(c, &a[c->side]);
    }
    c->side = 0;
    if (has_graphs && !flex_by_graphs(c, a, y)) return false;
    result->name = c->node->op;
    for (c->side = 0; c->side < SIDES; c->side++) {
        result->value[c->side] = cast(y[c->side], weft_value_dtype(onnx_in(c, Q)));
        if (onnx_failed(c->in, c->side, c)) return false;
    }
    return onnx_result_is(c, Y, result);
}
