/* attention_backward.c - gradients of attention from dy [B, T, H, D], q, k, v and its results y and lse. With
 *     p[i, j] = e^(q_i . k_j scale - lse_i)        dp[i, j] = dy_i . v_j        delta_i = dy_i . y_i
 *     ds[i, j] = p (dp - delta_i) scale
 * it is dq_i = sum_j ds k_j, dk_j = sum_i ds q_i, dv_j = sum_i p dy_i (Dao et al., arXiv 2205.14135, appendix
 * B). dq is [B, T, H, D], dk and dv [B, S, H, D]: heads inside, as a gradient of [B, T, H D] wants them.
 */
#include "ops/attention.h"

#include <math.h>

enum { DY, Q, K, V, Y, LSE };

static bool infer(op_call *c) {
    if (!attention_want_qkv(c, Q)) return false;
    const tensor_type *q = op_in(c, Q);
    tensor_type y = attention_result(q), lse = type_of(q->dtype, 3, q->shape);
    if (!type_equal(op_in(c, DY), &y) || !type_equal(op_in(c, Y), &y) || !type_equal(op_in(c, LSE), &lse))
        return op_fail(c, WEFT_SHAPE, "dy %s, y %s, lse %s do not belong to q %s", TYPE(op_in(c, DY)),
                       TYPE(op_in(c, Y)), TYPE(op_in(c, LSE)), TYPE(q));
    c->n_out = 3;
    c->out[0] = y;
    c->out[1] = c->out[2] = attention_result(op_in(c, K));
    return true;
}

static void add_to(const tensor *t, const int64_t *at, double value) {
    element_set(t, at, element_get(t, at) + value);
}

/* What query i and key j give each other. */
static void pair_backward(const kernel_call *c, int64_t b, int64_t h, int64_t i, int64_t j, double scale,
                          double delta) {
    int64_t row[] = {b, h, i};
    double s = 0, dp = 0;
    for (int64_t d = 0; d < c->in[Q].type.shape[3]; d++) {
        s +=
            element_get(&c->in[Q], (int64_t[]){b, h, i, d}) * element_get(&c->in[K], (int64_t[]){b, h, j, d});
        dp += element_get(&c->in[DY], (int64_t[]){b, i, h, d}) *
              element_get(&c->in[V], (int64_t[]){b, h, j, d});
    }
    double p = exp(s * scale - element_get(&c->in[LSE], row)), ds = p * (dp - delta) * scale;
    for (int64_t d = 0; d < c->in[Q].type.shape[3]; d++) {
        add_to(&c->out[0], (int64_t[]){b, i, h, d}, ds * element_get(&c->in[K], (int64_t[]){b, h, j, d}));
        add_to(&c->out[1], (int64_t[]){b, j, h, d}, ds * element_get(&c->in[Q], (int64_t[]){b, h, i, d}));
        add_to(&c->out[2], (int64_t[]){b, j, h, d}, p * element_get(&c->in[DY], (int64_t[]){b, i, h, d}));
    }
}

static weft_status reference(const kernel_call *c) {
    const attention_attrs *a = c->attrs;
    double scale = attention_scale(a, &c->in[Q].type);
    int64_t row[3] = {0};
    for (int k = 0; k < 3; k++) {
        int64_t at[WEFT_MAX_NDIM] = {0};
        do element_set(&c->out[k], at, 0);
        while (index_next(&c->out[k].type, at));
    }
    do {
        int64_t b = row[0], h = row[1], i = row[2], keys = c->in[K].type.shape[2];
        double delta = 0;
        for (int64_t d = 0; d < c->in[Q].type.shape[3]; d++)
            delta += element_get(&c->in[DY], (int64_t[]){b, i, h, d}) *
                     element_get(&c->in[Y], (int64_t[]){b, i, h, d});
        for (int64_t j = 0; j < keys && (!a->causal || j <= i); j++)
            pair_backward(c, b, h, i, j, scale, delta);
    } while (index_next(&c->in[LSE].type, row));
    return WEFT_OK;
}

const weft_op weft_op_attention_backward = {
    .name = "attention_backward",
    .summary = "gradients of attention",
    .min_in = 6,
    .max_in = 6,
    .attrs_bytes = sizeof(attention_attrs),
    .attrs = attention_attr_table,
    .strided_in = 1u << DY | 1u << Q | 1u << K | 1u << V,
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
