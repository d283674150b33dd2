/* fold.h - the loops of a reduction for each kind: along a row, and rows joined to each other, in f32. They
 * are made from one macro by how two numbers become one.
 *
 * Joins are commutative and associative except for rounding; a row goes by lanes, rows four at a time, so the
 * order of a result depends on shapes alone. */
#ifndef WEFT_OPS_CPU_SIMD_FOLD_H
#define WEFT_OPS_CPU_SIMD_FOLD_H

#include "ops/reduce/reduce.h"

#include <math.h>

enum { LANES = 64 /* partial results along a row */ };

typedef struct fold {
    float none; /* what joins without effect */
    /* A contiguous row of n. */
    float (*row)(const float *x, int64_t n);
    /* Joins rows [0, n) of x, `row` floats apart, to acc; columns of strided ones are `step` apart. */
    void (*rows)(float *restrict acc, const float *restrict x, int64_t row, int64_t n, int64_t width);
    void (*strided_rows)(float *acc, const float *x, int64_t row, int64_t n, int64_t step, int64_t width);
    /* Joins the results of a block to those before. */
    void (*totals)(double *restrict total, const float *restrict acc, int64_t width);
} fold;

/* Along a row: partial results side by side, combined in halves at the end. */
#define FOLD_ROW(name, lanes, none, join)                                                                    \
    static float name(const float *restrict x, int64_t n) {                                                  \
        float lane[lanes], rest = none;                                                                      \
        int64_t i = 0;                                                                                       \
        for (int j = 0; j < lanes; j++) lane[j] = none;                                                      \
        for (; i + lanes <= n; i += lanes)                                                                   \
            for (int j = 0; j < lanes; j++) lane[j] = join(lane[j], x[i + j]);                               \
        for (; i < n; i++) rest = join(rest, x[i]);                                                          \
        for (int half = lanes / 2; half; half /= 2)                                                          \
            for (int j = 0; j < half; j++) lane[j] = join(lane[j], lane[j + half]);                          \
        return join(lane[0], rest);                                                                          \
    }

/* Rows four at a time: fewer passes over acc, and fewer roundings in a chain. */
#define FOLD_ROWS(kind, join)                                                                                \
    static void kind##_rows(float *restrict acc, const float *restrict x, int64_t row, int64_t n,            \
                            int64_t width) {                                                                 \
        int64_t i = 0;                                                                                       \
        for (; i + 4 <= n; i += 4) {                                                                         \
            const float *restrict a = x + i * row, *restrict b = a + row, *restrict c = b + row,             \
                                  *restrict d = c + row;                                                     \
            for (int64_t j = 0; j < width; j++)                                                              \
                acc[j] = join(acc[j], join(join(a[j], b[j]), join(c[j], d[j])));                             \
        }                                                                                                    \
        for (; i < n; i++)                                                                                   \
            for (int64_t j = 0; j < width; j++) acc[j] = join(acc[j], x[i * row + j]);                       \
    }                                                                                                        \
    static void kind##_strided_rows(float *acc, const float *x, int64_t row, int64_t n, int64_t step,        \
                                    int64_t width) {                                                         \
        int64_t i = 0;                                                                                       \
        for (; i + 4 <= n; i += 4) {                                                                         \
            const float *a = x + i * row, *b = a + row, *c = b + row, *d = c + row;                          \
            for (int64_t j = 0; j < width; j++)                                                              \
                acc[j] = join(acc[j], join(join(a[j * step], b[j * step]), join(c[j * step], d[j * step]))); \
        }                                                                                                    \
        for (; i < n; i++)                                                                                   \
            for (int64_t j = 0; j < width; j++) acc[j] = join(acc[j], x[i * row + j * step]);                \
    }

/* Short rows use fewer lanes. A row is at most a chunk of reduce.c: 256 joins follow one another at most. */
#define FOLD(kind, none, join)                                                                               \
    FOLD_ROW(kind##_long_row, LANES, none, join)                                                             \
    FOLD_ROW(kind##_short_row, 8, none, join)                                                                \
    static float kind##_row(const float *x, int64_t n) {                                                     \
        return n < 4 * LANES ? kind##_short_row(x, n) : kind##_long_row(x, n);                               \
    }                                                                                                        \
    FOLD_ROWS(kind, join)                                                                                    \
    static void kind##_totals(double *restrict total, const float *restrict acc, int64_t width) {            \
        for (int64_t j = 0; j < width; j++) total[j] = join##_f64(total[j], acc[j]);                         \
    }

/* Plain `|`: a branch would keep the loops from becoming vector code. A NaN on either side stays. */
#define JOIN(kind, formula)                                                                                  \
    static inline float join_##kind(float a, float b) {                                                      \
        return formula;                                                                                      \
    }                                                                                                        \
    static inline double join_##kind##_f64(double a, double b) {                                             \
        return formula;                                                                                      \
    }
JOIN(sum, a + b)
JOIN(max, ((a > b) | (a != a)) ? a : b)
JOIN(min, ((a < b) | (a != a)) ? a : b)
JOIN(prod, a *b)

FOLD(sum, 0, join_sum)
FOLD(max, -INFINITY, join_max)
FOLD(min, INFINITY, join_min)
FOLD(prod, 1, join_prod)

/* Of each kind. */
static const fold folds[] = {
    [REDUCE_SUM] = {0, sum_row, sum_rows, sum_strided_rows, sum_totals},
    [REDUCE_MAX] = {-INFINITY, max_row, max_rows, max_strided_rows, max_totals},
    [REDUCE_MIN] = {INFINITY, min_row, min_rows, min_strided_rows, min_totals},
    [REDUCE_PROD] = {1, prod_row, prod_rows, prod_strided_rows, prod_totals},
};

#endif
