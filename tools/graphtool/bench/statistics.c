/* statistics.c - see statistics.h. */
#include "tools/graphtool/bench/statistics.h"

#include "tools/graphtool/output/end.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { DRAWS = 2000 };

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double sorted_quantile(int n, const double *sorted, double q) {
    double at = q * (n - 1), below = floor(at);
    int i = (int)below;
    return i + 1 < n ? sorted[i] + (at - below) * (sorted[i + 1] - sorted[i]) : sorted[n - 1];
}

static double *sorted_copy(int n, const double *values) {
    double *sorted = tool_new((size_t)n, sizeof *sorted);
    memcpy(sorted, values, (size_t)n * sizeof *sorted);
    qsort(sorted, (size_t)n, sizeof *sorted, by_size);
    return sorted;
}

double statistics_quantile(int n, const double *values, double q) {
    return sorted_quantile(n, sorted_copy(n, values), q);
}

/* ---- the warm-up ---- */

/* Of the values from d on, cut at `most`: the square of the standard error of their mean. Differences to
 * `most` have no rounding where all values are equal. */
static double squared_error(int n, const double *values, int d, double most) {
    double mean = 0, squares = 0;
    for (int i = d; i < n; i++) mean += (fmin(values[i], most) - most) / (n - d);
    for (int i = d; i < n; i++) squares += pow(fmin(values[i], most) - most - mean, 2);
    return squares / (n - d) / (n - d);
}

int statistics_warmup(int n, const double *values) {
    if (n < 4) return 0;
    const double *sorted = sorted_copy(n - n / 2, values + n / 2);
    double upper = sorted_quantile(n - n / 2, sorted, 0.75);
    double most = upper + 3 * (upper - sorted_quantile(n - n / 2, sorted, 0.25));
    double least = squared_error(n, values, 0, most);
    int best = 0;
    for (int d = 1; d <= n / 2; d++) {
        double error = squared_error(n, values, d, most);
        if (error < least) least = error, best = d;
    }
    return best;
}

/* ---- the bootstrap ---- */

/* SplitMix64 (Steele, Lea, Flood 2014). */
static uint64_t next_random(uint64_t *state) {
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* Fills drawn[n] with blocks of the values and returns its median. */
static double drawn_median(int n, const double *values, int block, double *drawn, uint64_t *state) {
    for (int i = 0; i < n;) {
        int from = (int)(next_random(state) % (uint64_t)n);
        for (int k = 0; k < block && i < n; k++) drawn[i++] = values[(from + k) % n];
    }
    qsort(drawn, (size_t)n, sizeof *drawn, by_size);
    return sorted_quantile(n, drawn, 0.5);
}

static int block_of(int n) {
    return (int)fmax(1, round(cbrt(n)));
}

static interval middle_of(double *draws) {
    qsort(draws, DRAWS, sizeof *draws, by_size);
    return (interval){sorted_quantile(DRAWS, draws, 0.025), sorted_quantile(DRAWS, draws, 0.975)};
}

static const interval unknown = {0, INFINITY};

interval statistics_median_interval(int n, const double *values, int block) {
    if (n < STATISTICS_LEAST) return unknown;
    double *drawn = tool_new((size_t)n, sizeof *drawn), *draws = tool_new(DRAWS, sizeof *draws);
    uint64_t state = 1;
    if (!block) block = block_of(n);
    for (int i = 0; i < DRAWS; i++) draws[i] = drawn_median(n, values, block, drawn, &state);
    return middle_of(draws);
}

interval statistics_ratio_interval(int n_a, const double *a, int n_b, const double *b) {
    int most = n_a > n_b ? n_a : n_b;
    if (n_a < STATISTICS_LEAST || n_b < STATISTICS_LEAST) return unknown;
    double *drawn = tool_new((size_t)most, sizeof *drawn), *draws = tool_new(DRAWS, sizeof *draws);
    uint64_t state = 1;
    for (int i = 0; i < DRAWS; i++) {
        double of_a = drawn_median(n_a, a, block_of(n_a), drawn, &state);
        draws[i] = of_a / drawn_median(n_b, b, block_of(n_b), drawn, &state);
    }
    return middle_of(draws);
}
