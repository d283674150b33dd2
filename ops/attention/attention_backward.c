/* attention_backward.c - the gradients of attention from dy [B, T, H, D], q, k, v and its results y and lse.
 * With
 *     p[i, j] = e^(q_i . k_j scale - lse_i)        dp[i, j] = dy_i . v_j        delta_i = dy_i . y_i
 *     ds[i, j] = p (dp - delta_i) scale
 * they are dq_i = sum_j ds k_j, dk_j = sum_i ds q_i, dv_j = sum_i p dy_i (Dao et al., arXiv 2205.14135,
 * appendix B). dq is [B, T, H, D], dk and dv [B, S, H, D]: heads after time, as in the gradient of a [B, T, H
 * D] tensor. It has no gradient of its own. */
#include "ops/attention/attention.h"

#include <math.h>

/* The operands, in order. */
enum { DY, Q, K, V, Y, LSE };

static bool infer(op_call *c) {
    if (!attention_want_qkv(c, Q)) return false;
    const tensor_type *q = op_in(c, Q);
    tensor_type y = attention_result(q), lse = type_of(dtype_accumulator(q->dtype), 3, q->shape);
    if (!type_equal(op_in(c, DY), &y) || !type_equal(op_in(c, Y), &y) || !type_equal(op_in(c, LSE), &lse))
        return op_fail(c, WEFT_SHAPE, "dy %s, y %s, lse %s do not belong to q %s", TYPE(op_in(c, DY)),
                       TYPE(op_in(c, Y)), TYPE(op_in(c, LSE)), TYPE(q));
    c->n_out = 3;
    c->out[0] = y;
    c->out[1] = c->out[2] = attention_result(op_in(c, K));
    return true;
}

typedef struct head_pair {
    double p, ds; /* probability of key j for query i, and the gradient of its score times scale */
} head_pair;

/* row = [b, h, i]. The reference computes it anew for every use. */
static head_pair pair_of(const kernel_call *c, const int64_t *row, int64_t j, double scale) {
    int64_t b = row[0], h = row[1], i = row[2];
    double s = 0, dp = 0, delta = 0;
    for (int64_t d = 0; d < c->in[Q].type.shape[3]; d++) {
        double dy = element_get(&c->in[DY], (int64_t[]){b, i, h, d});
        s +=
            element_get(&c->in[Q], (int64_t[]){b, h, i, d}) * element_get(&c->in[K], (int64_t[]){b, h, j, d});
        dp += dy * element_get(&c->in[V], (int64_t[]){b, h, j, d});
        delta += dy * element_get(&c->in[Y], (int64_t[]){b, i, h, d});
    }
    double p = exp(s * scale - element_get(&c->in[LSE], row));
    return (head_pair){p, p * (dp - delta) * scale};
}

/* Columns of a result row that are summed together, in double because results may be of a reduced type. */
enum { COLUMNS = 64 };

/* Sets dq of one query in the COLUMNS columns from `first`. */
static void query_backward(const kernel_call *c, const int64_t *row, int64_t first, double scale) {
    int64_t columns = c->in[Q].type.shape[3] - first, keys = c->in[K].type.shape[2];
    double sum[COLUMNS] = {0};
    if (columns > COLUMNS) columns = COLUMNS;
    if (((const attention_attrs *)c->attrs)->causal && row[2] + 1 < keys) keys = row[2] + 1;
    for (int64_t j = 0; j < keys; j++) {
        head_pair pair = pair_of(c, row, j, scale);
        for (int64_t d = 0; d < columns; d++)
            sum[d] += pair.ds * element_get(&c->in[K], (int64_t[]){row[0], row[1], j, first + d});
    }
    for (int64_t d = 0; d < columns; d++)
        element_set(&c->out[0], (int64_t[]){row[0], row[2], row[1], first + d}, sum[d]);
}

