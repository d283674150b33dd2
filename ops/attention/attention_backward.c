/* attention_backward.c - the gradients of attention from dy [B, T, H, E], q, k, v, its results y, lse (and
 * shift, 0 without a mask of numbers), and its mask. With the scores s[i, j] = q_i . k_j scale + mask[i, j]
 *     p[i, j] = e^(s[i, j] - shift_i - lse_i)      dp[i, j] = dy_i . v_j        delta_i = dy_i . y_i
 *     ds[i, j] = p (dp - delta_i)              (with dropout: of dp, and of p in dv)
 *     dr = ds, with softcap times 1 - tanh^2
 * they are dq_i = scale sum_j dr k_j, dk_j = scale sum_i dr q_i, dv_j = sum_i p dy_i (Dao et al., arXiv
 * 2205.14135, appendix B); keys that heads share get the sum over these. dq is [B, T, H, D], dk and dv [B, S,
 * H / n, D or E]: heads after time, as in the gradient of a [B, T, H D] tensor. Only with mask_gradient ds
 * [B, H, T, S] is a result too, in f32: the mask's gradient before it is summed to the mask's shape. Its own
 * gradients are in attention_gradient.c. */
#include "ops/attention/attention.h"

#include <math.h>

static const op_attr attrs[] = {
    ATTENTION_ROWS,
    {"p", ATTR_REAL, offsetof(attention_attrs, p)},
    {"key", ATTR_KEY, offsetof(attention_attrs, key)},
    {"mask_gradient", ATTR_BOOL, offsetof(attention_attrs, mask_gradient)},
    {0},
};

/* A mask of numbers comes with its shift, another without. */
static bool infer(op_call *c) {
    if (!attention_want_qkv(c, BACKWARD_Q) || !attention_want_mask(c, BACKWARD_Q, BACKWARD_MASK))
        return false;
    const tensor_type *q = op_in(c, BACKWARD_Q);
    tensor_type y = attention_result(q, op_in(c, BACKWARD_V)),
                lse = type_of(dtype_accumulator(q->dtype), 3, q->shape);
    bool adds = attention_adds(c->in, c->n_in, BACKWARD_MASK);
    if (!type_equal(op_in(c, BACKWARD_DY), &y) || !type_equal(op_in(c, BACKWARD_Y), &y) ||
        !type_equal(op_in(c, BACKWARD_LSE), &lse))
        return op_fail(c, WEFT_SHAPE, "dy %s, y %s, lse %s do not belong to q %s",
                       TYPE(op_in(c, BACKWARD_DY)), TYPE(op_in(c, BACKWARD_Y)), TYPE(op_in(c, BACKWARD_LSE)),
                       TYPE(q));
    if ((c->n_in > BACKWARD_SHIFT) != adds ||
        (adds && !(c->in[BACKWARD_SHIFT] && type_equal(op_in(c, BACKWARD_SHIFT), &lse))))
        return op_fail(c, WEFT_SHAPE, "a mask of numbers, and no other, comes with its shift, %s",
                       TYPE(&lse));
    if (((const attention_attrs *)c->attrs)->mask_gradient && !adds)
        return op_fail(c, WEFT_ARGUMENT, "mask_gradient=1 without a mask of numbers");
    double p = ((const attention_attrs *)c->attrs)->p;
    if (!(p >= 0 && p <= 1)) return op_fail(c, WEFT_ARGUMENT, "p %g: a probability is 0 to 1", p);
    c->n_out = ((const attention_attrs *)c->attrs)->mask_gradient ? 4 : 3;
    c->out[0] = y;
    c->out[0].shape[3] = q->shape[3];
    c->out[1] = attention_result(op_in(c, BACKWARD_K), q);
    c->out[2] = attention_result(op_in(c, BACKWARD_K), op_in(c, BACKWARD_V));
    c->out[3] = attention_scores(q, op_in(c, BACKWARD_K));
    return true;
}

/* ---- reference ---- */

typedef struct head_pair {
    double p, ds,
        dr; /* weight of key j for query i, after dropout; gradients of its score, and of q . k scale */
} head_pair;

