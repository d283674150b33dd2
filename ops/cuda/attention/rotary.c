/* rotary.c - the row of rotary. */
#include "ops/attention/rotary.h"

#include "ops/cuda/kit/row_kit.h"

static const char *declines(const weft_node *n, const kernel_env *env) {
    const tensor_type *x = &n->in[0]->type;
    int64_t head = x->shape[x->ndim - 1] * x->shape[x->ndim - 2];
    if (head > 1 << 30 || type_elements(x) > head << 20)
        return "more than 2^20 heads, or 2^30 elements in one";
    return declines_types(n, env);
}

CUDA_KERNEL(rotary, .strided_in = 1, .declines = declines);
