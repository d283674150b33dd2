/* arithmetic.h - CUDA's arithmetic: names that C does not have, and the fast forms. The fast forms err as the
 * hardware does, within a few units in the last place, so that a kernel that uses one where it must not fails
 * its test. */
#ifndef CUDA_HOST_ARITHMETIC_H
#define CUDA_HOST_ARITHMETIC_H

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

/* The plain names of C, as kernels call them: ::expf and so on. */
#include <math.h>

/* The bits of x as another type of the same size. */
template <class To, class From> static inline To cuda_host_bits(From x) {
    static_assert(sizeof(To) == sizeof(From), "");
    To y;
    memcpy(&y, &x, sizeof y);
    return y;
}
static inline int __float_as_int(float x) {
    return cuda_host_bits<int>(x);
}
static inline unsigned __float_as_uint(float x) {
    return cuda_host_bits<unsigned>(x);
}
static inline float __int_as_float(int x) {
    return cuda_host_bits<float>(x);
}
static inline float __uint_as_float(unsigned x) {
    return cuda_host_bits<float>(x);
}
static inline long long __double_as_longlong(double x) {
    return cuda_host_bits<long long>(x);
}
static inline double __longlong_as_double(long long x) {
    return cuda_host_bits<double>(x);
}

/* ---- float ---- */

static inline float rsqrtf(float x) {
    return 1.0f / sqrtf(x);
}
static inline double rsqrt(double x) {
    return 1.0 / sqrt(x);
}
/* glibc declares these names itself, so macros rename ours. */
#define __expf  cuda_host_expf
#define __logf  cuda_host_logf
#define __log2f cuda_host_log2f
#define __powf  cuda_host_powf
#define __sinf  cuda_host_sinf
#define __cosf  cuda_host_cosf
static inline float cuda_host_expf(float x) {
    return exp2f(x * 1.4426950408889634f);
}
static inline float cuda_host_logf(float x) {
    return log2f(x) * 0.6931471805599453f;
}
static inline float cuda_host_log2f(float x) {
    return log2f(x);
}
static inline float cuda_host_powf(float x, float y) {
    return exp2f(y * log2f(x));
}
/* an error of the size that the hardware has */
static inline float cuda_host_sinf(float x) {
    return sinf(x) + 0x1p-22f;
}
static inline float cuda_host_cosf(float x) {
    return cosf(x) + 0x1p-22f;
}
static inline float __fdividef(float x, float y) {
    return x * (1.0f / y);
}
static inline float __frcp_rn(float x) {
    return 1.0f / x;
}
static inline float __frsqrt_rn(float x) {
    return (float)(1.0 / sqrt((double)x));
}
static inline float __fsqrt_rn(float x) {
    return sqrtf(x);
}
static inline float __fdiv_rn(float x, float y) {
    return x / y;
}
static inline float __fadd_rn(float x, float y) {
    return x + y;
}
static inline float __fsub_rn(float x, float y) {
    return x - y;
}
static inline float __fmul_rn(float x, float y) {
    return x * y;
}
static inline float __fmaf_rn(float x, float y, float z) {
    return fmaf(x, y, z);
}
static inline double __dadd_rn(double x, double y) {
    return x + y;
}
static inline double __dmul_rn(double x, double y) {
    return x * y;
}
static inline double __fma_rn(double x, double y, double z) {
    return fma(x, y, z);
}
static inline void sincospif(float x, float *s, float *c) {
    *s = (float)sin((double)x * 3.14159265358979323846);
    *c = (float)cos((double)x * 3.14159265358979323846);
}
/* C23 has these two, with other bits: since version 2.41 glibc's headers declare them. */
#define sinpif played_sinpif
#define cospif played_cospif
static inline float sinpif(float x) {
    return (float)sin((double)x * 3.14159265358979323846);
}
static inline float cospif(float x) {
    return (float)cos((double)x * 3.14159265358979323846);
}
static inline float normcdff(float x) {
    return (float)(0.5 * erfc(-(double)x * 0.70710678118654752440));
}
static inline float __saturatef(float x) {
    return x > 0 ? (x < 1 ? x : 1) : 0;
}

