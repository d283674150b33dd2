/* layer_norm.c - rows of layer_norm, rms_norm and their backward ops. */
#include "ops/cuda/norm_loss/layer_norm.h"

#include "ops/cuda/kit/row_kit.h"
#include "ops/norm_loss/norm.h"

/* Workspace: the parts of dw and db. */
static size_t backward_workspace(const weft_node *n, const kernel_env *env) {
    const tensor_type *x = &n->in[1]->type;
    int64_t d = x->shape[x->ndim - 1], rows = type_elements(x) / d;
    if (n->n_out < 2) return 0;
    return (size_t)(layer_norm_parts(rows, d, dtype_bytes(x->dtype)) * d) * 2 * sizeof(float);
}

/* dx and the parts of dw and db together, or apart where a row is too long for one warp; then their
 * totals. */
static void backward_work(const weft_node *n, node_work *w) {
    const tensor_type *x = &n->in[1]->type;
    bool is_long = x->shape[x->ndim - 1] > LAYER_NORM_SHORT;
    double parts = (double)backward_workspace(n, NULL);
    if (n->n_out < 2) return;
    w->launches = is_long ? 3 : 2;
    if (is_long) w->read += value_bytes(n->in[0]) + value_bytes(n->in[1]);
    w->read += parts;
    w->written += parts;
}

CUDA_KERNEL(layer_norm, .declines = declines_types);
CUDA_KERNEL(layer_norm_backward, .declines = declines_types, .workspace = backward_workspace,
            .work = backward_work);
CUDA_KERNEL(rms_norm, .declines = declines_types);
CUDA_KERNEL(rms_norm_backward, .declines = declines_types, .workspace = backward_workspace,
            .work = backward_work);
