/* vecmath.h - float functions as straight-line C: no calls, no branches, no tables, so that the compiler
 * makes vector code of a loop over them on every instruction set. tests/ops/test_vecmath.c compares each with
 * libm.
 *
 * Conventions: NaN passes through; results that leave the range become infinity or (gradually) zero; `c ? a :
 * b` is always a blend, so both sides are computed, and the side that is dropped may be garbage. Sources:
 * exp, log and the inner part of tanh are Cephes' expf, logf and tanhf (S. Moshier, public domain); erf is N.
 * Juffa's two-range minimax form (both errors are below 1 ulp with fused multiply-add). */
#ifndef WEFT_OPS_CPU_SIMD_VECMATH_H
#define WEFT_OPS_CPU_SIMD_VECMATH_H

#include <math.h>
#include <stdint.h>
#include <string.h>

/* The polynomials are fused where the processor can; elsewhere they have one more rounding a term. */
#ifdef __FMA__
#define VM_FMA(a, b, c) __builtin_fmaf(a, b, c)
#else
#define VM_FMA(a, b, c) ((a) * (b) + (c))
#endif
#define VM_INF (__builtin_inff())
#define VM_NAN (__builtin_nanf(""))

static inline int32_t vm_bits(float x) {
    int32_t i;
    memcpy(&i, &x, sizeof i);
    return i;
}

static inline float vm_float(int32_t i) {
    float x;
    memcpy(&x, &i, sizeof x);
    return x;
}

static inline float vm_abs(float x) {
    return vm_float(vm_bits(x) & 0x7fffffff);
}

static inline float vm_sqrt(float x) {
    return __builtin_sqrtf(x);
}

/* These run element by element in libm: powers, remainders, angles, hyperbolic functions. */
static inline float vm_pow(float x, float y) {
    return powf(x, y);
}

static inline float vm_fmod(float x, float y) {
    return fmodf(x, y);
}

/* The remainder with the sign of y. */
static inline float vm_remainder(float x, float y) {
    float left = fmodf(x, y);
    return left != 0.0f && (left < 0.0f) != (y < 0.0f) ? left + y : left;
}

static inline float vm_sin(float x) {
    return sinf(x);
}

static inline float vm_cos(float x) {
    return cosf(x);
}

static inline float vm_tan(float x) {
    return tanf(x);
}

static inline float vm_asin(float x) {
    return asinf(x);
}

static inline float vm_acos(float x) {
    return acosf(x);
}

static inline float vm_atan(float x) {
    return atanf(x);
}

static inline float vm_sinh(float x) {
    return sinhf(x);
}

static inline float vm_cosh(float x) {
    return coshf(x);
}

static inline float vm_asinh(float x) {
    return asinhf(x);
}

static inline float vm_acosh(float x) {
    return acoshf(x);
}

static inline float vm_atanh(float x) {
    return atanhf(x);
}

static inline float vm_atan2(float x, float y) {
    return atan2f(x, y);
}

/* One instruction each from SSE4.1 on. */
static inline float vm_floor(float x) {
    return __builtin_floorf(x);
}

/* floor_quotient of ops/pointwise/whole_quotients.c. */
static inline float vm_floor_divide(float x, float y) {
    float left = fmodf(x, y), turned = left != 0.0f && (left < 0.0f) != (y < 0.0f) ? 1.0f : 0.0f;
    float times = (x - left) / y - turned, whole = vm_floor(times);
    if (!(y < 0.0f || y > 0.0f)) return x / y; /* y == 0 would let the compiler forget the sign of -0 */
    if (times == 0.0f) return copysignf(0.0f, x / y);
    return times - whole > 0.5f ? whole + 1.0f : whole;
}

static inline float vm_round(float x) {
    return __builtin_rintf(x);
}

static inline float vm_trunc(float x) {
    return __builtin_truncf(x);
}

static inline int vm_is_infinite(float x) {
    return vm_abs(x) == VM_INF;
}

