/* copy.cuh - copies elements between memories of any strides. */
#ifndef WEFT_OPS_CUDA_SHAPE_COPY_CUH
#define WEFT_OPS_CUDA_SHAPE_COPY_CUH

#include "ops/cuda/kit/kernel.cuh"

/* 16 bytes that repeat one element. */
struct pattern {
    uint64_t bits[2];
};
pattern pattern_of(weft_dtype dtype, double value);

/* Enqueues the copy of the elements of `shape`; strides are in elements. from NULL: writes the `fill`. */
weft_status strided_copy(const kernel_call *c, void *to, const int64_t *to_stride, const void *from,
                         const int64_t *from_stride, const tensor_type *shape,
                         const pattern *fill = NULL);

#endif
