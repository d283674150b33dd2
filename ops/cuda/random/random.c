/* random.c - rows of the random ops. */
#include "ops/cuda/cuda.h"
#include "ops/random/random.h"

const weft_kernel cuda_random_uniform = {
    .name = "cuda", .op = &weft_op_random_uniform, CUDA_RUN(random_uniform)};
const weft_kernel cuda_random_normal = {
    .name = "cuda", .op = &weft_op_random_normal, CUDA_RUN(random_normal)};
const weft_kernel cuda_dropout = {.name = "cuda", .op = &weft_op_dropout, CUDA_RUN(dropout)};
