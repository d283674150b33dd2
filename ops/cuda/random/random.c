/* random.c - rows of the random ops. */
#include "ops/cuda/cuda.h"
#include "ops/random/random.h"

CUDA_KERNEL_OF(random_uniform, random_uniform, CUDA_RUN(random_uniform));
CUDA_KERNEL_OF(random_normal, random_normal, CUDA_RUN(random_normal));
CUDA_KERNEL_OF(dropout, dropout, CUDA_RUN(dropout));
