/* flops.c - multiplications and additions of a program's matrix nodes (2 a multiply-add); pointwise work and
 * reductions are left out, as is usual when utilization is quoted. */
#include "runtime/program.h"

#include "ops/epilogue.h"

extern const weft_op weft_op_conv2d, weft_op_conv_transpose2d, weft_op_conv2d_weight, weft_op_attention,
    weft_op_attention_backward;

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

/* Elements of the weight, seen through a pack node. */
static double conv_weights(const weft_node *n) {
    const weft_value *w = n->in[1];
    return elements(w->type.ndim == 4 ? w : w->node->in[0]);
}

static double node_flops(const weft_node *n) {
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

double program_flops(const program *p) {
    double total = 0;
    for (const weft_node *n = p->graph->first; n; n = n->next) total += node_flops(n);
    return total;
}
