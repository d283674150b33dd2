/* reduced_types.cpp - f16 and bf16 to and from float: rounded to nearest, ties to even, as the hardware's
 * conversions do. */
#include "cuda_host/cuda_bf16.h"
#include "cuda_host/cuda_fp16.h"

#include <cmath>
#include <cstring>

namespace cuda_host {

/* x as a number with `fraction` bits of fraction and exponents from `least` (of the smallest normal number)
 * to `most`. The scaled value is an integer after rint, exact in double; ties go to even since rint does
 * that. */
static unsigned short encode(double x, int fraction, int least, int most) {
    unsigned sign = std::signbit(x) ? 0x8000u : 0, infinity = ((unsigned)(most - least) + 2) << fraction;
    double size = fabs(x);
    /* the NaN that the hardware returns */
    if (std::isnan(x)) return 0x7fff;
    if (size == 0) return (unsigned short)sign;
    int exponent;
    /* size is in [2^(exponent - 1), 2^exponent) */
    frexp(size, &exponent);
    exponent = exponent - 1 < least ? least : exponent - 1;
    double steps = std::isinf(size) ? 0 : rint(ldexp(size, fraction - exponent));
    /* Each exponent has 2^fraction steps and subnormals start at 0, so one sum gives the bits of both. */
    double bits = steps + ldexp((double)(exponent - least), fraction);
    if (std::isinf(size) || bits >= infinity) return (unsigned short)(sign | infinity);
    return (unsigned short)(sign | (unsigned)bits);
}

unsigned short half_of(double x) {
    return encode(x, 10, -14, 15);
}
unsigned short half_of(float x) {
    return encode(x, 10, -14, 15);
}
unsigned short bfloat_of(double x) {
    return encode(x, 7, -126, 127);
}
unsigned short bfloat_of(float x) {
    return encode(x, 7, -126, 127);
}

float bfloat_to(unsigned short bits) {
    unsigned wide = (unsigned)bits << 16;
    float x;
    memcpy(&x, &wide, sizeof x);
    return x;
}

static float half_decode(unsigned short bits) {
    int exponent = bits >> 10 & 31, fraction = bits & 1023;
    float size = exponent == 31  ? (fraction ? NAN : INFINITY)
                 : exponent == 0 ? ldexpf((float)fraction, -24)
                                 : ldexpf((float)(fraction + 1024), exponent - 25);
    return bits & 0x8000 ? -size : size;
}

/* All 65,536 values, since products of tiles decode each a hundred times. */
struct half_table {
    float of[65536];
    half_table() {
        for (int bits = 0; bits < 65536; bits++) of[bits] = half_decode((unsigned short)bits);
    }
};

float half_to(unsigned short bits) {
    static const half_table table;
    return table.of[bits];
}

} // namespace cuda_host
