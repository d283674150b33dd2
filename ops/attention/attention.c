/* attention.c - softmax(q k^T scale + mask) v for every batch and head;
 * torch.nn.functional.scaled_dot_product_attention. Which keys a row sees, and softcap (Gemma 2, arXiv
 * 2408.00118): attention.h.
 *     q [B, H, T, D], k [B, H / n, S, D], v [B, H / n, S, E], mask that broadcasts to [B, H, T, S] or none
 *     ->  y [B, T, H, E], lse [B, H, T], with a mask of numbers also shift [B, H, T]
 * n heads of q that follow one another share a head of k and v, which is never copied for them. The T x S
 * scores are never stored: lse, the log of each row's sum, is enough to compute them again in
 * attention_backward, which gives the gradients (Dao et al., arXiv 2205.14135).
 *
 * A mask of bool says which keys a row sees; one of numbers is added to the scores, and -inf hides a key. A
 * row that sees no key has y = 0 and lse = 0. A mask of numbers may move a whole row by -1e4 or -3e38, beside
 * which the log of a sum is lost: there lse is of the scores less `shift`, the row's largest one.
 *
 * y has its head axis after the time axis, the order in which the next layer reads it. So the permutes around
 * it (the builder's to [B, H, T, D], the caller's back) are views, and nothing is copied. q, k and v may be
 * views too: slices of one [B, T, 3 H D] tensor. */
#include "ops/attention/attention.h"

#include "ops/kit/dropout.h"

#include <math.h>

static const op_attr attrs[] = {ATTENTION_ROWS, {0}};

/* ---- types ---- */

/* D is the same for q and k; E may differ from it, and S from T. */
bool attention_want_qkv(op_call *c, int first) {
    const tensor_type *q = op_in(c, first), *k = op_in(c, first + 1), *v = op_in(c, first + 2);
    const attention_attrs *a = c->attrs;
    if (!op_want_float(c, first)) return false;
    if (k->dtype != q->dtype || v->dtype != q->dtype)
        return op_fail(c, WEFT_TYPE, "q %s, k %s, v %s: cast them to one type", TYPE(q), TYPE(k), TYPE(v));
    bool fits = q->ndim == 4 && k->ndim == 4 && v->ndim == 4 && q->shape[0] == k->shape[0] &&
                q->shape[3] == k->shape[3];
    for (int i = 0; i < 3; i++) fits = fits && k->shape[i] == v->shape[i];
    if (!fits)
        return op_fail(c, WEFT_SHAPE,
                       "q %s, k %s, v %s: q must be [B, H, T, D], k [B, H, S, D], v [B, H, S, E]", TYPE(q),
                       TYPE(k), TYPE(v));
    if (q->shape[3] == 0)
        return op_fail(c, WEFT_SHAPE, "q %s, k %s: D, their last axis, must be at least 1", TYPE(q), TYPE(k));
    if (k->shape[1] == 0 || q->shape[1] % k->shape[1])
        return op_fail(c, WEFT_SHAPE,
                       "q %s, k and v %s: the heads of k and v, axis 1, must divide those of q", TYPE(q),
                       TYPE(k));
    if (a->window && !a->causal && !a->ahead)
        return op_fail(c, WEFT_ARGUMENT, "window=%lld without causal=1 or ahead", (long long)a->window);
    if (!(a->softcap >= 0))
        return op_fail(c, WEFT_ARGUMENT, "softcap=%g: it must be above 0, or 0 for none", a->softcap);
    return true;
}

bool attention_want_mask(op_call *c, int first, int i) {
    if (i >= c->n_in) return true;
    if (!c->in[i]) return op_fail(c, WEFT_ARGUMENT, "operand %d, the mask, is missing: leave it out", i);
    const tensor_type *mask = op_in(c, i), *q = op_in(c, first);
    tensor_type scores = attention_scores(q, op_in(c, first + 1)), all;
    if (mask->dtype != WEFT_BOOL && mask->dtype != q->dtype && mask->dtype != dtype_accumulator(q->dtype))
        return op_fail(c, WEFT_TYPE,
                       "mask %s: it must be bool (true: the key is seen), or f32 or the type of q "
                       "(added to the scores)",
                       TYPE(mask));
    scores.dtype = mask->dtype;
    if (!shape_broadcast(mask, &scores, &all) || !shape_equal(&all, &scores))
        return op_fail(c, WEFT_SHAPE, "mask %s: it must broadcast to the scores [B, H, T, S], %s", TYPE(mask),
                       TYPE(&scores));
    return true;
}

