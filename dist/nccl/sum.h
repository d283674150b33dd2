/* sum.h - what NCCL has no call for, as kernels: the ordered sum of dist/core/ordered.h, and bf16 on the wire. */
#ifndef WEFT_DIST_NCCL_SUM_H
#define WEFT_DIST_NCCL_SUM_H

#include "weft/model.h"

#include <cuda_runtime_api.h>

/* into[0, count) becomes the sum of `world` contributions in the order of the aligned tree: number r lies at
 * from + r * stride elements, but for `own`, which is `into` itself. `wire` bf16: the others are bf16, own and the sum are
 * rounded to it; else 0. dtype: f32, f64 or bf16. */
cudaError_t nccl_sum(cudaStream_t stream, weft_dtype dtype, weft_dtype wire, void *into, const void *from,
                     size_t stride, size_t count, int world, int own);
/* Between f32 and bf16. */
cudaError_t nccl_to_bf16(cudaStream_t stream, void *to, const float *from, size_t count);
cudaError_t nccl_from_bf16(cudaStream_t stream, float *to, const void *from, size_t count);

#endif
