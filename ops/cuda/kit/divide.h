/* divide.h - division of a thread's index by a length that the host knows: n / length = (n + high half of (n
 * magic)) >> shift for n below 2^31 (Granlund and Montgomery, "Division by invariant integers using
 * multiplication", PLDI 1994). A GPU has no instruction for integer division. */
#ifndef WEFT_OPS_CUDA_KIT_DIVIDE_H
#define WEFT_OPS_CUDA_KIT_DIVIDE_H

#include <stdint.h>

typedef struct divisor {
    uint64_t length;
    uint32_t magic, shift; /* magic 0: numbers may be 2^31 or more, and are divided plainly */
} divisor;

/* The divisor for numbers below `most`. */
static inline divisor divisor_of(int64_t length, int64_t most) {
    divisor d = {(uint64_t)length, 0, 0};
    if (most > INT32_MAX) return d;
    while (((uint64_t)1 << d.shift) < d.length) d.shift++;
    d.magic = (uint32_t)((((uint64_t)1 << 32) * (((uint64_t)1 << d.shift) - d.length)) / d.length + 1);
    return d;
}

#ifdef __CUDACC__
#define DIVIDE_INLINE __device__ static inline
#else
#define DIVIDE_INLINE static inline
#endif

/* m and the high half are each below 2^31, so the sum fits 32 bits. */
DIVIDE_INLINE uint64_t divide(uint64_t n, const divisor *d) {
    if (d->magic == 0) return n / d->length;
    uint32_t m = (uint32_t)n;
    return (uint32_t)(((uint64_t)m * d->magic >> 32) + m) >> d->shift;
}

#endif