static inline float vm_copysign(float x, float sign) {
    return vm_float((vm_bits(x) & 0x7fffffff) | (vm_bits(sign) & INT32_MIN));
}

/* 2^n for -126 <= n <= 127. Unsigned arithmetic, so that a garbage n (from NaN) shifts without undefined
 * behaviour. */
static inline float vm_power2(int32_t n) {
    return vm_float((int32_t)((uint32_t)(n + 127) << 23));
}

/* e^x = 2^n e^r with |r| <= ln(2)/2. Adding 1.5 * 2^23 leaves the integer n in the low bits. 2^n is applied
 * as two factors, so that the ends of the range overflow to infinity and underflow gradually. */
static inline float vm_exp(float x) {
    const float round = 12582912.0f;
    x = x > 90.0f ? 90.0f : x;
    x = x < -105.0f ? -105.0f : x;
    float shifted = VM_FMA(x, 1.44269504088896341f, round);
    float n = shifted - round;
    /* r = x - n ln 2, with ln 2 in two parts (Cody and Waite): the first has few bits, so n times it is
     * exact */
    float r = VM_FMA(n, -0.693359375f, x);
    r = VM_FMA(n, 2.12194440e-4f, r);
    float p = 1.9875691500e-4f;
    p = VM_FMA(p, r, 1.3981999507e-3f);
    p = VM_FMA(p, r, 8.3334519073e-3f);
    p = VM_FMA(p, r, 4.1665795894e-2f);
    p = VM_FMA(p, r, 1.6666665459e-1f);
    p = VM_FMA(p, r, 5.0000001201e-1f);
    p = VM_FMA(p, r * r, r) + 1.0f;
    /* 0x4b400000: the bits of 1.5 * 2^23 */
    int32_t whole = vm_bits(shifted) - 0x4b400000, half = whole >> 1;
    return p * vm_power2(half) * vm_power2(whole - half);
}

/* log x = log m + e log 2 with m in [sqrt(1/2), sqrt 2); subnormal x is first scaled by 2^23. */
static inline float vm_log(float x) {
    int tiny = x < 1.17549435e-38f;
    uint32_t bits = (uint32_t)vm_bits(tiny ? x * 8388608.0f : x);
    /* 0x3f3504f3: the bits of sqrt(1/2) */
    int32_t exponent = (int32_t)(bits - 0x3f3504f3u) >> 23;
    float f = vm_float((int32_t)(bits - ((uint32_t)exponent << 23))) - 1.0f, z = f * f;
    float e = (float)exponent - (tiny ? 23.0f : 0.0f);
    float p = 7.0376836292e-2f;
    p = VM_FMA(p, f, -1.1514610310e-1f);
    p = VM_FMA(p, f, 1.1676998740e-1f);
    p = VM_FMA(p, f, -1.2420140846e-1f);
    p = VM_FMA(p, f, 1.4249322787e-1f);
    p = VM_FMA(p, f, -1.6668057665e-1f);
    p = VM_FMA(p, f, 2.0000714765e-1f);
    p = VM_FMA(p, f, -2.4999993993e-1f);
    p = VM_FMA(p, f, 3.3333331174e-1f);
    float y = p * f * z;
    /* e ln 2 in two parts again, the small one first */
    y = VM_FMA(e, -2.12194440e-4f, y);
    y = VM_FMA(-0.5f, z, y);
    y = VM_FMA(e, 0.693359375f, f + y);
    y = x == VM_INF ? x : y;
    y = x == 0.0f ? -VM_INF : y;
    return x >= 0.0f ? y : VM_NAN;
}

/* log(1 + x): adds back, to first order, what the rounding of u = 1 + x lost. */
static inline float vm_log1p(float x) {
    float u = 1.0f + x;
    float y = vm_log(u) + (x - (u - 1.0f)) / u;
    y = u == VM_INF ? u : y;
    y = u == 0.0f ? -VM_INF : y;
    return u == 1.0f ? x : y;
}

