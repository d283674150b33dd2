/* test_vecmath.c - the vector functions of ops/cpu/simd/vecmath.h against libm in double: largest error in
 * units of the last place over dense ranges, and the limits. (Compiled here for the baseline processor; the
 * forms with fused multiply-add only differ by less rounding, and test_ops runs those of every instruction
 * set.) */
#include "ops/cpu/simd/vecmath.h"
#include "support/test.h"

#include <math.h>

static double sigmoid(double x) {
    return 1 / (1 + exp(-x));
}

static double ulps(float got, double want) {
    float near = (float)want;
    return fabs(got - want) / (nextafterf(fabsf(near), INFINITY) - fabsf(near));
}

/* Numbers spread evenly over [low, high], and the same again squeezed towards 0 by powers of two. */
static void compare(const char *name, float (*vector)(float), double (*exact)(double), double low,
                    double high, double most) {
    test_random r = {.state = 1};
    double worst = 0, at = 0;
    for (int i = 0; i < 400000; i++) {
        float x = (float)random_in(&r, low, high);
        if (i & 1) x = (float)(x * exp2(random_in(&r, -30, 0)));
        double want = exact(x), error = ulps(vector(x), want);
        if (fabs(want) < 1.2e-38 || fabs(want) > 3.4e38) continue;
        if (!(error <= worst)) {
            worst = error;
            at = x;
        }
    }
    CHECK_SAYS(worst <= most, "%s: %.3f ulp at %.9g, at most %g allowed", name, worst, at, most);
}

TEST(every_function_is_within_a_few_ulp_of_libm) {
    compare("exp", vm_exp, exp, -87, 88.7, 1.5);
    compare("log", vm_log, log, 1e-30, 4, 1.5);
    compare("log", vm_log, log, 1, 1e38, 1.5);
    compare("log1p", vm_log1p, log1p, -0.99, 10, 2.5);
    compare("tanh", vm_tanh, tanh, -10, 10, 2);
    compare("sigmoid", vm_sigmoid, sigmoid, -87, 87, 3);
    compare("erf", vm_erf, erf, -5, 5, 2);
    compare("expm1", vm_expm1, expm1, -20, 0, 4);
}

TEST(limits_and_nan_are_right) {
    const float inf = INFINITY, subnormal = 1e-40f;
    CHECK(vm_exp(inf) == inf && vm_exp(89) == inf && vm_exp(-inf) == 0 && vm_exp(-104) == 0 &&
          vm_exp(0) == 1);
    CHECK(vm_exp(-100) == expf(-100)); /* subnormal results are kept */
    CHECK(vm_log(inf) == inf && vm_log(0) == -inf && isnan(vm_log(-1)) && vm_log(1) == 0);
    CHECK(fabsf(vm_log(subnormal) - logf(subnormal)) < 1e-5f);
    CHECK(vm_log1p(inf) == inf && vm_log1p(-1) == -inf && isnan(vm_log1p(-2)) && vm_log1p(1e-20f) == 1e-20f);
    CHECK(vm_tanh(inf) == 1 && vm_tanh(-inf) == -1 && vm_tanh(0) == 0 && vm_tanh(subnormal) == subnormal);
    CHECK(vm_sigmoid(inf) == 1 && vm_sigmoid(-inf) == 0 && vm_sigmoid(0) == 0.5f);
    CHECK(vm_erf(inf) == 1 && vm_erf(-inf) == -1 && vm_erf(0) == 0);
    CHECK(isnan(vm_exp(NAN)) && isnan(vm_log(NAN)) && isnan(vm_log1p(NAN)));
    CHECK(isnan(vm_tanh(NAN)) && isnan(vm_sigmoid(NAN)) && isnan(vm_erf(NAN)));
}

SUITE("vecmath", {T(every_function_is_within_a_few_ulp_of_libm), T(limits_and_nan_are_right)})
