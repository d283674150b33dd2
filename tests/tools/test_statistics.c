/* test_statistics.c - the statistics of graphtool bench beside NumPy 2.4 and SciPy 1.17: quantiles by
 * numpy.quantile, the warm-up by its formula in NumPy, intervals by
 * scipy.stats.bootstrap(method="percentile") with 200,000 draws, and in blocks by numpy.quantile of 400,000
 * medians of blocks. */
#include "support/test.h"
#include "tools/graphtool/bench/difference.h"
#include "tools/graphtool/bench/statistics.h"

#include <math.h>
#include <stdlib.h>

#define N(list) ((int)(sizeof list / sizeof *list))

/* 10 + gamma(2, 0.3) and 9 + gamma(2, 0.3), of numpy.random.default_rng(7) */
static const double a[] = {10.5,   10.401, 10.344, 10.524, 10.333, 10.715, 10.542, 10.489, 10.139,
                           10.072, 10.152, 10.563, 10.481, 10.111, 10.559, 10.248, 10.248, 10.927,
                           10.458, 10.525, 10.53,  10.108, 10.548, 11.744, 10.165, 10.758, 10.814,
                           10.806, 10.281, 10.341, 10.167, 10.428, 11.088, 10.251, 10.057, 10.463,
                           10.817, 10.37,  11.353, 10.391, 10.455};
static const double b[] = {9.181, 9.347, 9.798, 9.806, 10.028, 9.762,  9.647, 9.053, 9.226, 10.971,
                           9.295, 9.716, 9.424, 9.73,  9.47,   9.193,  9.236, 9.578, 9.304, 9.057,
                           9.654, 9.905, 9.854, 9.866, 9.11,   10.292, 9.401, 9.209, 9.318, 9.251};
/* six slow steps, then steady ones, with one that waited for something */
static const double starts[] = {90, 31,   24,    19,    15,   12.5, 9.74, 10.25, 9.97,  10.19,
                                10, 9.86, 9.93,  9.89,  10,   9.92, 9.94, 9.72,  9.84,  10.33,
                                60, 9.79, 10.07, 10.28, 9.71, 9.96, 9.87, 9.65,  10.15, 10};

TEST(quantiles_are_numpy_s) {
    static const double rows[][3] = {{0, 10.057, 9.053},    {0.25, 10.251, 9.23975}, {0.5, 10.458, 9.447},
                                     {0.75, 10.559, 9.789}, {0.9, 10.817, 9.9173},   {1, 11.744, 10.971}};
    for (int i = 0; i < N(rows); i++) {
        double of_a = statistics_quantile(N(a), a, rows[i][0]),
               of_b = statistics_quantile(N(b), b, rows[i][0]);
        CHECK_SAYS(fabs(of_a - rows[i][1]) < 1e-12 && fabs(of_b - rows[i][2]) < 1e-12, "%g: %.17g, %.17g",
                   rows[i][0], of_a, of_b);
    }
    CHECK(statistics_quantile(1, a, 0.75) == 10.5);
}

TEST(the_warm_up_is_found_beside_a_slow_step) {
    double same[9], falls[20];
    for (int i = 0; i < N(same); i++) same[i] = 1;
    for (int i = 0; i < N(falls); i++) falls[i] = 20 - i;
    CHECK(statistics_warmup(N(starts), starts) == 6);
    CHECK(statistics_warmup(N(a), a) == 0);
    CHECK(statistics_warmup(N(b), b) == 10);
    CHECK(statistics_warmup(N(same), same) == 0);
    CHECK(statistics_warmup(N(falls), falls) == 10); /* never more than half */
    CHECK(statistics_warmup(3, starts) == 0 && statistics_warmup(1, a) == 0);
}

static void check_interval(const char *what, interval in, double low, double high, double by) {
    CHECK_SAYS(fabs(in.low - low) <= by && fabs(in.high - high) <= by, "%s: %g to %g, not %g to %g", what,
               in.low, in.high, low, high);
}

/* Neighbours that are alike make the median less sure than as many that are not. */
TEST(intervals_are_scipy_s) {
    double line[41];
    for (int i = 0; i < N(line); i++) line[i] = 10 + 0.025 * i;
    check_interval("a", statistics_median_interval(N(a), a, 1), 10.344, 10.525, 0.002);
    check_interval("b", statistics_median_interval(N(b), b, 1), 9.2995, 9.723, 0.01);
    check_interval("a in blocks", statistics_median_interval(N(a), a, 3), 10.344, 10.525, 0.003);
    check_interval("a line", statistics_median_interval(N(line), line, 1), 10.35, 10.65, 0.026);
    check_interval("a line in blocks", statistics_median_interval(N(line), line, 3), 10.25, 10.75, 0.026);
    check_interval("a / b", statistics_ratio_interval(N(a), a, N(b), b), 1.06973, 1.12650, 0.002);
    for (int n = 1; n < STATISTICS_LEAST; n++) {
        CHECK(!interval_is_known(statistics_median_interval(n, a, 0)));
        CHECK(!interval_is_known(statistics_ratio_interval(n, a, N(b), b)));
        CHECK(!interval_is_known(statistics_ratio_interval(N(a), a, n, b)));
    }
    CHECK(interval_is_known(statistics_ratio_interval(STATISTICS_LEAST, a, STATISTICS_LEAST, b)));
    interval again = statistics_median_interval(N(a), a, 0);
    check_interval("twice", statistics_median_interval(N(a), a, 0), again.low, again.high, 0);
}

static difference difference_of(int n, const double *is, const double *should_be) {
    difference d = {0};
    for (int i = 0; i < n; i++) difference_add(&d, is[i], should_be[i]);
    return d;
}

TEST(differences_are_relative_to_what_should_be) {
    const double is[] = {3, 4.5, -1}, should_be[] = {3, 4, -1}, zeros[] = {0, 0, 0};
    difference d = difference_of(3, is, should_be);
    CHECK(fabs(difference_rms(&d) - sqrt(0.25 / 26)) < 1e-15 && difference_most(&d) == 0.5 / 4);
    d = difference_of(3, zeros, zeros);
    CHECK(difference_rms(&d) == 0 && difference_most(&d) == 0);
    d = difference_of(3, is, zeros);
    CHECK(isinf(difference_rms(&d)) && isinf(difference_most(&d)));
    const double odd[] = {NAN, INFINITY, 2}, even[] = {NAN, INFINITY, 2}, finite[] = {1, 1, 2};
    d = difference_of(3, odd, even);
    CHECK(difference_rms(&d) == 0);
    d = difference_of(3, odd, finite);
    CHECK(isinf(difference_rms(&d)));
    d = difference_of(3, finite, odd);
    CHECK(isinf(difference_rms(&d)));
}

SUITE("tools: statistics", {T(differences_are_relative_to_what_should_be), T(quantiles_are_numpy_s),
                            T(the_warm_up_is_found_beside_a_slow_step), T(intervals_are_scipy_s)})
