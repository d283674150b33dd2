/* cuda_fp16.h - __half and __half2: storage and conversions, rounded as the hardware does (to nearest, ties
 * to even). Arithmetic goes through float, which is exact before its rounding. */
#ifndef CUDA_HOST_FP16_H
#define CUDA_HOST_FP16_H

#include "cuda_host/cuda_runtime.h"

namespace cuda_host {
unsigned short half_of(float x);
float half_to(unsigned short bits);
unsigned short bfloat_of(float x);
float bfloat_to(unsigned short bits);
unsigned short half_of(double x); /* rounded once, not first to float */
unsigned short bfloat_of(double x);
} // namespace cuda_host

struct __half_raw {
    unsigned short x;
};

struct __half {
    unsigned short bits;
    __half() = default;
    __half(float x) : bits(cuda_host::half_of(x)) {
    }
    __half(double x) : bits(cuda_host::half_of(x)) {
    }
    __half(int x) : bits(cuda_host::half_of((double)x)) {
    }
    __half(__half_raw raw) : bits(raw.x) {
    }
    operator float() const {
        return cuda_host::half_to(bits);
    }
};
using half = __half;

struct __attribute__((aligned(4))) __half2 {
    __half x, y;
};
using half2 = __half2;

static inline float __half2float(__half x) {
    return cuda_host::half_to(x.bits);
}
static inline __half __float2half_rn(float x) {
    return __half(x);
}
static inline __half __float2half(float x) {
    return __half(x);
}
static inline __half __double2half(double x) {
    return __half(x);
}
static inline __half2 __floats2half2_rn(float x, float y) {
    return {__half(x), __half(y)};
}
static inline __half2 __float22half2_rn(float2 v) {
    return {__half(v.x), __half(v.y)};
}
static inline float2 __half22float2(__half2 v) {
    return {__half2float(v.x), __half2float(v.y)};
}
static inline __half2 __halves2half2(__half x, __half y) {
    return {x, y};
}
static inline __half2 make_half2(__half x, __half y) {
    return {x, y};
}
static inline __half __low2half(__half2 v) {
    return v.x;
}
static inline __half __high2half(__half2 v) {
    return v.y;
}
static inline float __low2float(__half2 v) {
    return __half2float(v.x);
}
static inline float __high2float(__half2 v) {
    return __half2float(v.y);
}
static inline unsigned short __half_as_ushort(__half x) {
    return x.bits;
}
static inline __half __ushort_as_half(unsigned short bits) {
    return __half(__half_raw{bits});
}
static inline bool __hisnan(__half x) {
    return (x.bits & 0x7fff) > 0x7c00;
}
static inline bool __hisinf(__half x) {
    return (x.bits & 0x7fff) == 0x7c00;
}

#endif
