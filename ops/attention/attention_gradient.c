/* attention_gradient.c - the gradients of attention_backward, and attention's by its lse. They use public
 * builders, so they have gradients, too; in f32 or f64; the T x S scores are stored here.
 *
 * attention_backward computes from r = scale q k^T, s = f(r) + mask (f is softcap's or f(r) = r), p = e^(s -
 * shift - lse), dp = dy v^T and delta = dy . y
 *     ds = p (dp - delta)      dr = ds f'      dq = scale dr k      dk = scale dr^T q      dv = p^T dy
 * For a loss whose gradients by dq, dk, dv and ds are a, b, c and e, let
 *     x = scale (a k^T + q b^T)      w = x f' + e      u = dp' w + dy c^T, dp' = dp - delta      g = p w
 *     z = p u      o = z f' + x ds f''
 * Its gradients are
 *     by dy: g v + p c - sum(g) y      by q: scale (o k + dr b)      by k: scale (o^T q + dr^T a)
 *     by v: g^T dy      by y: -sum(g) dy      by lse: -sum(z)      by the mask: z
 * with sums over the keys of a row. With dropout it is dp and the p of dv that are multiplied by what it
 * keeps, so also dy c^T, and g and p in the gradients by dy and v.
 *
 * lse grows with the scores as p does: its gradient l gives p l by s. shift and lse count only added up:
 * shift's gradient is lse's, and attention takes lse's as that of the sum. */
#include "ops/attention/attention.h"

#include "ops/kit/dropout.h"

/* In sums NULL is zero: where nothing flows, nothing is built. */
static weft_value *sum_of(weft_value *a, weft_value *b) {
    return a && b ? weft_add(a, b) : a ? a : b;
}

static weft_value *product(weft_value *a, weft_value *b, bool transpose_a, bool transpose_b) {
    return a && b ? weft_matmul(a, b, transpose_a, transpose_b) : NULL;
}

/* sum + a b, where each may be NULL. Nodes are made in the order of the statements. */
static weft_value *plus_product(weft_value *sum, weft_value *a, weft_value *b, bool transpose_a,
                                bool transpose_b) {
    return sum_of(sum, product(a, b, transpose_a, transpose_b));
}

static weft_value *as_wide(weft_value *v) {
    weft_dtype dtype = v ? dtype_accumulator(v->type.dtype) : WEFT_F32;
    return v && v->type.dtype != dtype ? weft_cast(v, dtype) : v;
}

static weft_value *scaled(weft_value *v, double factor) {
    return weft_scale(v, factor);
}

/* From [B, T, H, D] to [B, H, T, D], and back. */
static weft_value *swapped(weft_value *v) {
    return weft_transpose(v, 1, 2);
}

/* Heads of keys [B, H / n, S, D], each repeated for the n heads of q that share it. */
static weft_value *repeated(weft_value *v, int64_t group) {
    return v && group > 1 ? weft_repeat_interleave(v, group, 1) : v;
}

/* The opposite: sums over the heads of q. */
static weft_value *gathered(weft_value *v, int64_t group) {
    if (!v || group == 1) return v;
    const int64_t *s = v->type.shape, by_group[] = {s[0], s[1] / group, group, s[2], s[3]}, axis = 2;
    return weft_sum(weft_reshape(v, 5, by_group), 1, &axis, false);
}

static weft_value *row_sum(weft_value *v) {
    const int64_t axis = 3;
    return weft_sum(v, 1, &axis, true);
}

/* v [B, H, T] beside the scores: [B, H, T, 1]. */
static weft_value *beside(weft_value *v) {
    return weft_unsqueeze(v, 3);
}

/* from, from + 1, ... as a column of so many rows. */
static weft_value *column_from(weft_graph *g, int64_t from, int64_t rows) {
    const int64_t column[] = {rows, 1};
    return weft_reshape(weft_arange(g, WEFT_I64, (double)from, (double)(from + rows), 1), 2, column);
}