/* 1 - 2 / (e^2|x| + 1); near 0, where that cancels, an odd polynomial. */
static inline float vm_tanh(float x) {
    float t = vm_abs(x), z = x * x;
    float p = -5.70498872745e-3f;
    p = VM_FMA(p, z, 2.06390887954e-2f);
    p = VM_FMA(p, z, -5.37397155531e-2f);
    p = VM_FMA(p, z, 1.33314422036e-1f);
    p = VM_FMA(p, z, -3.33332819422e-1f);
    float inner = VM_FMA(p * z, x, x);
    float outer = vm_copysign(1.0f - 2.0f / (vm_exp(t + t) + 1.0f), x);
    return t < 0.625f ? inner : outer;
}

/* e^x - 1 for x <= 1, by tanh, which keeps the digits near 0: 2 t / (1 - t) with t = tanh(x / 2). */
static inline float vm_expm1(float x) {
    float t = vm_tanh(0.5f * x);
    return 2.0f * t / (1.0f - t);
}

static inline float vm_sigmoid(float x) {
    return 1.0f / (1.0f + vm_exp(-x));
}

/* tanh(log(1 + e^x)) = n / (n + 2) with n = e^x (e^x + 2); from x = 20 on it is 1. */
static inline float vm_mish_gate(float x) {
    float e = vm_exp(x > 20.0f ? 20.0f : x), n = e * (e + 2.0f);
    return n / (n + 2.0f);
}

/* x| > 475/512: 1 - e^q(|x|); below, an odd polynomial. */
static inline float vm_erf(float x) {
    float t = vm_abs(x), s = x * x;
    float q = VM_FMA(-1.72853470e-5f, t, 3.83197126e-4f);
    float u = VM_FMA(-3.88396438e-3f, t, 2.42546219e-2f);
    q = VM_FMA(q, s, u);
    q = VM_FMA(q, t, -1.06777877e-1f);
    q = VM_FMA(q, t, -6.34846687e-1f);
    q = VM_FMA(q, t, -1.28717512e-1f);
    q = VM_FMA(q, t, -t);
    float outer = vm_copysign(1.0f - vm_exp(q), x);
    float p = -5.96761703e-4f;
    p = VM_FMA(p, s, 4.99119423e-3f);
    p = VM_FMA(p, s, -2.67681349e-2f);
    p = VM_FMA(p, s, 1.12819925e-1f);
    p = VM_FMA(p, s, -3.76125336e-1f);
    p = VM_FMA(p, s, 1.28379166e-1f);
    float inner = VM_FMA(p, x, x);
    return t > 0.927734375f ? outer : inner;
}

/* gelu and its slope, by erf and by tanh; the formulas are in ops/pointwise/gelu*.c. (1 + tanh u) / 2 is
 * sigmoid(2u), which saves a polynomial and a blend. */
static inline float vm_gelu(float x) {
    return 0.5f * x * (1.0f + vm_erf(x * 0.70710678118654752f));
}

static inline float vm_gelu_slope(float x) {
    float density = 0.39894228040143268f * vm_exp(-0.5f * x * x);
    return VM_FMA(x, density, 0.5f + 0.5f * vm_erf(x * 0.70710678118654752f));
}

#define VM_GELU_K 1.5957691216057308f /* 2 sqrt(2/pi) */

static inline float vm_gelu_tanh(float x) {
    return x * vm_sigmoid(VM_GELU_K * VM_FMA(0.044715f * x * x, x, x));
}

static inline float vm_gelu_tanh_slope(float x) {
    float s = vm_sigmoid(VM_GELU_K * VM_FMA(0.044715f * x * x, x, x));
    float slope = VM_GELU_K * VM_FMA(3.0f * 0.044715f * x, x, 1.0f);
    float bend = x * (1.0f - s) * slope;
    return VM_FMA(s, bend, s);
}

#endif
