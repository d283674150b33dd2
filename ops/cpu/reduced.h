/* reduced.h - bf16 and f16 for kernels that compute in f32: rows of numbers are loaded as floats and stored
 * rounded. A kernel is written once, for floats: it reads and writes f32 tensors in place, and reduced ones
 * by way of a small buffer (`room`) of its own.
 *
 * Rounding is to the nearest, ties to even; NaN stays NaN; f16 overflows to infinity. The conversions are
 * shifts and blends, which become vector code on every instruction set; only f16 has instructions of its own
 * (F16C, AVX-512), which are 4 to 6 times as fast for rows in the cache. */
#ifndef WEFT_OPS_CPU_REDUCED_H
#define WEFT_OPS_CPU_REDUCED_H

#include "graph/core/op.h"

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

/* bf16 is the upper half of an f32. */
static inline float reduced_from_bf16(uint16_t x) {
    return reduced_float((uint32_t)x << 16);
}

/* 0x7fff and the last bit that stays: to the nearest, ties to even. */
static inline uint16_t reduced_to_bf16(float x) {
    uint32_t bits = reduced_bits(x), rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    return x != x ? 0x7fc0 : (uint16_t)rounded;
}

/* Multiplying by 2^112 moves the exponent from f16's bias (15) to f32's (127), and makes subnormals
 * normal. */
static inline float reduced_from_f16(uint16_t x) {
    uint32_t bits = (uint32_t)(x & 0x7fff) << 13, sign = (uint32_t)(x & 0x8000) << 16;
    uint32_t moved = reduced_bits(reduced_float(bits) * 0x1p112f);
    return reduced_float((bits >= 0x0f800000 ? bits | 0x7f800000 : moved) | sign);
}

/* A subnormal result is rounded by adding 1/2: the bits of the result are then the last bits of the sum. */
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

/* Rows are contiguous and need no alignment. */
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

/* The element types that rows may have. */
static inline bool dtype_is_row(weft_dtype dtype) {
    return dtype == WEFT_F32 || dtype_is_reduced(dtype);
}

/* Elements [first, first + n) of contiguous data as floats; reduced_store is the inverse, with rounding. */
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

/* One element, for strides that are not 1. */
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

/* ---- rows in place, or in a room of n floats ---- */

/* n elements of t from `first` on, to read: f32 in place, other types as floats in `room`. */
static inline const float *row_read(const tensor *t, int64_t first, int64_t n, float *room) {
    if (t->type.dtype == WEFT_F32) return (const float *)t->data + first;
    reduced_load(room, t->data, t->type.dtype, first, n);
    return room;
}

/* Where a kernel writes its results before it calls row_write, which stores those that went to `room`. */
static inline float *row_place(const tensor *t, int64_t first, float *room) {
    return t->type.dtype == WEFT_F32 ? (float *)t->data + first : room;
}

static inline void row_write(const tensor *t, int64_t first, int64_t n, const float *from) {
    if (t->type.dtype != WEFT_F32) reduced_store(t->data, t->type.dtype, first, from, n);
}

/* Floats of a room for n numbers: whole cache lines; 0 for f32, which needs none. */
static inline int64_t row_room(weft_dtype dtype, int64_t n) {
    return dtype == WEFT_F32 ? 0 : (n + 15) / 16 * 16;
}

#endif