/* row = [b, h, i]. The reference computes it again for every use. */
static head_pair pair_of(const kernel_call *c, const score_view *s, const int64_t *row, int64_t j) {
    int64_t b = row[0], h = row[1], i = row[2];
    double slope, score = score_at(s, row, j, &slope);
    if (score == -INFINITY) return (head_pair){0};
    int64_t width = c->in[BACKWARD_V].type.shape[3];
    element_line dy = element_row(&c->in[BACKWARD_DY], (int64_t[]){b, i, h, 0}),
                 y = element_row(&c->in[BACKWARD_Y], (int64_t[]){b, i, h, 0}),
                 v = element_row(&c->in[BACKWARD_V], (int64_t[]){b, h / s->group, j, 0});
    double dp = elements_dot(0, dy, v, width), delta = elements_dot(0, dy, y, width);
    double shift = s->mask && c->n_in > BACKWARD_SHIFT ? element_get(&c->in[BACKWARD_SHIFT], row) : 0;
    double p = exp(score - shift - element_get(&c->in[BACKWARD_LSE], row));
    double keep = keep_at(s, row, j), ds = p * (dp * keep - delta);
    return (head_pair){p * keep, ds, ds * slope};
}

/* Columns of a result row that are summed together, in double because results may be of a reduced type. */
enum { COLUMNS = 64 };

/* How many of a result's columns are summed from `first` on: at most COLUMNS, and 0 past its end. */
static int64_t columns_from(const tensor *result, int64_t first) {
    int64_t left = result->type.shape[3] - first;
    return left < 0 ? 0 : left < COLUMNS ? left : COLUMNS;
}

/* sum += factor * row */
static void add_scaled(double sum[COLUMNS], double factor, element_line row, int64_t columns) {
    for (int64_t d = 0; d < columns; d++) sum[d] += factor * element_value(row.t, row.place + d * row.step);
}

/* Sets columns of result [b, row, head, first ...]. */
static void set_columns(const tensor *result, int64_t b, int64_t row, int64_t head, int64_t first,
                        const double sum[COLUMNS], double factor) {
    for (int64_t d = 0; d < columns_from(result, first); d++)
        element_set(result, (int64_t[]){b, row, head, first + d}, sum[d] * factor);
}

/* Sets dq of one query in the COLUMNS columns from `first`. */
static void query_backward(const kernel_call *c, const score_view *s, const int64_t *row, int64_t first) {
    double sum[COLUMNS] = {0};
    for (int64_t j = 0; j < s->k->type.shape[2]; j++) {
        double dr = pair_of(c, s, row, j).dr;
        if (dr == 0) continue;
        add_scaled(sum, dr, element_row(s->k, (int64_t[]){row[0], row[1] / s->group, j, first}),
                   columns_from(&c->out[0], first));
    }
    set_columns(&c->out[0], row[0], row[2], row[1], first, sum, s->scale);
}

/* Sets dk and dv of key [b, head, j] in the COLUMNS columns from `first`. */
static void key_backward(const kernel_call *c, const score_view *s, const int64_t *key, int64_t first) {
    const tensor *dy = &c->in[BACKWARD_DY], *dk = &c->out[1], *dv = &c->out[2];
    int64_t rows = s->q->type.shape[2];
    double k_sum[COLUMNS] = {0}, v_sum[COLUMNS] = {0};
    for (int64_t n = 0; n < s->group * rows; n++) {
        int64_t row[3] = {key[0], key[1] * s->group + n / rows, n % rows};
        head_pair pair = pair_of(c, s, row, key[2]);
        add_scaled(k_sum, pair.dr, element_row(s->q, (int64_t[]){row[0], row[1], row[2], first}),
                   columns_from(dk, first));
        add_scaled(v_sum, pair.p, element_row(dy, (int64_t[]){row[0], row[2], row[1], first}),
                   columns_from(dv, first));
    }
    set_columns(dk, key[0], key[2], key[1], first, k_sum, s->scale);
    set_columns(dv, key[0], key[2], key[1], first, v_sum, 1);
}