/* bool [T, S]: true where row i sees key j, whatever the mask. NULL: it sees all. */
static weft_value *seen_of(weft_graph *g, const attention_attrs *a, int64_t rows, int64_t keys) {
    weft_value *seen = NULL, *j = weft_arange(g, WEFT_I64, 0, (double)keys, 1);
    int64_t ahead = a->causal ? 1 : a->ahead;
    /* only where the first row does not see the last key, or the last row the first */
    if (ahead && ahead < keys - a->offset) seen = weft_less(j, column_from(g, a->offset + ahead, rows));
    if (!a->window || a->window > a->offset + rows - 1) return seen;
    weft_value *past = weft_greater(j, column_from(g, a->offset - a->window, rows));
    return seen ? weft_logical_and(seen, past) : past;
}

/* t = tanh(r / softcap), NULL without it, and the probabilities p, both [B, H, T, S]. */
typedef struct scores {
    weft_value *t, *p;
    double cap;
} scores;

/* -1e30 has a power of 0 and no infinity that derivatives would meet. */
static scores scores_of(const attention_attrs *a, weft_value *q, weft_value *k, weft_value *mask,
                        weft_value *lse, weft_value *shift, double scale) {
    weft_graph *g = q->node->graph;
    scores all = {.cap = a->softcap};
    weft_value *s = weft_scale(weft_matmul(q, k, false, true), scale);
    weft_value *seen = seen_of(g, a, q->type.shape[2], k->type.shape[2]);
    bool is_bool = mask && mask->type.dtype == WEFT_BOOL;
    if (all.cap > 0) {
        all.t = weft_tanh(weft_scale(s, 1 / all.cap));
        s = weft_scale(all.t, all.cap);
    }
    if (mask && !is_bool) s = weft_add(s, weft_cast(mask, q->type.dtype));
    if (is_bool) seen = seen ? weft_logical_and(seen, mask) : mask;
    if (shift) s = weft_sub(s, beside(shift));
    s = weft_sub(s, beside(lse));
    all.p = weft_exp(seen ? weft_where(seen, s, weft_constant(g, s->type.dtype, 0, NULL, -1e30)) : s);
    return all;
}

/* v f', f' = 1 - t^2. */
static weft_value *by_slope(const scores *s, weft_value *v) {
    return v && s->t ? weft_sub(v, weft_mul(v, weft_square(s->t))) : v;
}

/* What dropout multiplies the weights of p [B, H, T, S] by, from the words that the kernels take. NULL: it
 * does not. */
static weft_value *kept_of(const attention_attrs *a, weft_value *p) {
    weft_graph *g = p->node->graph;
    const int64_t *s = p->type.shape, rows = s[0] * s[1] * s[2];
    const int64_t words[] = {rows, attention_word(1, 0, s[3])};
    if (a->p == 0) return NULL;
    weft_value *ones = weft_constant(g, p->type.dtype, 2, words, 1);
    weft_value *kept = node_value(g, &weft_op_dropout, 1, &ones, &(dropout_attrs){a->p, a->key});
    return weft_reshape(weft_slice(kept, 1, 0, s[3]), 4, s);
}

/* v after dropout; `kept` NULL: as it is. */
static weft_value *dropped(weft_value *v, weft_value *kept) {
    return v && kept ? weft_mul(v, kept) : v;
}

/* v as the gradient of an operand: in its type. */
static weft_value *as_gradient(weft_value *v, const weft_value *of) {
    return v && v->type.dtype != of->type.dtype ? weft_cast(v, of->type.dtype) : v;
}

