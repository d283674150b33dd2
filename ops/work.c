/* work.c - see work.h. The counts are those of the direct algorithm, whatever the kernel does. */
#include "ops/work.h"

#include "graph/core/kernel.h"
#include "ops/image/conv2d.h"
#include "ops/linalg/epilogue.h"
#include "ops/kit/ops.h"

static double elements(const weft_value *v) {
    return (double)type_elements(&v->type);
}

/* [.., m, k] x [.., k, n]: every element of the result takes k multiply-adds. k is found as the elements of
 * one matrix of the first operand divided by m, because either operand may be transposed. */
static double matmul_flops(const weft_node *n) {
    const tensor_type *a = &n->in[0]->type, *out = &n->out[0].type;
    double m = (double)out->shape[out->ndim - 2], rows = elements(n->in[0]);
    for (int i = 0; i < a->ndim - 2; i++) rows /= (double)a->shape[i];
    return 2 * elements(&n->out[0]) * (rows / m);
}

/* A convolution and its two gradients cost the same: every weight is multiplied at every position of the
 * smaller image or volume. */
static double conv_flops(const weft_value *image, double weights) {
    return 2 * elements(image) / (double)image->type.shape[1] * weights;
}

/* Elements of the weight, from the channels of both images, because the weight itself may be packed. */
static double conv_weights(const weft_node *n) {
    const conv_attrs *a = n->attrs;
    double weights = (double)n->in[0]->type.shape[1] * (double)n->out[0].type.shape[1] / (double)a->groups;
    for (int i = 0; i < a->kernel.n; i++) weights *= (double)a->kernel.v[i];
    return weights;
}

/* `by_d` products of attention of scores [N, heads, T, S] with D multiply-adds, and `by_e` with E, for q [N,
 * heads, T, D], k [.., S, D], v [.., S, E], which are operands from `q` on. */
static double attention_flops(const weft_node *n, int q, int by_d, int by_e) {
    double scores =
        elements(n->in[q]) / (double)n->in[q]->type.shape[3] * (double)n->in[q + 1]->type.shape[2];
    double d = (double)n->in[q]->type.shape[3], e = (double)n->in[q + 2]->type.shape[3];
    return 2 * scores * (by_d * d + by_e * e);
}

/* The product of every step of a recurrent op: x [T, B, G H] by w [G H, H] or its transpose. */
static double recurrent_flops(const weft_value *x, const weft_value *w) {
    return 2 * elements(x) * (double)w->type.shape[1];
}

double node_flops(const weft_node *n) {
    if (n->op == &weft_op_linear || n->op == &weft_op_linear_act)
        return 2 * elements(&n->out[0]) * (double)n->in[1]->type.shape[1];
    if (n->op == &weft_op_matmul || n->op == &weft_op_matmul_act_backward || n->op == &weft_op_linear_weight)
        return matmul_flops(n);
    conv_part part = conv_part_of(n->op);
    if (part == CONV_SMALL) return conv_flops(&n->out[0], conv_weights(n));
    if (part == CONV_BIG) return conv_flops(n->in[0], conv_weights(n));
    if (part == CONV_WEIGHT) return conv_flops(n->in[1], elements(&n->out[0]));
    if (n->op == &weft_op_attention || n->op == &weft_op_attention_dropout)
        return attention_flops(n, 0, 1, 1);
    if (n->op == &weft_op_lstm || n->op == &weft_op_gru || n->op == &weft_op_rnn)
        return recurrent_flops(n->in[0], n->in[1]);
    if (n->op == &weft_op_lstm_backward || n->op == &weft_op_rnn_backward)
        return recurrent_flops(n->in[0], n->in[2]);
    if (n->op == &weft_op_gru_backward) return recurrent_flops(n->in[0], n->in[3]);
    if (n->op == &weft_op_attention_backward) return attention_flops(n, 1, 3, 2);
    return 0;
}

/* ---- launches and bytes ---- */

double value_bytes(const weft_value *v) {
    double count = 1;
    for (int i = 0; i < v->type.ndim; i++)
        if (!v->has_layout || v->stride[i]) count *= (double)v->type.shape[i];
    return count * (double)dtype_bytes(v->type.dtype);
}

bool value_is_within(const weft_value *v, const weft_value *into) {
    for (; v; v = v->base)
        if (v == into || (v->variable && v->variable == into->variable)) return true;
    return false;
}

/* An operand that the node has twice is read once. */
static bool is_new(const weft_node *n, int i) {
    for (int k = 0; k < i; k++)
        if (n->in[k] == n->in[i]) return false;
    return n->in[i] != NULL;
}

/* The gradients that the planner placed in their bucket are not copied. */
static void leave_out_placed(const weft_node *n, node_work *w) {
    for (int i = 0; i < n->n_in; i++) {
        if (!value_is_within(n->in[i], &n->out[0])) continue;
        w->read -= value_bytes(n->in[i]);
        w->written -= value_bytes(n->in[i]);
    }
}

/* Ops with `writes` change operands in place; their results are those operands. */
node_work node_work_of(const weft_node *n) {
    node_work w = {0};
    if (!n->kernel) return w;
    w.launches = 1;
    w.flops = node_flops(n);
    for (int i = 0; i < n->n_in; i++) {
        if (is_new(n, i)) w.read += value_bytes(n->in[i]);
        if (n->in[i] && i < 32 && n->op->writes >> i & 1) w.written += value_bytes(n->in[i]);
    }
    for (int k = 0; k < n->n_out && !n->op->writes; k++) w.written += value_bytes(&n->out[k]);
    if (n->op == &weft_op_bucket) leave_out_placed(n, &w);
    if (n->kernel->work) n->kernel->work(n, &w);
    return w;
}

/* ---- threads ---- */

/* The work of one thread in the time that it takes to wake others and wait for them (some 10 us), in f32. If
 * a thread waits for one that has no core, it waits thousands of times longer, so little work is not shared.
 * The number of threads is 1 or all of them, since OpenMP ends and starts threads when a team changes its
 * size. */
enum { WORTH_BYTES = 64 * 1024, WORTH_FLOPS = 1024 * 1024 };

/* Bytes of operands and results as f32. For a product without its weight, which may be packed. */
static double node_bytes(const weft_node *n, bool is_product) {
    double total = 0;
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i] && !(is_product && i == 1)) total += elements(n->in[i]);
    for (int k = 0; k < n->n_out; k++) total += elements(&n->out[k]);
    return total * sizeof(float);
}

int node_threads(const weft_node *n, int threads) {
    double flops = node_flops(n);
    bool is_much = flops >= WORTH_FLOPS || node_bytes(n, flops > 0) >= WORTH_BYTES;
    return is_much ? threads : 1;
}