/* First dq, row by row of queries, then dk and dv, row by row of keys: no result is written twice. */
static weft_status reference(const kernel_call *c) {
    score_view s = score_view_of(c, BACKWARD_Q, BACKWARD_MASK);
    int64_t row[3] = {0}, key[3] = {0}, at[4] = {0}, depth = s.q->type.shape[3],
            width = c->out[2].type.shape[3];
    tensor_type keys = type_of(WEFT_F32, 3, s.k->type.shape);
    do
        for (int64_t first = 0; first < depth; first += COLUMNS) query_backward(c, &s, row, first);
    while (index_next(&c->in[BACKWARD_LSE].type, row));
    do
        for (int64_t first = 0; first < depth || first < width; first += COLUMNS)
            key_backward(c, &s, key, first);
    while (index_next(&keys, key));
    if (c->n_out < 4) return WEFT_OK;
    do element_set(&c->out[3], at, pair_of(c, &s, at, at[3]).ds);
    while (index_next(&c->out[3].type, at));
    return WEFT_OK;
}

const weft_op weft_op_attention_backward = {
    .name = "attention_backward",
    .summary = "gradients of attention",
    .min_in = 6,
    .max_in = 8,
    OP_ATTRS(attention_attrs, attrs),
    .reference_strided = ATTENTION_BACKWARD_STRIDED,
    .precision = PRECISION_REDUCED,
    /* lse and shift are f32, the mask may be. */
    .f32_in = 1 << BACKWARD_LSE | 1 << BACKWARD_MASK | 1 << BACKWARD_SHIFT,
    .f32_out = 1 << 3,
    .infer = infer,
    .gradient = attention_backward_gradient,
    .reference = reference,
    /* y and lse need not fit q, k, v for kernels to agree. */
    .samples =
        (const op_sample[]){
            {"f32[2,5,2,8], f32[2,2,5,8], f32[2,2,5,8], f32[2,2,5,8], f32[2,5,2,8], f32[2,2,5]", "causal=1",
             .out = "f32[2,5,2,8], f32[2,5,2,8], f32[2,5,2,8]"},
            {"f32[1,4,2,3], f32[1,2,4,3], f32[1,2,6,3], f32[1,2,6,3], f32[1,4,2,3], f32[1,2,4]", "scale=0.5",
             .out = "f32[1,4,2,3], f32[1,6,2,3], f32[1,6,2,3]"},
            {"f32[1,107,3,40], f32[1,3,107,40], f32[1,3,107,40], f32[1,3,107,40], "
             "f32[1,107,3,40], f32[1,3,107]",
             "causal=1", .low = -1, .high = 1, .no_gradient = true},
            {"f32[1,61,1,33], f32[1,1,61,33], f32[1,1,70,33], f32[1,1,70,33], f32[1,61,1,33], "
             "f32[1,1,61]",
             NULL, .low = -1, .high = 1, .no_gradient = true},
            /* masks */
            {"f32[2,3,2,4], f32[2,2,3,4], f32[2,2,5,4], f32[2,2,5,4], f32[2,3,2,4], f32[2,2,3], "
             "bool[2,1,3,5]",
             NULL, .out = "f32[2,3,2,4], f32[2,5,2,4], f32[2,5,2,4]", .low = -1, .high = 1},
            {"f32[2,3,2,4], f32[2,2,3,4], f32[2,2,5,4], f32[2,2,5,4], f32[2,3,2,4], f32[2,2,3], f32[3,5], "
             "f32[2,2,3]",
             "mask_gradient=1", .out = "f32[2,3,2,4], f32[2,5,2,4], f32[2,5,2,4], f32[2,2,3,5]"},
            {"f32[1,61,2,33], f32[1,2,61,33], f32[1,2,70,33], f32[1,2,70,33], f32[1,61,2,33], f32[1,2,61], "
             "f32[1,2,1,70], f32[1,2,61]",
             "causal=1 mask_gradient=1", .low = -1, .high = 1, .no_gradient = true},
            {"f32[2,61,2,8], f32[2,2,61,8], f32[2,2,70,8], f32[2,2,70,8], f32[2,61,2,8], f32[2,2,61], "
             "bool[2,1,1,70]",
             NULL, .low = 0.25, .high = 1, .no_gradient = true},
            /* heads that share keys and values; windows, also past the last key */
            {"f32[2,3,4,4], f32[2,4,3,4], f32[2,2,5,4], f32[2,2,5,4], f32[2,3,4,4], f32[2,4,3]", NULL,
             .out = "f32[2,3,4,4], f32[2,5,2,4], f32[2,5,2,4]"},
            {"f32[1,57,6,8], f32[1,6,57,8], f32[1,2,60,8], f32[1,2,60,8], f32[1,57,6,8], f32[1,6,57], "
             "f32[57,60], f32[1,6,57]",
             "causal=1 window=20 mask_gradient=1", .low = -1, .high = 1, .no_gradient = true},
            {"f32[1,230,2,5], f32[1,2,230,5], f32[1,1,230,5], f32[1,1,230,5], f32[1,230,2,5], f32[1,2,230]",
             "causal=1 window=50", .low = -1, .high = 1, .no_gradient = true},
            {"f32[1,300,1,4], f32[1,1,300,4], f32[1,1,60,4], f32[1,1,60,4], f32[1,300,1,4], f32[1,1,300]",
             "causal=1 window=100", .low = -1, .high = 1, .no_gradient = true},
            /* values of another width, softcap, windows on both sides, rows and keys that do not meet */
            {"f32[2,3,2,7], f32[2,2,3,4], f32[2,2,5,4], f32[2,2,5,7], f32[2,3,2,7], f32[2,2,3]", "softcap=1",
             .out = "f32[2,3,2,4], f32[2,5,2,4], f32[2,5,2,7]", .low = -1, .high = 1},
            {"f32[1,4,2,3], f32[1,2,4,5], f32[1,2,6,5], f32[1,2,6,3], f32[1,4,2,3], f32[1,2,4], f32[4,6], "
             "f32[1,2,4]",
             "window=3 ahead=2 offset=1 softcap=0.5 mask_gradient=1", .low = -1, .high = 1},
            {"f32[1,7,1,3], f32[1,1,7,3], f32[1,1,4,3], f32[1,1,4,3], f32[1,7,1,3], f32[1,1,7]",
             "causal=1 offset=-3", .low = -1, .high = 1},
            {"f32[1,107,2,70], f32[1,2,107,20], f32[1,1,130,20], f32[1,1,130,70], f32[1,107,2,70], "
             "f32[1,2,107]",
             "ahead=20 window=30 offset=13 softcap=1", .low = -1, .high = 1, .no_gradient = true},
            {"f32[1,107,2,20], f32[1,2,107,70], f32[1,1,90,70], f32[1,1,90,20], f32[1,107,2,20], "
             "f32[1,2,107], "
             "f32[107,90], f32[1,2,107]",
             "causal=1 offset=-60 window=20 softcap=2 mask_gradient=1", .low = -1, .high = 1,
             .no_gradient = true},
            /* dropout */
            {"f32[2,3,4,4], f32[2,4,3,4], f32[2,2,5,4], f32[2,2,5,4], f32[2,3,4,4], f32[2,4,3]",
             "p=0.5 key=0x7", .low = -1, .high = 1},
            {"f32[1,57,2,8], f32[1,2,57,8], f32[1,2,270,8], f32[1,2,270,8], f32[1,57,2,8], f32[1,2,57], "
             "f32[57,270], f32[1,2,57]",
             "causal=1 p=0.25 key=0x8 mask_gradient=1", .low = 0.25, .high = 1, .no_gradient = true},
            {"f32[1,61,2,8], f32[1,2,61,8], f32[1,1,300,8], f32[1,1,300,8], f32[1,61,2,8], f32[1,2,61]",
             "p=0.1 key=0x9", .low = 0.25, .high = 1, .no_gradient = true},
            {"f32[2,5,2,8], f32[2,2,5,8], f32[2,2,5,8], f32[2,2,5,8], f32[2,5,2,8], f32[2,2,5]", "p=2",
             .error = "a probability is 0 to 1"},
            {"f32[2,5,2,8], f32[2,2,5,8], f32[2,2,5,8], f32[2,2,5,8], f32[2,5,2,8], f32[2,2,6]", NULL,
             .error = "do not belong to q"},
            {"f32[2,3,2,4], f32[2,2,3,4], f32[2,2,5,4], f32[2,2,5,4], f32[2,3,2,4], f32[2,2,3], f32[3,5]",
             NULL, .error = "comes with its shift"},
            {"f32[2,3,2,4], f32[2,2,3,4], f32[2,2,5,4], f32[2,2,5,4], f32[2,3,2,4], f32[2,2,3], bool[3,5]",
             "mask_gradient=1", .error = "without a mask of numbers"},
            {0}},
};
