/* cubic.h - the cubic convolution of Keys (1981), as a weight by the distance from the middle: of interpolate
 * and grid_sample. */
#ifndef WEFT_OPS_IMAGE_CUBIC_H
#define WEFT_OPS_IMAGE_CUBIC_H

#include <math.h>

/* PyTorch's parameter a, and the one with which it takes means of what an element covers. */
#define CUBIC_SHARP  (-0.75)
#define CUBIC_SMOOTH (-0.5)

static inline double cubic(double x, double a) {
    x = fabs(x);
    if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
    return x < 2 ? ((x - 5) * x + 8) * x * a - 4 * a : 0;
}

/* Its derivative of that order by x. */
static inline double cubic_slope(double x, double a, int order) {
    double u = fabs(x), sign = x < 0 ? -1 : 1;
    if (order == 0) return cubic(x, a);
    if (u >= 2 || order > 3) return 0;
    if (order == 1)
        return sign * (u < 1 ? (3 * (a + 2) * u - 2 * (a + 3)) * u : (3 * u - 10) * u * a + 8 * a);
    if (order == 2) return u < 1 ? 6 * (a + 2) * u - 2 * (a + 3) : (6 * u - 10) * a;
    return sign * (u < 1 ? 6 * (a + 2) : 6 * a);
}

#endif
