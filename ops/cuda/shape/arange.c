/* arange.c - the row of arange. */
#include "ops/cuda/cuda.h"
#include "ops/shape/arange.h"

static const char *declines(const weft_node *n, const kernel_env *env) {
    (void)env;
    return n->out[0].type.dtype == WEFT_F64 ? "f64" : NULL;
}

const weft_kernel cuda_arange = {
    .name = "cuda", .op = &weft_op_arange, .declines = declines, CUDA_RUN(arange)};
