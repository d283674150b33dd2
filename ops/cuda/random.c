/* random.c - rows of the random ops. */
#include "ops/cuda/cuda.h"
#include "ops/random.h"

static const char *dropout_declines(const weft_node *n, const kernel_env *env) {
    (void)env;
    const weft_value *x = n->in[0], *y = &n->out[0];
    if (x->type.ndim == 4 ? !lies_channels_last(x) || !lies_channels_last(y)
                          : !lies_row_major(x) || !lies_row_major(y))
        return "elements are not counted in the order of memory";
    return NULL;
}

const weft_kernel cuda_random_uniform = {
    .name = "cuda", .op = &weft_op_random_uniform, CUDA_RUN(random_uniform)};
const weft_kernel cuda_random_normal = {
    .name = "cuda", .op = &weft_op_random_normal, CUDA_RUN(random_normal)};
const weft_kernel cuda_dropout = {
    .name = "cuda", .op = &weft_op_dropout, .declines = dropout_declines, CUDA_RUN(dropout)};
