/* scan.c - the rows of cumsum, cumprod and recurrence. */
#include "ops/cuda/cuda.h"
#include "ops/reduce/scan.h"

const weft_kernel cuda_cumsum = {.name = "cuda", .op = &weft_op_cumsum, CUDA_RUN(cumsum)};
const weft_kernel cuda_cumprod = {.name = "cuda", .op = &weft_op_cumprod, CUDA_RUN(cumsum)};
const weft_kernel cuda_recurrence = {.name = "cuda", .op = &weft_op_recurrence, CUDA_RUN(cumsum)};
