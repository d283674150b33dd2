/* scan.c - the rows of cumsum, cumprod and recurrence. */
#include "ops/cuda/cuda.h"
#include "ops/reduce/scan.h"

CUDA_KERNEL_OF(cumsum, cumsum, CUDA_RUN(cumsum));
CUDA_KERNEL_OF(cumprod, cumprod, CUDA_RUN(cumsum));
CUDA_KERNEL_OF(recurrence, recurrence, CUDA_RUN(cumsum));
