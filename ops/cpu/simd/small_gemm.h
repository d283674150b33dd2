/* small_gemm.h - matrix products of blocks that fit the cache, for attention and recurrent steps: C = A B or
 * C += A B with
 *     A [m, k] at any strides,
 *     B [k, n] in panels of GEMM_NR columns (panel p holds the rows of its columns, one after the other),
 *     C [m, n] row-major;
 * m is a multiple of GEMM_MR (except for gemm_few) and n of GEMM_NR: callers pad their buffers, so there is
 * no code for edges.
 *
 * A tile of C, GEMM_MR rows by two vectors, stays in registers over k: 24 sums of 32 registers with AVX-512,
 * 12 of 16 with AVX2. Intrinsics fuse multiply and add (the build forbids the compiler to fuse by itself).
 * Each element is summed in the order of k, in parts of GEMM_KC. */
#ifndef WEFT_OPS_CPU_SIMD_SMALL_GEMM_H
#define WEFT_OPS_CPU_SIMD_SMALL_GEMM_H

#include "ops/cpu/simd/simd.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#if defined __AVX512F__
#include <immintrin.h>
/* GEMM_W: floats of a vector. */
enum { GEMM_W = 16, GEMM_MR = 12 };
typedef __m512 vfloat;
#define VFLOAT_FMA(a, b, c) _mm512_fmadd_ps(_mm512_set1_ps(a), b, c)
#elif defined __FMA__
#include <immintrin.h>
enum { GEMM_W = 8, GEMM_MR = 6 };
typedef __m256 vfloat;
#define VFLOAT_FMA(a, b, c) _mm256_fmadd_ps(_mm256_set1_ps(a), b, c)
#else /* plain C: the compiler's vectors, multiply and add apart */
enum { GEMM_W = 4, GEMM_MR = 6 };
typedef float vfloat __attribute__((vector_size(16)));
#define VFLOAT_FMA(a, b, c) ((a) * (b) + (c))
#endif
/* KC: a panel of B is at most 32 KiB, so it fits the first cache. */
enum { GEMM_NR = 2 * GEMM_W, GEMM_KC = 256 };

static inline vfloat vfloat_load(const float *p) {
    vfloat v;
    memcpy(&v, p, sizeof v);
    return v;
}

static inline void vfloat_store(float *p, vfloat v) {
    memcpy(p, &v, sizeof v);
}

/* One tile of C, `m` rows (a constant, at most GEMM_MR), over k. a advances by `column` floats for each step
 * of k and by `row` from row to row; b is a panel. */
static inline __attribute__((always_inline)) void gemm_tile(int m, int64_t k, const float *restrict a,
                                                            int64_t row, int64_t column,
                                                            const float *restrict b, float *restrict c,
                                                            int64_t c_row, bool add) {
    vfloat sum[GEMM_MR][2];
    SIMD_UNROLL
    for (int i = 0; i < m; i++) sum[i][0] = sum[i][1] = (vfloat){0};
    for (int64_t l = 0; l < k; l++) {
        vfloat b0 = vfloat_load(b), b1 = vfloat_load(b + GEMM_W);
        SIMD_UNROLL
        for (int i = 0; i < m; i++) {
            float x = a[i * row];
            sum[i][0] = VFLOAT_FMA(x, b0, sum[i][0]);
            sum[i][1] = VFLOAT_FMA(x, b1, sum[i][1]);
        }
        a += column;
        b += GEMM_NR;
    }
    SIMD_UNROLL
    for (int i = 0; i < m; i++)
        for (int j = 0; j < 2; j++) {
            float *to = c + i * c_row + j * GEMM_W;
            if (add) sum[i][j] += vfloat_load(to);
            vfloat_store(to, sum[i][j]);
        }
}

/* The whole product, in slices of GEMM_KC along k; `panel` is the floats from one panel of B to the next.
 * Inlined, so that `row` or `column` is the constant 1. */
static inline __attribute__((always_inline)) void gemm_any(int64_t m, int64_t n, int64_t k, const float *a,
                                                           int64_t row, int64_t column, const float *b,
                                                           int64_t panel, float *c, int64_t c_row, bool add) {
    for (int64_t l = 0; l < k; l += GEMM_KC) {
        int64_t depth = k - l < GEMM_KC ? k - l : GEMM_KC;
        for (int64_t j = 0; j < n; j += GEMM_NR)
            for (int64_t i = 0; i < m; i += GEMM_MR) {
                const float *from = a + i * row + l * column, *with = b + j / GEMM_NR * panel + l * GEMM_NR;
                float *to = c + i * c_row + j;
                /* the first slice overwrites C, later ones add */
                if (add || l)
                    gemm_tile(GEMM_MR, depth, from, row, column, with, to, c_row, true);
                else
                    gemm_tile(GEMM_MR, depth, from, row, column, with, to, c_row, false);
            }
    }
}

/* A is row-major, its rows `a_row` floats apart. */
static __attribute__((noinline, unused)) void gemm_rows(int64_t m, int64_t n, int64_t k, const float *a,
                                                        int64_t a_row, const float *b, int64_t panel,
                                                        float *c, int64_t c_row) {
    gemm_any(m, n, k, a, a_row, 1, b, panel, c, c_row, false);
}

/* C += A^T' B: A is the transpose of a row-major [k, m] matrix whose rows are `a_row` floats apart. */
static __attribute__((noinline, unused)) void gemm_transposed_add(int64_t m, int64_t n, int64_t k,
                                                                  const float *a, int64_t a_row,
                                                                  const float *b, int64_t panel, float *c,
                                                                  int64_t c_row) {
    gemm_any(m, n, k, a, 1, a_row, b, panel, c, c_row, true);
}

/* A tile of m rows, where m is not a constant. */
static inline void gemm_tile_of(int64_t m, int64_t k, const float *a, int64_t a_row, const float *b, float *c,
                                int64_t c_row, bool add) {
#define TILE(rows)                                                                                           \
    case rows:                                                                                               \
        gemm_tile(rows, k, a, a_row, 1, b, c, c_row, add);                                                   \
        break
    switch (m) {
        TILE(1);
        TILE(2);
        TILE(3);
        TILE(4);
        TILE(5);
        TILE(6);
#if defined __AVX512F__
        TILE(7);
        TILE(8);
        TILE(9);
        TILE(10);
        TILE(11);
        TILE(12);
#endif
    default:
        break;
    }
#undef TILE
}

/* gemm_rows for any m: the rows are divided into tiles of nearly the same height. An element's bits do not
 * depend on the division. */
static __attribute__((noinline, unused)) void gemm_few(int64_t m, int64_t n, int64_t k, const float *a,
                                                       int64_t a_row, const float *b, int64_t panel, float *c,
                                                       int64_t c_row) {
    int64_t tiles = (m + GEMM_MR - 1) / GEMM_MR;
    for (int64_t l = 0; l < k; l += GEMM_KC) {
        int64_t depth = k - l < GEMM_KC ? k - l : GEMM_KC;
        for (int64_t j = 0; j < n; j += GEMM_NR)
            for (int64_t tile = 0; tile < tiles; tile++) {
                int64_t i = m * tile / tiles, past = m * (tile + 1) / tiles;
                gemm_tile_of(past - i, depth, a + i * a_row + l, a_row, b + j / GEMM_NR * panel + l * GEMM_NR,
                             c + i * c_row + j, c_row, l > 0);
            }
    }
}

#endif
