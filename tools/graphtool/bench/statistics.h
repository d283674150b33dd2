/* statistics.h - what times say: which belong to the warm-up, where the others lie, and how sure that is.
 * Plain functions of arrays; tests/tools/test_statistics.c has the numbers of NumPy and SciPy. */
#ifndef WEFT_TOOLS_GRAPHTOOL_BENCH_STATISTICS_H
#define WEFT_TOOLS_GRAPHTOOL_BENCH_STATISTICS_H

#include <float.h>
#include <stdbool.h>
#include <stdint.h>

/* The quantile q of n values (n > 0, any order), between two of them by a straight line: NumPy's default. */
double statistics_quantile(int n, const double *values, double q);

/* How many of the first values belong to the warm-up, at most half of them: the number d for which the mean
 * of the others has the smallest standard error, sum_{i >= d} (x_i - mean)^2 / (n - d)^2 (MSER: White,
 * Simulation 69, 1997). One slow value in the middle must not decide it, so values are cut at the upper
 * quartile of the second half plus three times its interquartile range. */
int statistics_warmup(int n, const double *values);

/* Of fewer values a bootstrap is far too narrow; of one it has no width. Nothing is known then: 0 to
 * infinity. */
enum { STATISTICS_LEAST = 6 };

typedef struct interval {
    double low, high;
} interval;

static inline bool interval_is_known(interval in) {
    return in.high <= DBL_MAX;
}

/* A 95% confidence interval of the median by the percentile bootstrap. Times of steps depend on those just
 * before them, so blocks of neighbours are drawn, in a circle (Politis and Romano 1992). Length 0: the cube
 * root of n. The same numbers give the same interval. */
interval statistics_median_interval(int n, const double *values, int block);
/* The same of the ratio of two medians, a's divided by b's, which are drawn apart. */
interval statistics_ratio_interval(int n_a, const double *a, int n_b, const double *b);

#endif