/* Sets dk and dv of one key in the COLUMNS columns from `first`. */
static void key_backward(const kernel_call *c, const int64_t *key, int64_t first, double scale) {
    int64_t b = key[0], h = key[1], columns = c->in[Q].type.shape[3] - first;
    double dk[COLUMNS] = {0}, dv[COLUMNS] = {0};
    if (columns > COLUMNS) columns = COLUMNS;
    for (int64_t i = ((const attention_attrs *)c->attrs)->causal ? key[2] : 0; i < c->in[Q].type.shape[2];
         i++) {
        head_pair pair = pair_of(c, (int64_t[]){b, h, i}, key[2], scale);
        for (int64_t d = 0; d < columns; d++) {
            dk[d] += pair.ds * element_get(&c->in[Q], (int64_t[]){b, h, i, first + d});
            dv[d] += pair.p * element_get(&c->in[DY], (int64_t[]){b, i, h, first + d});
        }
    }
    for (int64_t d = 0; d < columns; d++) {
        element_set(&c->out[1], (int64_t[]){b, key[2], h, first + d}, dk[d]);
        element_set(&c->out[2], (int64_t[]){b, key[2], h, first + d}, dv[d]);
    }
}

/* First dq, row by row of queries, then dk and dv, row by row of keys: no result is written twice. */
static weft_status reference(const kernel_call *c) {
    double scale = attention_scale(c->attrs, &c->in[Q].type);
    int64_t row[3] = {0}, key[3] = {0}, depth = c->in[Q].type.shape[3];
    tensor_type keys = type_of(WEFT_F32, 3, c->in[K].type.shape);
    do
        for (int64_t first = 0; first < depth; first += COLUMNS) query_backward(c, row, first, scale);
    while (index_next(&c->in[LSE].type, row));
    do
        for (int64_t first = 0; first < depth; first += COLUMNS) key_backward(c, key, first, scale);
    while (index_next(&keys, key));
    return WEFT_OK;
}

const weft_op weft_op_attention_backward = {
    .name = "attention_backward",
    .summary = "gradients of attention",
    .min_in = 6,
    .max_in = 6,
    .attrs_bytes = sizeof(attention_attrs),
    .attrs = attention_attr_table,
    .reference_strided = ATTENTION_BACKWARD_STRIDED,
    .precision = PRECISION_REDUCED,
    /* All operands but lse, which is f32. */
    .reduced_in = 1u << DY | 1u << Q | 1u << K | 1u << V | 1u << Y,
    .reduced_out = 7,
    .infer = infer,
    .reference = reference,
    /* y and lse need not fit q, k, v for kernels to agree. No gradient of its own: attention says
       OP_GRADIENT_ONCE. */
    .samples =
        (const op_sample[]){
            {"f32[2,5,2,8], f32[2,2,5,8], f32[2,2,5,8], f32[2,2,5,8], f32[2,5,2,8], f32[2,2,5]", "causal=1",
             .out = "f32[2,5,2,8], f32[2,5,2,8], f32[2,5,2,8]", .no_gradient = true},
            {"f32[1,4,2,3], f32[1,2,4,3], f32[1,2,6,3], f32[1,2,6,3], f32[1,4,2,3], f32[1,2,4]", "scale=0.5",
             .out = "f32[1,4,2,3], f32[1,6,2,3], f32[1,6,2,3]", .no_gradient = true},
            {"f32[1,107,3,40], f32[1,3,107,40], f32[1,3,107,40], f32[1,3,107,40], "
             "f32[1,107,3,40], f32[1,3,107]",
             "causal=1", .low = -1, .high = 1, .no_gradient = true},
            {"f32[1,61,1,33], f32[1,1,61,33], f32[1,1,70,33], f32[1,1,70,33], f32[1,61,1,33], "
             "f32[1,1,61]",
             NULL, .low = -1, .high = 1, .no_gradient = true},
            {"f32[2,5,2,8], f32[2,2,5,8], f32[2,2,5,8], f32[2,2,5,8], f32[2,5,2,8], f32[2,2,6]", NULL,
             .error = "do not belong to q"},
            {0}},
};