void attention_backward_gradient(weft_node *n, weft_value *const *dout, const bool *wanted,
                                 weft_value **din) {
    const attention_attrs *attrs = n->attrs;
    double scale = attention_scale(attrs, &n->in[BACKWARD_Q]->type);
    int64_t group = n->in[BACKWARD_Q]->type.shape[1] / n->in[BACKWARD_K]->type.shape[1];
    weft_value *mask = n->n_in > BACKWARD_MASK ? n->in[BACKWARD_MASK] : NULL;
    weft_value *shift = n->n_in > BACKWARD_SHIFT ? n->in[BACKWARD_SHIFT] : NULL;
    weft_value *dy = as_wide(swapped(n->in[BACKWARD_DY])), *q = as_wide(n->in[BACKWARD_Q]);
    weft_value *k = repeated(as_wide(n->in[BACKWARD_K]), group);
    weft_value *v = repeated(as_wide(n->in[BACKWARD_V]), group);
    weft_value *y = as_wide(swapped(n->in[BACKWARD_Y])), *lse = n->in[BACKWARD_LSE];
    weft_value *a = as_wide(swapped(dout[0])), *b = repeated(as_wide(swapped(dout[1])), group);
    weft_value *c = repeated(as_wide(swapped(dout[2])), group), *e = attrs->mask_gradient ? dout[3] : NULL;

    scores all = scores_of(attrs, q, k, mask, lse, shift, scale);
    weft_value *p = all.p, *kept = kept_of(attrs, p), *dp = dropped(weft_matmul(dy, v, false, true), kept);
    dp = weft_sub(dp, row_sum(weft_mul(dy, y)));
    weft_value *ds = weft_mul(p, dp), *dr = by_slope(&all, ds);
    weft_value *x = scaled(plus_product(product(a, k, false, true), q, b, false, true), scale);
    weft_value *w = sum_of(by_slope(&all, x), e);
    weft_value *g = w ? weft_mul(p, w) : NULL, *r = g ? row_sum(g) : NULL;
    weft_value *u = w ? weft_mul(dp, w) : NULL;
    u = sum_of(u, dropped(product(dy, c, false, true), kept));
    weft_value *z = weft_mul(p, u), *o = by_slope(&all, z);
    /* f'' = -2 t f' / softcap */
    if (all.t && x) o = weft_add(o, scaled(weft_mul(weft_mul(x, dr), all.t), -2 / all.cap));

    weft_value *by[BACKWARD_SHIFT + 1] = {0};
    g = dropped(g, kept);
    p = dropped(p, kept);
    by[BACKWARD_DY] = swapped(plus_product(product(g, v, false, false), p, c, false, false));
    if (r) by[BACKWARD_DY] = weft_sub(by[BACKWARD_DY], swapped(weft_mul(r, y)));
    weft_value *dq = plus_product(weft_matmul(o, k, false, false), dr, b, false, false);
    weft_value *dk = plus_product(weft_matmul(o, q, true, false), dr, a, true, false);
    by[BACKWARD_Q] = weft_scale(dq, scale);
    by[BACKWARD_K] = gathered(weft_scale(dk, scale), group);
    by[BACKWARD_V] = gathered(product(g, dy, true, false), group);
    by[BACKWARD_Y] = r ? weft_neg(swapped(weft_mul(r, dy))) : NULL;
    by[BACKWARD_LSE] = weft_neg(weft_squeeze(row_sum(z), 3));
    if (shift) {
        by[BACKWARD_MASK] = sum_to(z, mask);
        by[BACKWARD_SHIFT] = by[BACKWARD_LSE];
    }
    for (int i = 0; i < n->n_in; i++)
        if (wanted[i]) din[i] = as_gradient(by[i], n->in[i]);
}

void attention_lse_gradient(weft_node *n, weft_value *dlse, const bool *wanted, weft_value **din) {
    const attention_attrs *attrs = n->attrs;
    double scale = attention_scale(attrs, &n->in[ATTENTION_Q]->type);
    int64_t group = n->in[ATTENTION_Q]->type.shape[1] / n->in[ATTENTION_K]->type.shape[1];
    weft_value *mask = n->n_in > ATTENTION_MASK ? n->in[ATTENTION_MASK] : NULL;
    weft_value *q = as_wide(n->in[ATTENTION_Q]), *k = repeated(as_wide(n->in[ATTENTION_K]), group);
    scores all = scores_of(attrs, q, k, mask, &n->out[1], n->n_out == 3 ? &n->out[2] : NULL, scale);
    weft_value *z = weft_mul(all.p, beside(dlse)), *o = by_slope(&all, z), *by[ATTENTION_MASK + 1] = {0};
    by[ATTENTION_Q] = weft_scale(weft_matmul(o, k, false, false), scale);
    by[ATTENTION_K] = gathered(weft_scale(weft_matmul(o, q, true, false), scale), group);
    if (n->n_out == 3) by[ATTENTION_MASK] = sum_to(z, mask);
    for (int i = 0; i < n->n_in; i++)
        if (wanted[i]) din[i] = sum_of(din[i], as_gradient(by[i], n->in[i]));
}
