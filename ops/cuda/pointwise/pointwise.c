/* pointwise.c - rows of all pointwise ops and of `fused`, with one open and run (pointwise.cu). Every mixture
 * of types is taken. */
#include "ops/cuda/cuda.h"
#include "ops/cuda/pointwise/fuse.h"
#include "ops/kit/ops.h"

static const char *declines(const weft_node *n, const kernel_env *env) {
    fuse_plan p;
    return fuse_plan_of(n, &p);
}

/* data_rule: of the ops that divide integers. */
#define ROW(title, of)                                                                                       \
    CUDA_KERNEL_OF(title, of, .strided_in = ~0u, .declines = declines, CUDA_OPEN(pointwise),                 \
                   .data_rule = "an integer has no quotient by 0");
#define X(op, operands, numbers, expression) ROW(pointwise_##op, op)
#include "ops/pointwise/pointwise_list.h"
#undef X
ROW(pointwise, fused)
