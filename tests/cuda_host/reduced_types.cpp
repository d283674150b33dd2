/* reduced_types.cpp - f16 and bf16 to and from float: to nearest, ties to even, as the conversions of the hardware. */
#include "cuda_host/cuda_bf16.h"
#include "cuda_host/cuda_fp16.h"

#include <cmath>
#include <cstring>

namespace cuda_host {

/* x as a number of `fraction` bits and exponents from `least` (of the smallest normal number) to `most`. The scaled value
 * is an integer after rint, exact in double; halfway cases go to even since rint does. */
static unsigned short encode(double x, int fraction, int least, int most) {
    unsigned sign = std::signbit(x) ? 0x8000u : 0, infinity = ((unsigned)(most - least) + 2) << fraction;
    double size = fabs(x);
    if (std::isnan(x)) return 0x7fff; /* the NaN that the hardware gives */
    if (size == 0) return (unsigned short)sign;
    int exponent;
    frexp(size, &exponent); /* size in [2^(exponent - 1), 2^exponent) */
    exponent = exponent - 1 < least ? least : exponent - 1;
    double steps = std::isinf(size) ? 0 : rint(ldexp(size, fraction - exponent));
    /* Numbers of one exponent are 2^fraction steps apart, subnormals begin at 0: one sum gives the bits of both. */
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

/* All of them, as products of tiles decode each a hundred times. */
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
