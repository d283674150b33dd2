/* interpolate.c - rows of interpolate and its gradient. */
#include "ops/cuda/kit/row_kit.h"
#include "ops/image/interpolate.h"

/* Positions along one axis are ints in the kernels. */
static const char *declines(const weft_node *n, const kernel_env *env) {
    for (int i = 1; i < 4; i++)
        if (n->in[0]->type.shape[i] > 1 << 30 || n->out[0].type.shape[i] > 1 << 30)
            return "an axis of more than 2^30 elements";
    return declines_types(n, env);
}

CUDA_KERNEL(interpolate, .declines = declines);
CUDA_KERNEL(interpolate_backward, .declines = declines);
