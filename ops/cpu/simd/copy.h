/* copy.h - the copy of elements between memories of any strides, for other files of this folder. */
#ifndef WEFT_OPS_CPU_SIMD_COPY_H
#define WEFT_OPS_CPU_SIMD_COPY_H

#include "ops/cpu/simd/simd.h"

/* Copies the elements of `shape`; strides are in elements; those of `from` may be 0 or negative. At most
 * `threads` take part: small copies use fewer. */
void SIMD(strided_copy)(void *to, const int64_t *to_stride, const void *from, const int64_t *from_stride,
                        const tensor_type *shape, int threads);

#endif
