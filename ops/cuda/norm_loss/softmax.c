/* softmax.c - rows of softmax and log_softmax. */
#include "ops/cuda/kit/row_kit.h"
#include "ops/norm_loss/norm.h"

#define SOFTMAX(which)                                                                                       \
    const weft_kernel cuda_##which = {                                                                       \
        .name = "cuda", .op = &weft_op_##which, .declines = declines_types, CUDA_RUN(which)}
SOFTMAX(softmax);
SOFTMAX(log_softmax);
