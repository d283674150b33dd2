/* cross_entropy.c - rows of cross_entropy and its backward op. */
#include "ops/cuda/kit/row_kit.h"
#include "ops/norm_loss/norm.h"

static int64_t reduction_of(const weft_node *n) {
    return ((const cross_entropy_attrs *)n->attrs)->reduction;
}

/* Workspace: the loss of each row, unless it is the result. */
static size_t workspace(const weft_node *n, const kernel_env *env) {
    return reduction_of(n) == LOSS_NONE ? 0 : (size_t)n->in[0]->type.shape[0] * sizeof(float);
}

/* Workspace: the number of rows that count, for a mean. */
static size_t backward_workspace(const weft_node *n, const kernel_env *env) {
    return reduction_of(n) == LOSS_MEAN ? sizeof(float) : 0;
}

/* The losses of rows, then their mean or sum. */
static void work(const weft_node *n, node_work *w) {
    w->launches = reduction_of(n) == LOSS_NONE ? 1 : 2;
}

/* For a mean the number of rows that count; then the gradient. */
static void backward_work(const weft_node *n, node_work *w) {
    w->launches = reduction_of(n) == LOSS_MEAN ? 2 : 1;
}

#define LABELS "targets are classes, or ignore_index"

CUDA_KERNEL(cross_entropy, .declines = declines_types, .workspace = workspace, .work = work,
            .data_rule = LABELS);
CUDA_KERNEL(cross_entropy_backward, .declines = declines_types, .workspace = backward_workspace,
            .work = backward_work, .data_rule = LABELS);