/* ---- conversions; out of range they saturate and NaN is 0, as on a GPU; rn, rz, rd: rounding to nearest, to
 * zero, down ---- */

template <class I> static inline I cuda_host_to_int(double x) {
    const double low = (double)std::numeric_limits<I>::min(), high = (double)std::numeric_limits<I>::max();
    if (std::isnan(x)) return 0;
    return x <= low ? std::numeric_limits<I>::min() : x >= high ? std::numeric_limits<I>::max() : (I)x;
}
static inline int __float2int_rn(float x) {
    return cuda_host_to_int<int>(nearbyint((double)x));
}
static inline int __float2int_rz(float x) {
    return cuda_host_to_int<int>(trunc((double)x));
}
static inline int __float2int_rd(float x) {
    return cuda_host_to_int<int>(floor((double)x));
}
static inline unsigned __float2uint_rn(float x) {
    return cuda_host_to_int<unsigned>(nearbyint((double)x));
}
static inline unsigned __float2uint_rz(float x) {
    return cuda_host_to_int<unsigned>(trunc((double)x));
}
static inline long long __float2ll_rn(float x) {
    return cuda_host_to_int<long long>(nearbyint((double)x));
}
static inline long long __float2ll_rz(float x) {
    return cuda_host_to_int<long long>(trunc((double)x));
}
static inline long long __double2ll_rz(double x) {
    return cuda_host_to_int<long long>(trunc(x));
}
static inline float __int2float_rn(int x) {
    return (float)x;
}
static inline float __uint2float_rn(unsigned x) {
    return (float)x;
}
static inline float __ll2float_rn(long long x) {
    return (float)x;
}
static inline float __double2float_rn(double x) {
    return (float)x;
}

/* ---- integers ---- */

static inline unsigned __umulhi(unsigned x, unsigned y) {
    return (unsigned)((uint64_t)x * y >> 32);
}
static inline int __mulhi(int x, int y) {
    return (int)((int64_t)x * y >> 32);
}
static inline unsigned long long __umul64hi(unsigned long long x, unsigned long long y) {
    return (unsigned long long)((unsigned __int128)x * y >> 64);
}
static inline int __popc(unsigned x) {
    return __builtin_popcount(x);
}
static inline int __popcll(unsigned long long x) {
    return __builtin_popcountll(x);
}
static inline int __clz(int x) {
    return x ? __builtin_clz((unsigned)x) : 32;
}
static inline int __clzll(long long x) {
    return x ? __builtin_clzll((unsigned long long)x) : 64;
}
static inline int __ffs(int x) {
    return __builtin_ffs(x);
}
static inline unsigned __brev(unsigned x) {
    unsigned y = 0;
    for (int i = 0; i < 32; i++) y |= (x >> i & 1) << (31 - i);
    return y;
}

/* CUDA's min and max take any mixture of one kind of number. */
#define CUDA_HOST_MIN_MAX(type)                                                                              \
    static inline type min(type x, type y) {                                                                 \
        return y < x ? y : x;                                                                                \
    }                                                                                                        \
    static inline type max(type x, type y) {                                                                 \
        return x < y ? y : x;                                                                                \
    }
CUDA_HOST_MIN_MAX(int)
CUDA_HOST_MIN_MAX(unsigned)
CUDA_HOST_MIN_MAX(long)
CUDA_HOST_MIN_MAX(unsigned long)
CUDA_HOST_MIN_MAX(long long)
CUDA_HOST_MIN_MAX(unsigned long long)
#undef CUDA_HOST_MIN_MAX
static inline float min(float x, float y) {
    return fminf(x, y);
}
static inline float max(float x, float y) {
    return fmaxf(x, y);
}
static inline double min(double x, double y) {
    return fmin(x, y);
}
static inline double max(double x, double y) {
    return fmax(x, y);
}

#endif
