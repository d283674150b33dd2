/* grid_sample.c - rows of grid_sample and its gradient by x. */
#include "ops/cuda/cuda.h"

/* Positions along one axis are ints in the kernels. */
static const char *declines(const weft_node *n, const kernel_env *env) {
    for (int i = 1; i < n->out[0].type.ndim; i++)
        if (n->in[0]->type.shape[i] > 1 << 30 || n->out[0].type.shape[i] > 1 << 30)
            return "an axis of more than 2^30 elements";
    return n->in[0]->type.dtype == WEFT_F32 ? NULL : "not f32";
}

CUDA_KERNEL(grid_sample, .declines = declines);
CUDA_KERNEL(grid_sample_backward, .declines = declines);
