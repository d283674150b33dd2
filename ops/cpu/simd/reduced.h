/* reduced.h - bf16 and f16 for kernels that compute in f32: rows of numbers come in as floats and go out rounded. A
 * kernel is written once, for floats; f32 tensors are read and written where they lie, the others pass through a
 * small room of the kernel's.
 *
 * Rounding is to the nearest, ties to even; NaN stays NaN; f16 overflows to infinity. All is shifts and blends, which
 * become vector code on every instruction set; only f16 has instructions of its own (F16C, AVX-512), worth 4 to 6
 * times the plain way for rows in the cache.
 */
#ifndef WEFT_OPS_CPU_SIMD_REDUCED_H
#define WEFT_OPS_CPU_SIMD_REDUCED_H

#include "graph/core/type.h"

#include <stdint.h>
#include <string.h>
#ifdef __F16C__
#include <immintrin.h>
#endif

static inline uint32_t reduced_bits(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline float reduced_float(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* ---- one number ---- */

static inline float reduced_from_bf16(uint16_t x) {
    return reduced_float((uint32_t)x << 16);
}

static inline uint16_t reduced_to_bf16(float x) {
    uint32_t bits = reduced_bits(x), rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    return x != x ? 0x7fc0 : (uint16_t)rounded;
}

/* The exponent moves by 112 in a multiplication, which also makes subnormals normal. */
static inline float reduced_from_f16(uint16_t x) {
    uint32_t bits = (uint32_t)(x & 0x7fff) << 13, sign = (uint32_t)(x & 0x8000) << 16;
    uint32_t moved = reduced_bits(reduced_float(bits) * 0x1p112f);
    return reduced_float((bits >= 0x0f800000 ? bits | 0x7f800000 : moved) | sign);
}

/* Subnormals are rounded by adding 1/2: what is left of the number stands in the sum's last bits. */
static inline uint16_t reduced_to_f16(float x) {
    uint32_t bits = reduced_bits(x) & 0x7fffffff, sign = reduced_bits(x) >> 16 & 0x8000;
    uint32_t tiny = reduced_bits(reduced_float(bits) + 0.5f) - 0x3f000000;
    uint32_t normal = (bits - 0x38000000 + 0xfff + (bits >> 13 & 1)) >> 13;
    uint32_t half = bits < 0x38800000 ? tiny : normal;
    half = bits >= 0x47800000 ? 0x7c00 : half;
    half = bits > 0x7f800000 ? 0x7e00 : half;
    return (uint16_t)(half | sign);
}

/* ---- rows ---- */

static inline void reduced_load_bf16(float *restrict to, const uint16_t *restrict from, int64_t n) {
    for (int64_t i = 0; i < n; i++) to[i] = reduced_from_bf16(from[i]);
}

static inline void reduced_store_bf16(uint16_t *restrict to, const float *restrict from, int64_t n) {
    for (int64_t i = 0; i < n; i++) to[i] = reduced_to_bf16(from[i]);
}

static inline void reduced_load_f16(float *restrict to, const uint16_t *restrict from, int64_t n) {
    int64_t i = 0;
#if defined __AVX512F__
    for (; i + 16 <= n; i += 16)
        _mm512_storeu_ps(to + i, _mm512_cvtph_ps(_mm256_loadu_si256((const void *)(from + i))));
#elif defined __F16C__
    for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps(to + i, _mm256_cvtph_ps(_mm_loadu_si128((const void *)(from + i))));
#endif
    for (; i < n; i++) to[i] = reduced_from_f16(from[i]);
}

static inline void reduced_store_f16(uint16_t *restrict to, const float *restrict from, int64_t n) {
    int64_t i = 0;
#if defined __AVX512F__
    for (; i + 16 <= n; i += 16)
        _mm256_storeu_si256((void *)(to + i),
                            _mm512_cvtps_ph(_mm512_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT));
#elif defined __F16C__
    for (; i + 8 <= n; i += 8)
        _mm_storeu_si128((void *)(to + i),
                         _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT));
#endif
    for (; i < n; i++) to[i] = reduced_to_f16(from[i]);
}

/* What these rows can be of. */
static inline bool dtype_is_row(weft_dtype dtype) {
    return dtype == WEFT_F32 || dtype_is_reduced(dtype);
}

/* Elements [first, first + n) of a tensor as floats. */
static inline void reduced_load(float *restrict to, const void *data, weft_dtype dtype, int64_t first,
                                int64_t n) {
    if (dtype == WEFT_BF16)
        reduced_load_bf16(to, (const uint16_t *)data + first, n);
    else if (dtype == WEFT_F16)
        reduced_load_f16(to, (const uint16_t *)data + first, n);
    else
        memcpy(to, (const float *)data + first, (size_t)n * sizeof *to);
}

static inline void reduced_store(void *data, weft_dtype dtype, int64_t first, const float *restrict from,
                                 int64_t n) {
    if (dtype == WEFT_BF16)
        reduced_store_bf16((uint16_t *)data + first, from, n);
    else if (dtype == WEFT_F16)
        reduced_store_f16((uint16_t *)data + first, from, n);
    else
        memcpy((float *)data + first, from, (size_t)n * sizeof *from);
}

/* One element at any place. */
static inline float reduced_get(const void *data, weft_dtype dtype, int64_t at) {
    return dtype == WEFT_BF16  ? reduced_from_bf16(((const uint16_t *)data)[at])
           : dtype == WEFT_F16 ? reduced_from_f16(((const uint16_t *)data)[at])
                               : ((const float *)data)[at];
}

static inline void reduced_put(void *data, weft_dtype dtype, int64_t at, float value) {
    if (dtype == WEFT_BF16)
        ((uint16_t *)data)[at] = reduced_to_bf16(value);
    else if (dtype == WEFT_F16)
        ((uint16_t *)data)[at] = reduced_to_f16(value);
    else
        ((float *)data)[at] = value;
}

/* ---- rows where they lie, or in a room of n floats ---- */

/* To read: f32 in place, others as floats in `room`. */
static inline const float *row_read(const void *data, weft_dtype dtype, int64_t first, int64_t n,
                                    float *room) {
    if (dtype == WEFT_F32) return (const float *)data + first;
    reduced_load(room, data, dtype, first, n);
    return room;
}

/* Where results are to be put before row_write, which brings them home. */
static inline float *row_place(void *data, weft_dtype dtype, int64_t first, float *room) {
    return dtype == WEFT_F32 ? (float *)data + first : room;
}

static inline void row_write(void *data, weft_dtype dtype, int64_t first, int64_t n, const float *from) {
    if (dtype != WEFT_F32) reduced_store(data, dtype, first, from, n);
}

/* Floats of such a room: whole cache lines, and none for f32. */
static inline int64_t row_room(weft_dtype dtype, int64_t n) {
    return dtype == WEFT_F32 ? 0 : (n + 15) / 16 * 16;
}

#endif
