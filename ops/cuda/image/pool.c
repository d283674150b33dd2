/* pool.c - rows of pooling, forward and backward. */
#include "ops/cuda/kit/row_kit.h"
#include "ops/image/pool.h"

/* Positions along one axis are ints in the kernels. */
static const char *declines(const weft_node *n, const kernel_env *env) {
    for (int i = 1; i < 4; i++)
        if (n->in[0]->type.shape[i] > 1 << 30 || n->out[0].type.shape[i] > 1 << 30)
            return "an axis of more than 2^30 elements";
    return declines_types(n, env);
}

#define INSIDE "an index must be inside the plane"

CUDA_KERNEL(max_pool2d, .declines = declines);
CUDA_KERNEL(max_pool2d_backward, .declines = declines, .data_rule = INSIDE);
CUDA_KERNEL(max_pool2d_gather, .declines = declines, .data_rule = INSIDE);
CUDA_KERNEL(adaptive_max_pool2d, .declines = declines);
CUDA_KERNEL(avg_pool2d, .declines = declines);
CUDA_KERNEL(avg_pool2d_backward, .declines = declines);
CUDA_KERNEL(adaptive_avg_pool2d, .declines = declines);
CUDA_KERNEL(adaptive_avg_pool2d_backward, .declines = declines);
