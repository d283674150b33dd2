/* cuda_bf16.h - __nv_bfloat16 and __nv_bfloat162: storage and conversions, rounded as the hardware does (to
 * nearest, ties to even). Arithmetic goes through float, which is exact before its rounding. */
#ifndef CUDA_HOST_BF16_H
#define CUDA_HOST_BF16_H

#include "cuda_host/cuda_fp16.h"

struct __nv_bfloat16_raw {
    unsigned short x;
};

struct __nv_bfloat16 {
    unsigned short bits;
    __nv_bfloat16() = default;
    __nv_bfloat16(float x) : bits(cuda_host::bfloat_of(x)) {
    }
    __nv_bfloat16(double x) : bits(cuda_host::bfloat_of(x)) {
    }
    __nv_bfloat16(int x) : bits(cuda_host::bfloat_of((double)x)) {
    }
    __nv_bfloat16(__nv_bfloat16_raw raw) : bits(raw.x) {
    }
    operator float() const {
        return cuda_host::bfloat_to(bits);
    }
};
using nv_bfloat16 = __nv_bfloat16;

struct __attribute__((aligned(4))) __nv_bfloat162 {
    __nv_bfloat16 x, y;
};
using nv_bfloat162 = __nv_bfloat162;

static inline float __bfloat162float(__nv_bfloat16 x) {
    return cuda_host::bfloat_to(x.bits);
}
static inline __nv_bfloat16 __float2bfloat16_rn(float x) {
    return __nv_bfloat16(x);
}
static inline __nv_bfloat16 __float2bfloat16(float x) {
    return __nv_bfloat16(x);
}
static inline __nv_bfloat16 __double2bfloat16(double x) {
    return __nv_bfloat16(x);
}
static inline __nv_bfloat162 __floats2bfloat162_rn(float x, float y) {
    return {__nv_bfloat16(x), __nv_bfloat16(y)};
}
static inline __nv_bfloat162 __float22bfloat162_rn(float2 v) {
    return {__nv_bfloat16(v.x), __nv_bfloat16(v.y)};
}
static inline float2 __bfloat1622float2(__nv_bfloat162 v) {
    return {__bfloat162float(v.x), __bfloat162float(v.y)};
}
static inline __nv_bfloat162 __halves2bfloat162(__nv_bfloat16 x, __nv_bfloat16 y) {
    return {x, y};
}
static inline __nv_bfloat162 make_bfloat162(__nv_bfloat16 x, __nv_bfloat16 y) {
    return {x, y};
}
static inline __nv_bfloat16 __low2bfloat16(__nv_bfloat162 v) {
    return v.x;
}
static inline __nv_bfloat16 __high2bfloat16(__nv_bfloat162 v) {
    return v.y;
}
static inline float __low2float(__nv_bfloat162 v) {
    return __bfloat162float(v.x);
}
static inline float __high2float(__nv_bfloat162 v) {
    return __bfloat162float(v.y);
}
static inline unsigned short __bfloat16_as_ushort(__nv_bfloat16 x) {
    return x.bits;
}
static inline __nv_bfloat16 __ushort_as_bfloat16(unsigned short bits) {
    return __nv_bfloat16(__nv_bfloat16_raw{bits});
}
static inline bool __hisnan(__nv_bfloat16 x) {
    return (x.bits & 0x7fff) > 0x7f80;
}
static inline bool __hisinf(__nv_bfloat16 x) {
    return (x.bits & 0x7fff) == 0x7f80;
}

#endif