bool attention_adds(weft_value *const *in, int n_in, int i) {
    return i < n_in && in[i] && in[i]->type.dtype != WEFT_BOOL;
}

tensor_type attention_result(const tensor_type *q, const tensor_type *v) {
    return type_of(q->dtype, 4, (int64_t[]){q->shape[0], q->shape[2], q->shape[1], v->shape[3]});
}

tensor_type attention_scores(const tensor_type *q, const tensor_type *k) {
    return type_of(dtype_accumulator(q->dtype), 4,
                   (int64_t[]){q->shape[0], q->shape[1], q->shape[2], k->shape[2]});
}

bool attention_infer(op_call *c) {
    if (!attention_want_qkv(c, 0) || !attention_want_mask(c, 0, ATTENTION_MASK)) return false;
    c->out[0] = attention_result(op_in(c, 0), op_in(c, ATTENTION_V));
    c->out[1] = c->out[2] = type_of(dtype_accumulator(op_in(c, 0)->dtype), 3, op_in(c, 0)->shape);
    c->n_out = attention_adds(c->in, c->n_in, ATTENTION_MASK) ? 3 : 2;
    return true;
}

/* ---- gradient ---- */

/* By y alone. The gradient of a mask of numbers is that of the scores, [B, H, T, S] in f32, summed to the
 * mask's shape. */
static void result_gradient(weft_node *n, weft_value *dy, const bool *wanted, weft_value **din) {
    attention_attrs a = *(const attention_attrs *)n->attrs;
    weft_value *in[] = {dy, n->in[0], n->in[1], n->in[2], &n->out[0], &n->out[1], NULL, &n->out[2]};
    bool adds = attention_adds(n->in, n->n_in, ATTENTION_MASK);
    a.mask_gradient = adds && wanted[ATTENTION_MASK];
    if (n->n_in > ATTENTION_MASK) in[BACKWARD_MASK] = n->in[ATTENTION_MASK];
    weft_node *back = node_new(n->graph, &weft_op_attention_backward, n->n_in + 3 + adds, in, &a);
    for (int i = 0; back && i < 3; i++)
        if (wanted[i]) din[i] = weft_transpose(&back->out[i], 1, 2);
    if (!back || !a.mask_gradient) return;
    weft_value *mask = n->in[ATTENTION_MASK];
    din[ATTENTION_MASK] = weft_cast(sum_to(&back->out[3], mask), mask->type.dtype);
}

/* Users do not get lse; the gradient of attention_backward reaches it. */
void attention_gradient(weft_node *n, weft_value *const *dout, const bool *wanted, weft_value **din) {
    if (dout[0]) result_gradient(n, dout[0], wanted, din);
    if (dout[1]) attention_lse_gradient(n, dout[1], wanted, din);
}

/* ---- what kernels share ---- */

/* The default is PyTorch's. */
double attention_scale(const attention_attrs *a, const tensor_type *q) {
    return a->scale != 0 ? a->scale : 1 / sqrt((double)q->shape[3]);
}

key_range attention_keys(const attention_attrs *a, int64_t i, int64_t s) {
    int64_t t = i + a->offset;
    key_range r = {0, s};
    if (a->causal && t + 1 < s) r.end = t + 1;
    if (a->ahead && a->ahead < s - t && t + a->ahead < r.end) r.end = t + a->ahead;
    if (r.end < 0) r.end = 0;
    if (a->window && a->window <= t) r.begin = t + 1 - a->window;
    if (r.begin > r.end) r.begin = r.end;
    return r;
}

void attention_mask_strides(const tensor *mask, int64_t stride[4]) {
    for (int i = 0; i < 4; i++) {
        int axis = mask->type.ndim - 4 + i;
        stride[i] = axis < 0 || mask->type.shape[axis] == 1 ? 0 : mask->stride[axis];
    }
}

