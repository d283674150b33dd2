/* arange.c - the row of arange. */
#include "ops/cuda/cuda.h"
#include "ops/shape/arange.h"

static const char *declines(const weft_node *n, const kernel_env *env) {
    return n->out[0].type.dtype == WEFT_F64 ? "f64" : NULL;
}

CUDA_KERNEL(arange, .declines = declines);
