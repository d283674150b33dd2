/* copy.cuh - elements from one place to another, both at any strides. */
#ifndef WEFT_OPS_CUDA_SHAPE_COPY_CUH
#define WEFT_OPS_CUDA_SHAPE_COPY_CUH

#include "ops/cuda/kit/kernel.cuh"

/* Elements of `shape`: from `from` to `to`. from NULL: zeros. */
weft_status strided_copy(const kernel_call *c, void *to, const int64_t *to_stride, const void *from,
                         const int64_t *from_stride, const tensor_type *shape);

#endif