score_view score_view_of(const kernel_call *c, int q, int mask) {
    score_view s = {.q = &c->in[q], .k = &c->in[q + 1], .attrs = c->attrs};
    if (mask < c->n_in) s.mask = &c->in[mask];
    if (s.attrs->p > 0) s.stream = philox_stream_of(c->run, s.attrs->key);
    s.scale = attention_scale(s.attrs, &s.q->type);
    s.group = s.q->type.shape[1] / s.k->type.shape[1];
    return s;
}

/* The mask's element for row = [b, h, i] and key j. */
static double mask_at(const tensor *mask, const int64_t *row, int64_t j) {
    const int64_t place[] = {row[0], row[1], row[2], j};
    int64_t at[WEFT_MAX_NDIM] = {0};
    for (int i = 0; i < mask->type.ndim; i++)
        at[i] = mask->type.shape[i] == 1 ? 0 : place[4 - mask->type.ndim + i];
    return mask->type.dtype == WEFT_BOOL ? (double)element_int(mask, at) : element_get(mask, at);
}

double score_at(const score_view *s, const int64_t *row, int64_t j, double *slope) {
    key_range seen = attention_keys(s->attrs, row[2], s->k->type.shape[2]);
    double mask = s->mask ? mask_at(s->mask, row, j) : 0;
    bool is_bool = s->mask && s->mask->type.dtype == WEFT_BOOL;
    if (j < seen.begin || j >= seen.end || (is_bool && !mask)) return -INFINITY;
    element_line query = element_row(s->q, (int64_t[]){row[0], row[1], row[2], 0}),
                 key = element_row(s->k, (int64_t[]){row[0], row[1] / s->group, j, 0});
    double sum = elements_dot(0, query, key, s->q->type.shape[3]) * s->scale;
    double cap = s->attrs->softcap, t = cap > 0 ? tanh(sum / cap) : 0;
    if (slope) *slope = 1 - t * t;
    return (cap > 0 ? cap * t : sum) + (is_bool ? 0 : mask);
}

double keep_at(const score_view *s, const int64_t *row, int64_t j) {
    const int64_t *q = s->q->type.shape;
    double p = s->attrs->p, factor = dropout_factor(p);
    if (p == 0) return 1;
    /* rounded as in the fast kernels */
    if (s->q->type.dtype != WEFT_F64) factor = (float)factor;
    int64_t number = attention_word((row[0] * q[1] + row[1]) * q[2] + row[2], j, s->k->type.shape[2]);
    return philox_word(&s->stream, (uint64_t)number) < dropout_threshold(p) ? 0 : factor;
}

/* ---- reference ---- */

/* Columns of a result row that are summed together, in double because results may be of a reduced type. */
enum { COLUMNS = 64 };

/* Sets y of one query in the COLUMNS columns from `first`. */
static void query_columns(const kernel_call *c, const score_view *s, const int64_t *row, double shift,
                          double lse, int64_t first) {
    int64_t columns = c->in[ATTENTION_V].type.shape[3] - first;
    double y[COLUMNS] = {0};
    if (columns > COLUMNS) columns = COLUMNS;
    for (int64_t j = 0; j < s->k->type.shape[2]; j++) {
        double p = exp(score_at(s, row, j, NULL) - shift - lse);
        if (p != 0) p *= keep_at(s, row, j);
        for (int64_t d = 0; d < columns && p != 0; d++)
            y[d] += p * element_get(&c->in[2], (int64_t[]){row[0], row[1] / s->group, j, first + d});
    }
    for (int64_t d = 0; d < columns; d++)
        element_set(&c->out[0], (int64_t[]){row[0], row[2], row[1], first + d}, y[d]);
}

/* The scores of a row are computed again for each use (maximum, sum, columns) instead of stored. */
weft_status attention_reference(const kernel_call *c) {
    score_view s = score_view_of(c, ATTENTION_Q, ATTENTION_MASK);
    int64_t row[3] = {0}, keys = s.k->type.shape[2];
    do {
        double most = -INFINITY, sum = 0;
        for (int64_t j = 0; j < keys; j++) most = fmax(most, score_at(&s, row, j, NULL));
        if (most == -INFINITY) most = 0; /* no key is seen: every power is 0 */
        for (int64_t j = 0; j < keys; j++) sum += exp(score_at(&s, row, j, NULL) - most);
        double lse = sum == 0 ? 0 : log(sum);
        element_set(&c->out[1], row, c->n_out == 3 ? lse : most + lse);
        if (c->n_out == 3) element_set(&c->out[2], row, most);
        for (int64_t d = 0; d < c->in[ATTENTION_V].type.shape[3]; d += COLUMNS)
            query_columns(c, &s, row, most, lse, d);
    } while (index_next(&c->out[1].type, row));
    return WEFT_OK;
}

