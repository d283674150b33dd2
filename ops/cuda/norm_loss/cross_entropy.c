/* cross_entropy.c - rows of cross_entropy and its backward op. */
#include "ops/cuda/kit/row_kit.h"
#include "ops/norm_loss/norm.h"

/* Workspace: the loss of each row. */
static size_t workspace(const weft_node *n, const kernel_env *env) {
    (void)env;
    return (size_t)n->in[0]->type.shape[0] * sizeof(float);
}

/* Workspace: the number of rows that count. */
static size_t backward_workspace(const weft_node *n, const kernel_env *env) {
    (void)n;
    (void)env;
    return sizeof(float);
}

/* Forward: losses of rows, then their mean. Backward: the number of rows that count, then the gradient. */
static void work(const weft_node *n, node_work *w) {
    (void)n;
    w->launches = 2;
}

#define LABELS "targets are classes, or ignore_index"

const weft_kernel cuda_cross_entropy = {.name = "cuda",
                                        .op = &weft_op_cross_entropy,
                                        .declines = declines_types,
                                        .workspace = workspace,
                                        .work = work,
                                        .data_rule = LABELS,
                                        CUDA_RUN(cross_entropy)};
const weft_kernel cuda_cross_entropy_backward = {.name = "cuda",
                                                 .op = &weft_op_cross_entropy_backward,
                                                 .declines = declines_types,
                                                 .workspace = backward_workspace,
                                                 .work = work,
                                                 .data_rule = LABELS,
                                                 CUDA_RUN(cross_entropy_backward)};
