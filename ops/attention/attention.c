/* attention.c - softmax(q k^T scale) v for every batch and head;
 * torch.nn.functional.scaled_dot_product_attention. Causal: query i reads keys j <= i.
 *     q [B, H, T, D], k and v [B, H, S, D]  ->  y [B, T, H, D], lse [B, H, T]
 * The T x S scores are never stored: lse, the log of each row's sum, is enough to compute them again in
 * attention_backward, which gives the gradients (Dao et al., arXiv 2205.14135).
 *
 * y has its head axis after the time axis, the order in which the next layer reads it. So the permutes around
 * it (the builder's to [B, H, T, D], the caller's back) are views, and nothing is copied. q, k and v may be
 * views too: slices of one [B, T, 3 H D] tensor. */
#include "ops/attention/attention.h"

#include <math.h>

const op_attr attention_attr_table[] = {
    {"causal", ATTR_BOOL, offsetof(attention_attrs, causal), 0, 0},
    {"scale", ATTR_REAL, offsetof(attention_attrs, scale), 0, 0},
    {0},
};

/* The default is PyTorch's. */
double attention_scale(const attention_attrs *a, const tensor_type *q) {
    return a->scale != 0 ? a->scale : 1 / sqrt((double)q->shape[3]);
}

/* D is the same for q, k and v; S may differ from T. */
bool attention_want_qkv(op_call *c, int first) {
    const tensor_type *q = op_in(c, first), *k = op_in(c, first + 1), *v = op_in(c, first + 2);
    if (!op_want_float(c, first)) return false;
    if (k->dtype != q->dtype || v->dtype != q->dtype)
        return op_fail(c, WEFT_TYPE, "q %s, k %s, v %s: cast them to one type", TYPE(q), TYPE(k), TYPE(v));
    if (q->ndim != 4 || k->ndim != 4 || !shape_equal(k, v) || q->shape[0] != k->shape[0] ||
        q->shape[1] != k->shape[1] || q->shape[3] != k->shape[3])
        return op_fail(c, WEFT_SHAPE, "q %s, k %s, v %s: q must be [B, H, T, D], k and v [B, H, S, D]",
                       TYPE(q), TYPE(k), TYPE(v));
    return true;
}

tensor_type attention_result(const tensor_type *q) {
    return type_of(q->dtype, 4, (int64_t[]){q->shape[0], q->shape[2], q->shape[1], q->shape[3]});
}

static bool infer(op_call *c) {
    if (!attention_want_qkv(c, 0)) return false;
    c->n_out = 2;
    c->out[0] = attention_result(op_in(c, 0));
    c->out[1] = type_of(dtype_accumulator(op_in(c, 0)->dtype), 3, op_in(c, 0)->shape);
    return true;
}

static void gradient(weft_node *n, weft_value *const *dout, const bool *wanted, weft_value **din) {
    if (!dout[0]) return; /* users do not get lse */
    weft_value *in[] = {dout[0], n->in[0], n->in[1], n->in[2], &n->out[0], &n->out[1]};
    weft_node *back = node_new(n->graph, &weft_op_attention_backward, 6, in, n->attrs);
    for (int i = 0; back && i < 3; i++)
        if (wanted[i]) din[i] = weft_transpose(&back->out[i], 1, 2);
}

/* q[b, h, i] . k[b, h, j] scale, with row = [b, h, i]. */
static double score(const kernel_call *c, const int64_t *row, int64_t j, double scale) {
    const tensor *q = &c->in[0], *k = &c->in[1];
    double sum = 0;
    for (int64_t d = 0; d < q->type.shape[3]; d++)
        sum += element_get(q, (int64_t[]){row[0], row[1], row[2], d}) *
               element_get(k, (int64_t[]){row[0], row[1], j, d});
    return sum * scale;
}

/* Columns of a result row that are summed together, in double because results may be of a reduced type. */
enum { COLUMNS = 64 };

