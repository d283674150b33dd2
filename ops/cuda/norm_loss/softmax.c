/* softmax.c - rows of softmax and log_softmax. */
#include "ops/cuda/kit/row_kit.h"
#include "ops/norm_loss/norm.h"

CUDA_KERNEL(softmax, .declines = declines_types);
CUDA_KERNEL(log_softmax, .declines = declines_types);
