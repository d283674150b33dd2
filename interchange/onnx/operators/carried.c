/* carried.c - operators of sequences that carry a state from call to call: LinearAttention (its steps one
 * after the other), CausalConvWithState. */
#include "interchange/onnx/operators/families.h"

#include <math.h>

enum { MOST_STEPS = 256 };

static weft_value *cast(weft_value *x, weft_dtype dtype) {
    return x && weft_value_dtype(x) != dtype ? weft_cast(x, dtype) : x;
}

/* ---- CausalConvWithState ---- */

/* The last k - 1 columns of the call before, or zeros, in front of x[B, C, L]. */
weft_value *onnx_build_causal_conv(onnx_call *c) {
    enum { X, W, B, PAST };
    weft_value *x = onnx_in(c, X), *w = onnx_in(c, W), *b = onnx_in(c, B), *past = onnx_in(c, PAST);
    const char *name = onnx_word(c, "activation", "none");
    bool is_silu = !strcmp(name, "silu") || !strcmp(name, "swish");
    if (!is_silu && strcmp(name, "none")) return onnx_refuse(c, "activation is '%.40s'", name);
    if (!x || !w) return NULL;
    if (weft_ndim(x) != 3 || weft_ndim(w) != 3) return onnx_refuse(c, "x or its kernel has not three axes");
    int64_t before = weft_dim(w, 2) - 1;
    if (past && weft_ndim(past) == 3 && weft_dim(past, 2) != before)
        return onnx_refuse(c, "past_state has %jd columns; %jd are before a kernel of %jd", weft_dim(past, 2),
                           before, before + 1);
    if (past)
        x = weft_concat(2, (weft_value *[]){past, x}, 2);
    else if (before)
        x = weft_pad(x, 2, before, 0);
    if (onnx_wants(c, 1)) onnx_result(c, 1, weft_slice(x, 2, weft_dim(x, 2) - before, INT64_MAX));
    weft_value *y = weft_conv1d_op(x, w, b, &(weft_window){.groups = weft_dim(x, 1)});
    return is_silu ? weft_silu(y) : y;
}

/* ---- LinearAttention ---- */

enum { QUERY, KEY, VALUE, STATE, DECAY, BETA };

typedef struct linear {
    weft_value *q, *k, *v;    /* [B, T, H, D] in f32 */
    weft_value *decay, *beta; /* [B, T, H, 1 or D], [B, T, H or 1, 1]; may be NULL */
    weft_value *state;        /* [B, H, K, V]; NULL: zeros */
    int64_t steps, group;     /* heads of q that share one of k */
} linear;

/* Operand i, [B, T, H D], as [B, T, H, D] in f32. */
static weft_value *heads_of(onnx_call *c, int i, int64_t heads) {
    int64_t own[WEFT_MAX_NDIM];
    weft_value *x = onnx_in(c, i);
    if (!x) return NULL;
    if (weft_ndim(x) != 3) return onnx_refuse(c, "its operand %d has %d axes, not 3", i, weft_ndim(x));
    onnx_shape_of(c, i, own);
    if (heads < 1 || own[2] < 0 || own[2] % heads)
        return onnx_refuse(c, "%jd heads do not divide the features of operand %d", heads, i);
    x = onnx_reshape(c, x, 4, (int64_t[]){own[0], own[1], heads, own[2] / heads});
    return cast(x, WEFT_F32);
}

/* Whether the node has the operands that its rule needs, and no others. */
static bool take_rule(onnx_call *c, linear *l, int64_t heads) {
    const char *rule = onnx_word(c, "update_rule", "gated_delta");
    bool is_gated = !strncmp(rule, "gated", 5),
         is_delta = !strcmp(rule, "delta") || !strcmp(rule, "gated_delta");
    if (!is_delta && strcmp(rule, "gated") && strcmp(rule, "linear"))
        return onnx_refuse(c, "update_rule is '%.40s'", rule);
    if (is_gated != onnx_has(c, DECAY) || is_delta != onnx_has(c, BETA))
        return onnx_refuse(c, "update_rule '%s' needs%s decay and%s beta", rule, is_gated ? "" : " no",
                           is_delta ? "" : " no");
    weft_value *beta = onnx_in(c, BETA);
    l->decay = heads_of(c, DECAY, heads);
    l->beta = heads_of(c, BETA, beta && weft_ndim(beta) == 3 && weft_dim(beta, 2) == 1 ? 1 : heads);
    return true;
}

static bool take_linear(onnx_call *c, linear *l) {
    int64_t own[WEFT_MAX_NDIM], q_heads = onnx_int(c, "q_num_heads", 0),
                                heads = onnx_int(c, "kv_num_heads", 0);
    onnx_int(c, "chunk_size", 0); /* how it may be computed; the result is the same */
    weft_value *q = heads_of(c, QUERY, q_heads), *k = heads_of(c, KEY, heads), *v = heads_of(c, VALUE, heads);
    *l = (linear){.q = q, .k = k, .v = v};
    if (!take_rule(c, l, heads) || !l->q || !l->k || !l->v) return false;
    if (q_heads % heads) return onnx_refuse(c, "%jd heads of the query, %jd of keys", q_heads, heads);
    l->state = cast(onnx_in(c, STATE), WEFT_F32);
    l->group = q_heads / heads;
    onnx_shape_of(c, QUERY, own);
    l->steps = own[1];
    if (l->steps >= 1 && l->steps <= MOST_STEPS) return true;
    return onnx_refuse(c, "its times are built one after the other, at most %d of them", MOST_STEPS);
}

/* Time t of x[B, T, H, D]: [B, H, D] with an axis of length 1 at `axis`. */
static weft_value *at(weft_value *x, int64_t t, int axis) {
    return x ? weft_unsqueeze(weft_squeeze(weft_slice(x, 1, t, t + 1), 1), axis) : NULL;
}

/* state exp(decay) + k v^T, with v less what the state has for k, times beta. */
static weft_value *step(const linear *l, weft_value *state, int64_t t) {
    weft_value *k = at(l->k, t, 3), *v = at(l->v, t, 2), *beta = at(l->beta, t, 3);
    if (state && l->decay) state = weft_mul(state, weft_exp(at(l->decay, t, 3)));
    if (state && beta) v = weft_sub(v, weft_matmul(k, state, true, false));
    if (beta) v = weft_mul(v, beta);
    weft_value *written = weft_mul(k, v);
    return state ? weft_add(state, written) : written;
}

weft_value *onnx_build_linear_attention(onnx_call *c) {
    linear l;
    weft_value *rows[MOST_STEPS], *x = onnx_in(c, QUERY), *old = onnx_in(c, STATE);
    double scale = onnx_real(c, "scale", 0);
    if (!take_linear(c, &l)) return NULL;
    if (scale == 0) scale = 1 / sqrt((double)weft_dim(l.q, 3));
    weft_value *state = l.state, *q = weft_scale(l.q, scale);
    for (int64_t t = 0; t < l.steps; t++) {
        state = step(&l, state, t);
        weft_value *read = l.group > 1 ? weft_repeat_interleave(state, l.group, 1) : state;
        rows[t] = weft_matmul(at(q, t, 2), read, false, false); /* [B, H, 1, V] */
    }
    weft_value *all = l.steps > 1 ? weft_concat((int)l.steps, rows, 2) : rows[0];
    onnx_result(c, 1, cast(state, weft_value_dtype(old ? old : x)));
    return cast(weft_flatten(weft_transpose(all, 1, 2), 2), weft_value_dtype(x));
}
