/* convert.c - see convert.h. Every type here is held by i64 or by f64, so numbers pass through blocks of one
 * of them: a loop a type, and none for each pair. */
#include "runtime/data/convert.h"

#include <math.h>

enum { BLOCK = 256 };

static bool is_float(weft_dtype t) {
    return t == WEFT_F32 || t == WEFT_F64 || t == WEFT_BF16 || t == WEFT_F16;
}

bool convert_gives(weft_dtype to) {
    return to == WEFT_F32 || to == WEFT_F64 || to == WEFT_I64 || to == WEFT_I32 || to == WEFT_U8;
}

bool convert_is_exact(weft_dtype from, weft_dtype to) {
    if (!convert_gives(to) || !weft_dtype_bytes(from)) return false;
    return !is_float(from) || (is_float(to) && weft_dtype_bytes(to) > weft_dtype_bytes(from));
}

/* ---- into a block ---- */

/* Sign, 5 bits of exponent with bias 15, 10 of mantissa. */
static double of_f16(uint16_t bits) {
    int exponent = bits >> 10 & 31, mantissa = bits & 1023;
    double size = exponent == 31 ? (mantissa ? NAN : INFINITY)
                  : exponent     ? ldexp(1024 + mantissa, exponent - 25)
                                 : ldexp(mantissa, -24);
    return bits >> 15 ? -size : size;
}

/* The upper half of an f32. */
static double of_bf16(uint16_t bits) {
    uint32_t whole = (uint32_t)bits << 16;
    float value;
    memcpy(&value, &whole, sizeof value);
    return (double)value;
}

static void floats_in(weft_dtype from, const void *data, size_t first, size_t n, double *block) {
    switch (from) {
    case WEFT_F32:
        for (size_t i = 0; i < n; i++) block[i] = (double)((const float *)data)[first + i];
        break;
    case WEFT_F16:
        for (size_t i = 0; i < n; i++) block[i] = of_f16(((const uint16_t *)data)[first + i]);
        break;
    case WEFT_BF16:
        for (size_t i = 0; i < n; i++) block[i] = of_bf16(((const uint16_t *)data)[first + i]);
        break;
    default:
        memcpy(block, (const double *)data + first, n * sizeof *block);
    }
}

static void integers_in(weft_dtype from, const void *data, size_t first, size_t n, int64_t *block) {
    switch (from) {
    case WEFT_I64:
        memcpy(block, (const int64_t *)data + first, n * sizeof *block);
        break;
    case WEFT_I32:
        for (size_t i = 0; i < n; i++) block[i] = ((const int32_t *)data)[first + i];
        break;
    case WEFT_I8:
        for (size_t i = 0; i < n; i++) block[i] = ((const int8_t *)data)[first + i];
        break;
    case WEFT_U16:
        for (size_t i = 0; i < n; i++) block[i] = ((const uint16_t *)data)[first + i];
        break;
    case WEFT_U32:
        for (size_t i = 0; i < n; i++) block[i] = ((const uint32_t *)data)[first + i];
        break;
    default: /* u8 and bool */
        for (size_t i = 0; i < n; i++) block[i] = ((const uint8_t *)data)[first + i];
    }
}

/* ---- out of one: the number of those that the type holds, up to the first that it does not ---- */

static const double two_to_63 = 0x1p63;

static size_t integers_as_integers(const int64_t *block, size_t n, weft_dtype to, void *into, size_t first) {
    for (size_t i = 0; i < n; i++) {
        int64_t v = block[i];
        if (to == WEFT_U8 ? v < 0 || v > UINT8_MAX : to == WEFT_I32 && (v < INT32_MIN || v > INT32_MAX))
            return i;
        if (to == WEFT_U8)
            ((uint8_t *)into)[first + i] = (uint8_t)v;
        else if (to == WEFT_I32)
            ((int32_t *)into)[first + i] = (int32_t)v;
        else
            ((int64_t *)into)[first + i] = v;
    }
    return n;
}

static size_t integers_as_floats(const int64_t *block, size_t n, weft_dtype to, void *into, size_t first,
                                 bool rounds) {
    for (size_t i = 0; i < n; i++) {
        float narrow = (float)block[i];
        double wide = (double)block[i], got = to == WEFT_F32 ? (double)narrow : wide;
        if (!rounds && (got >= two_to_63 || (int64_t)got != block[i])) return i;
        if (to == WEFT_F32)
            ((float *)into)[first + i] = narrow;
        else
            ((double *)into)[first + i] = wide;
    }
    return n;
}

static size_t floats_as_floats(const double *block, size_t n, weft_dtype to, void *into, size_t first,
                               bool rounds) {
    if (to == WEFT_F64) return memcpy((double *)into + first, block, n * sizeof *block), n;
    for (size_t i = 0; i < n; i++) {
        float narrow = (float)block[i];
        bool is_same = (double)narrow == block[i] || isnan(block[i]);
        if (!is_same && (!rounds || isinf(narrow))) return i;
        ((float *)into)[first + i] = narrow;
    }
    return n;
}

/* Whole numbers alone. */
static size_t floats_as_integers(const double *block, size_t n, weft_dtype to, void *into, size_t first) {
    for (size_t i = 0; i < n; i++) {
        double v = block[i];
        if (!(v >= -two_to_63 && v < two_to_63) || v != floor(v)) return i;
        int64_t whole = (int64_t)v;
        if (!integers_as_integers(&whole, 1, to, into, first + i)) return i;
    }
    return n;
}

size_t convert_numbers(weft_dtype from, const void *data, weft_dtype to, void *into, size_t count,
                       bool rounds) {
    double floats[BLOCK];
    int64_t integers[BLOCK];
    for (size_t at = 0; at < count; at += BLOCK) {
        size_t n = count - at < BLOCK ? count - at : BLOCK, good;
        if (is_float(from)) {
            floats_in(from, data, at, n, floats);
            good = is_float(to) ? floats_as_floats(floats, n, to, into, at, rounds)
                                : floats_as_integers(floats, n, to, into, at);
        } else {
            integers_in(from, data, at, n, integers);
            good = is_float(to) ? integers_as_floats(integers, n, to, into, at, rounds)
                                : integers_as_integers(integers, n, to, into, at);
        }
        if (good < n) return at + good;
    }
    return count;
}

weft_status convert_fail(weft_error *error, const char *what, int64_t sample, weft_dtype from,
                         const void *number, weft_dtype to) {
    double wide;
    int64_t whole;
    char text[48];
    if (is_float(from)) {
        floats_in(from, number, 0, 1, &wide);
        snprintf(text, sizeof text, "%s", NUMBER("%.17g", wide));
    } else {
        integers_in(from, number, 0, 1, &whole);
        snprintf(text, sizeof text, "%jd", whole);
    }
    return kit_fail(error, WEFT_DATA,
                    "%.600s: sample %jd has %s, which %s does not hold: correct it in the file, or declare "
                    "the input as %s",
                    what, sample, text, weft_dtype_name(to), weft_dtype_name(from));
}