/* Sets y of one query in the COLUMNS columns from `first`. */
static void query_columns(const kernel_call *c, const int64_t *row, int64_t keys, double scale, double lse,
                          int64_t first) {
    int64_t columns = c->in[0].type.shape[3] - first;
    double y[COLUMNS] = {0};
    if (columns > COLUMNS) columns = COLUMNS;
    for (int64_t j = 0; j < keys; j++) {
        double p = exp(score(c, row, j, scale) - lse);
        for (int64_t d = 0; d < columns; d++)
            y[d] += p * element_get(&c->in[2], (int64_t[]){row[0], row[1], j, first + d});
    }
    for (int64_t d = 0; d < columns; d++)
        element_set(&c->out[0], (int64_t[]){row[0], row[2], row[1], first + d}, y[d]);
}

/* The scores of a row are computed again for each use (maximum, sum, columns) instead of stored. */
static weft_status reference(const kernel_call *c) {
    const attention_attrs *a = c->attrs;
    const tensor_type *q = &c->in[0].type;
    double scale = attention_scale(a, q);
    int64_t row[3] = {0};
    do {
        int64_t keys = c->in[1].type.shape[2];
        if (a->causal && row[2] + 1 < keys) keys = row[2] + 1;
        double most = -INFINITY, sum = 0;
        for (int64_t j = 0; j < keys; j++) most = fmax(most, score(c, row, j, scale));
        for (int64_t j = 0; j < keys; j++) sum += exp(score(c, row, j, scale) - most);
        double lse = most + log(sum);
        element_set(&c->out[1], row, lse);
        for (int64_t d = 0; d < q->shape[3]; d += COLUMNS) query_columns(c, row, keys, scale, lse, d);
    } while (index_next(&c->out[1].type, row));
    return WEFT_OK;
}

const weft_op weft_op_attention = {
    .name = "attention",
    .summary = "softmax(q k^T scale) v per head; the result is [B, T, H, D]",
    .torch = "torch.nn.functional.scaled_dot_product_attention",
    .min_in = 3,
    .max_in = 3,
    .flags = OP_GRADIENT_ONCE,
    .attrs_bytes = sizeof(attention_attrs),
    .attrs = attention_attr_table,
    .reference_strided = ATTENTION_STRIDED,
    .precision = PRECISION_REDUCED,
    /* q, k, v and y are reduced; lse is f32. */
    .reduced_in = 7,
    .reduced_out = 1,
    .infer = infer,
    .gradient = gradient,
    .reference = reference,
    .samples =
        (const op_sample[]){
            {"f32[2,2,5,8], f32[2,2,5,8], f32[2,2,5,8]", "causal=1", .out = "f32[2,5,2,8], f32[2,2,5]"},
            {"f32[1,2,4,3], f32[1,2,6,3], f32[1,2,6,3]", "scale=0.5", .out = "f32[1,4,2,3], f32[1,2,4]"},
            {"f32[1,1,6,3], f32[1,1,4,3], f32[1,1,4,3]", "causal=1"},
            /* more than one block of queries, odd sizes: fast kernels */
            {"f32[1,3,107,40], f32[1,3,107,40], f32[1,3,107,40]", "causal=1", .no_gradient = true},
            {"f32[1,1,61,33], f32[1,1,70,33], f32[1,1,70,33]", NULL, .no_gradient = true},
            {"f32[2,2,5,8], f32[2,2,5,8], f32[2,2,6,8]", NULL, .error = "k and v [B, H, S, D]"},
            {"f32[2,2,5,8], f32[2,3,5,8], f32[2,3,5,8]", NULL, .error = "k and v [B, H, S, D]"},
            {"i32[2,2,5,8], i32[2,2,5,8], i32[2,2,5,8]", NULL, .error = "floating point"},
            {0}},
};

weft_value *weft_attention(weft_value *q, weft_value *k, weft_value *v, bool causal, double scale) {
    attention_attrs a = {.causal = causal, .scale = scale};
    return weft_transpose(op_value(&weft_op_attention, 3, (weft_value *[]){q, k, v}, &a), 1, 2);
}
