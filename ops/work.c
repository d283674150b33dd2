/* work.c - see work.h. */
#include "ops/work.h"

#include "ops/image/conv2d.h"
#include "ops/linalg/epilogue.h"
#include "ops/kit/ops.h"

static double elements(const weft_value *v) {
    return (double)type_elements(&v->type);
}

/* [.., m, k] x [.., k, n]: every element of the result takes k multiply-adds. */
static double matmul_flops(const weft_node *n) {
    const tensor_type *a = &n->in[0]->type, *out = &n->out[0].type;
    double m = (double)out->shape[out->ndim - 2], rows = elements(n->in[0]);
    for (int i = 0; i < a->ndim - 2; i++) rows /= (double)a->shape[i];
    return 2 * elements(&n->out[0]) * (rows / m);
}

/* A convolution and its two gradients take the same: every weight meets every position of the smaller image. */
static double conv_flops(const weft_value *image, double weights) {
    double positions =
        (double)image->type.shape[0] * (double)image->type.shape[2] * (double)image->type.shape[3];
    return 2 * positions * weights;
}

/* Elements of the weight, which may be packed: of both images' channels. */
static double conv_weights(const weft_node *n) {
    const conv_attrs *a = n->attrs;
    double channels = (double)n->in[0]->type.shape[1] * (double)n->out[0].type.shape[1] / (double)a->groups;
    return channels * (double)a->kernel.v[0] * (double)a->kernel.v[1];
}

double node_flops(const weft_node *n) {
    if (n->op == &weft_op_linear || n->op == &weft_op_linear_act)
        return 2 * elements(&n->out[0]) * (double)n->in[1]->type.shape[1];
    if (n->op == &weft_op_matmul || n->op == &weft_op_matmul_act_backward || n->op == &weft_op_linear_weight)
        return matmul_flops(n);
    if (n->op == &weft_op_conv2d) return conv_flops(&n->out[0], conv_weights(n));
    if (n->op == &weft_op_conv_transpose2d) return conv_flops(n->in[0], conv_weights(n));
    if (n->op == &weft_op_conv2d_weight) return conv_flops(n->in[1], elements(&n->out[0]));
    const tensor_type *q = n->n_in ? &n->in[0]->type : NULL;
    double scores = q && q->ndim == 4 ? elements(n->in[0]) * (double)q->shape[2] : 0;
    if (n->op == &weft_op_attention) return 4 * scores;
    if (n->op == &weft_op_attention_backward) return 10 * scores;
    return 0;
}

/* ---- threads ---- */

/* What a thread does in the time that waking others and waiting for them takes (some 10 us), in f32. A thread that waits for
 * one which has no core waits for thousands of times that: little work is not shared out. Two numbers of threads, 1
 * and all, since OpenMP ends and starts threads when teams change their size. */
enum { WORTH_BYTES = 64 * 1024, WORTH_FLOPS = 1024 * 1024 };

/* Bytes of operands and results, were they f32; of a product without the weight, which may be packed. */
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
