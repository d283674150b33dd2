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

#define POOL(which, rule)                                                                                    \
    const weft_kernel cuda_##which = {                                                                       \
        .name = "cuda", .op = &weft_op_##which, .declines = declines, .data_rule = rule, CUDA_RUN(which)}
POOL(max_pool2d, NULL);
POOL(max_pool2d_backward, "an index must be inside the plane");
POOL(max_pool2d_gather, "an index must be inside the plane");
POOL(adaptive_max_pool2d, NULL);
POOL(avg_pool2d, NULL);
POOL(avg_pool2d_backward, NULL);
POOL(adaptive_avg_pool2d, NULL);
POOL(adaptive_avg_pool2d_backward, NULL);
