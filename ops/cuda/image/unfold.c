/* unfold.c - rows of unfold and fold. */
#include "ops/cuda/kit/row_kit.h"

CUDA_KERNEL(unfold, .declines = declines_types);
CUDA_KERNEL(fold, .declines = declines_types);
