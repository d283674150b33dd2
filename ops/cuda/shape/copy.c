/* copy.c - rows of the ops that only move elements of any type (views that need a copy after all, concat,
 * pad, reorder between layouts, assignment to variables and buckets), and of constant. */
#include "ops/cuda/cuda.h"
#include "ops/kit/ops.h"

#define ROW(title, runs)                                                                                     \
    const weft_kernel cuda_##title = {                                                                       \
        .name = "cuda", .op = &weft_op_##title, .strided_in = ~0u, CUDA_RUN(runs)};
/* One run serves all ops that read an operand through the op's view(), another all that keep the operand's
 * shape. */
ROW(permute, permute)
ROW(slice, permute)
ROW(broadcast_to, permute)
ROW(reorder, reorder)
ROW(assign, reorder)
ROW(sum_ranks, reorder)
ROW(reshape, reshape)
ROW(concat, concat)
ROW(pad, pad)
ROW(constant, constant)
#undef ROW

/* The operands are in the result already where the planner could place them there. */
const weft_kernel cuda_bucket = {.name = "cuda", .op = &weft_op_bucket, CUDA_RUN(bucket)};
