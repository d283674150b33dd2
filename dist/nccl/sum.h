/* sum.h - kernels for what NCCL has no call for: the ordered sum of dist/core/ordered.h, and bf16 on the
 * wire. */
#ifndef WEFT_DIST_NCCL_SUM_H
#define WEFT_DIST_NCCL_SUM_H

#include "weft/model.h"

#include <cuda_runtime_api.h>

/* into[0, count) becomes the sum of `world` contributions in the order of the aligned tree. Contribution r is
 * at from + r * stride (elements), but contribution `own` is `into` itself. dtype: f32, f64 or bf16. wire:
 * WEFT_BF16 if the others' contributions are bf16 (then own and the sum are rounded to it too), else 0. */
cudaError_t nccl_sum(cudaStream_t stream, weft_dtype dtype, weft_dtype wire, void *into, const void *from,
                     size_t stride, size_t count, int world, int own);
/* Conversions between f32 and bf16, round to nearest even. */
cudaError_t nccl_to_bf16(cudaStream_t stream, void *to, const float *from, size_t count);
cudaError_t nccl_from_bf16(cudaStream_t stream, float *to, const void *from, size_t count);

#endif