const weft_op weft_op_attention = {
    .name = "attention",
    .summary = "softmax(q k^T scale + mask) v per head; the result is [B, T, H, D]",
    .torch = "torch.nn.functional.scaled_dot_product_attention",
    .min_in = 3,
    .max_in = 4,
    .flags = OP_FROM_RESULT,
    .of_nothing = EMPTY_ZEROS, /* of no keys; lse is 0 too */
    OP_ATTRS(attention_attrs, attrs),
    .reference_strided = ATTENTION_STRIDED,
    .precision = PRECISION_REDUCED,
    /* q, k, v and y are reduced; lse and shift are f32, a mask may be. */
    .f32_in = 1 << ATTENTION_MASK,
    .f32_out = 1 << 1 | 1 << 2,
    .infer = attention_infer,
    .gradient = attention_gradient,
    .reference = attention_reference,
    .samples =
        (const op_sample[]){
            {"f32[2,2,5,8], f32[2,2,5,8], f32[2,2,5,8]", "causal=1", .out = "f32[2,5,2,8], f32[2,2,5]"},
            {"f32[1,2,4,3], f32[1,2,6,3], f32[1,2,6,3]", "scale=0.5", .out = "f32[1,4,2,3], f32[1,2,4]"},
            {"f32[1,1,6,3], f32[1,1,4,3], f32[1,1,4,3]", "causal=1"},
            /* more than one block of queries, odd sizes: fast kernels */
            {"f32[1,3,107,40], f32[1,3,107,40], f32[1,3,107,40]", "causal=1", .no_gradient = true},
            {"f32[1,1,61,33], f32[1,1,70,33], f32[1,1,70,33]", NULL, .no_gradient = true},
            /* masks: each kind, each way to broadcast; with few keys some rows see none */
            {"f32[2,2,3,4], f32[2,2,5,4], f32[2,2,5,4], bool[3,5]", NULL, .out = "f32[2,3,2,4], f32[2,2,3]"},
            {"f32[2,2,3,4], f32[2,2,5,4], f32[2,2,5,4], f32[3,5]", NULL,
             .out = "f32[2,3,2,4], f32[2,2,3], f32[2,2,3]"},
            {"f32[2,2,4,3], f32[2,2,4,3], f32[2,2,4,3], bool[2,1,1,4]", "causal=1"},
            {"f32[2,2,4,3], f32[2,2,4,3], f32[2,2,4,3], f32[2,1,4,4]", "causal=1 scale=-0.5"},
            {"f32[2,2,3,3], f32[2,2,2,3], f32[2,2,2,3], bool[2,2,3,2]", NULL},
            {"f32[2,2,3,3], f32[2,2,2,3], f32[2,2,2,3], f32[2,3,1]", NULL},
            {"f32[2,3,61,20], f32[2,3,70,20], f32[2,3,70,20], bool[2,1,61,70]", NULL, .no_gradient = true},
            {"f32[2,3,61,20], f32[2,3,70,20], f32[2,3,70,20], f32[1,3,61,70]", "causal=1",
             .no_gradient = true},
            /* heads that share keys and values */
            {"f32[2,4,3,4], f32[2,2,5,4], f32[2,2,5,4]", NULL, .out = "f32[2,3,4,4], f32[2,4,3]"},
            {"f32[1,6,57,8], f32[1,2,57,8], f32[1,2,57,8], bool[57,57]", "causal=1", .no_gradient = true},
            /* windows, also past the last key */
            {"f32[1,2,6,3], f32[1,2,6,3], f32[1,2,6,3]", "causal=1 window=2"},
            {"f32[1,1,7,3], f32[1,1,3,3], f32[1,1,3,3]", "causal=1 window=3"},
            {"f32[1,2,230,5], f32[1,1,230,5], f32[1,1,230,5]", "causal=1 window=50", .no_gradient = true},
            {"f32[1,1,300,4], f32[1,1,60,4], f32[1,1,60,4], bool[60]", "causal=1 window=100",
             .no_gradient = true},
            /* values of another width, softcap, windows on both sides, rows and keys that do not meet */
            {"f32[2,2,3,4], f32[2,2,5,4], f32[2,2,5,7]", NULL, .out = "f32[2,3,2,7], f32[2,2,3]"},
            {"f32[2,4,3,7], f32[2,2,5,7], f32[2,2,5,2], f32[3,5]", "softcap=0.5"},
            {"f32[1,2,6,3], f32[1,2,6,3], f32[1,2,6,3]", "window=2 ahead=3 softcap=2"},
            {"f32[1,1,4,3], f32[1,1,9,3], f32[1,1,9,3]", "causal=1 offset=5"},
            {"f32[1,1,9,3], f32[1,1,4,3], f32[1,1,4,3]", "causal=1 offset=-5",
             .out = "f32[1,9,1,3], f32[1,1,9]"},
            {"f32[1,1,5,3], f32[1,1,9,3], f32[1,1,9,3]", "window=3 ahead=9223372036854775807 offset=2"},
            {"f32[1,2,107,20], f32[1,1,130,20], f32[1,1,130,70]", "ahead=20 window=30 offset=13 softcap=1",
             .no_gradient = true},
            {"f32[1,2,107,70], f32[1,1,90,70], f32[1,1,90,20], bool[107,90]", "causal=1 offset=-60 window=20",
             .no_gradient = true},
            {"f32[2,2,5,8], f32[2,2,5,8], f32[2,2,5,8]", "softcap=-1", .error = "it must be above 0"},
            {"f32[2,2,5,8], f32[2,2,5,8], f32[2,2,6,8]", NULL, .error = "k [B, H, S, D], v [B, H, S, E]"},
            {"f32[2,2,5,8], f32[2,3,5,8], f32[2,3,5,8]", NULL, .error = "must divide those of q"},
            {"i32[2,2,5,8], i32[2,2,5,8], i32[2,2,5,8]", NULL, .error = "floating point"},
            {"f32[2,2,3,8], f32[2,2,5,8], f32[2,2,5,8], f32[5,3]", NULL,
             .error = "must broadcast to the scores [B, H, T, S], f32[2,2,3,5]"},
            {"f32[2,2,3,8], f32[2,2,5,8], f32[2,2,5,8], bool[2,2,2,3,5]", NULL,
             .error = "must broadcast to the scores"},
            {"f32[2,2,3,8], f32[2,2,5,8], f32[2,2,5,8], i32[3,5]", NULL, .error = "it must be bool"},
            {"f16[2,2,3,8], f16[2,2,5,8], f16[2,2,5,8], bf16[3,5]", NULL, .error = "or f32 or the type of q"},
            {"f32[2,2,5,8], f32[2,2,5,8], f32[2,2,5,8]", "window=2", .error = "without causal=1 or ahead"},
            {0}},
};

/* As of weft_dropout, no node draws in an eval graph. A mask that is NULL because of an earlier error does no
 * harm: after that error no node is made. */
weft_value *weft_attention(weft_value *q, weft_value *k, weft_value *v,
                           const weft_attention_options *options) {
    weft_attention_options o = options ? *options : (weft_attention_options){0};
    attention_attrs a = {.causal = o.causal || (o.window && !o.ahead),
                         .scale = o.scale,
                         .window = o.window,
                         .ahead = o.ahead,
                         .offset = o.offset,
                         .softcap = o.softcap};
    weft_value *in[] = {q, k, v, o.mask};
    weft_graph *g = q ? q->node->graph : NULL;
    if (q && !value_reserved(q, "attention", o.reserved, sizeof o.reserved)) return NULL;
    bool drops = g && o.dropout != 0 && !(g->mode == WEFT_EVAL && o.dropout > 0 && o.dropout <= 1);
    a.p = drops ? o.dropout : 0;
    a.key = drops ? random_key(g) : 0;
    const weft_op *op = drops ? &weft_op_attention_dropout : &weft_op_attention;
    return weft_transpose(op_value(op, o.mask ? 4 : 3, in, &a), 1, 2);
}
