/* pointwise.c - operators of one element, or of several that broadcast, whose builder is not one of
 * Weft's as it is. */
#include "interchange/onnx/operators/families.h"
#include "interchange/onnx/import/types.h"

#include <math.h>

weft_value *onnx_build_identity(onnx_call *c) {
    weft_value *x = onnx_in(c, 0);
    return x;
}

/* ---- types ---- */

/* Both are about floating point of 8 bits and less, which Weft does not have. */
static void ask_rounding(onnx_call *c) {
    onnx_int(c, "saturate", 1);
    onnx_word(c, "round_mode", "up");
}

weft_value *onnx_build_cast(onnx_call *c) {
    weft_dtype dtype;
    int64_t to = onnx_int(c, "to", ONNX_UNDEFINED);
    ask_rounding(c);
    if (!onnx_dtype((int)to, &dtype))
        return onnx_refuse(c, "a cast to %s, which Weft does not have", onnx_type_name((int)to));
    return onnx_as(onnx_in(c, 0), dtype);
}

weft_value *onnx_build_cast_like(onnx_call *c) {
    tensor like;
    ask_rounding(c);
    return onnx_operand_type(c, 1, &like) ? onnx_as(onnx_in(c, 0), like.dtype) : NULL;
}

/* The same bytes as another type of the same width. Integers keep their bits in a cast. */
weft_value *onnx_build_bit_cast(onnx_call *c) {
    weft_value *x = onnx_in(c, 0);
    weft_dtype dtype;
    if (!x || !onnx_dtype_of(c, "to", WEFT_DTYPES, &dtype)) return NULL;
    weft_dtype own = weft_value_dtype(x);
    if (dtype == WEFT_DTYPES) return onnx_refuse(c, "it has no attribute 'to'");
    if (weft_dtype_bytes(dtype) != weft_dtype_bytes(own))
        return onnx_refuse(c, "%s has another width than %s", weft_dtype_name(dtype), weft_dtype_name(own));
    weft_value *y = onnx_as(x, dtype);
    bool is_same = dtype == own || (!onnx_is_real(x) && onnx_is_integer(y));
    return is_same ? y : onnx_refuse(c, "the bits of %s as %s", weft_dtype_name(own), weft_dtype_name(dtype));
}

/* ---- arithmetic ---- */

/* Of integers C's quotient: towards 0. */
weft_value *onnx_build_div(onnx_call *c) {
    weft_value *a = onnx_in(c, 0), *b = onnx_in(c, 1);
    if (!a || !onnx_is_integer(a)) return weft_div(a, b);
    weft_value *wide = onnx_wide(a);
    return onnx_as(weft_trunc_divide(wide, onnx_wide(b)), weft_value_dtype(a));
}

/* What is left of a / b, with the sign of b, or with fmod that of a. */
weft_value *onnx_build_mod(onnx_call *c) {
    weft_value *a = onnx_in(c, 0), *wide = onnx_wide(a), *b = onnx_wide(onnx_in(c, 1));
    bool is_fmod = onnx_int(c, "fmod", 0);
    return a ? onnx_as(is_fmod ? weft_fmod(wide, b) : weft_remainder(wide, b), weft_value_dtype(a)) : NULL;
}

/* x to a power that is one known number. */
static weft_value *power_of(weft_value *x, double n) {
    if (n == 1) return x;
    if (n == 2) return weft_square(x);
    if (n == 3) return weft_mul(weft_square(x), x);
    if (n == 4) return weft_square(weft_square(x));
    if (!onnx_is_real(x)) return NULL;
    return n == 0.5 ? weft_sqrt(x) : n == -0.5 ? weft_rsqrt(x) : n == -1 ? weft_reciprocal(x) : NULL;
}

/* The exponent may have another type than x, whose type the result has. Integers are computed as f64, as
 * other runtimes do: exact up to 2^53. */
weft_value *onnx_build_pow(onnx_call *c) {
    weft_value *x = onnx_in(c, 0), *wide = onnx_wide(x);
    tensor exponent;
    if (!x || !onnx_operand_type(c, 1, &exponent)) return NULL;
    bool is_one = onnx_known_in(c, 1) && tensor_elements(&exponent) == 1 && exponent.ndim <= weft_ndim(x);
    weft_value *y = is_one ? power_of(wide, onnx_number(c, 1, 0)) : NULL;
    if (y) return onnx_as(y, weft_value_dtype(x));
    bool is_double = !onnx_is_real(x) || exponent.dtype == WEFT_F64;
    weft_dtype dtype = is_double ? WEFT_F64 : weft_value_dtype(x);
    weft_value *base = onnx_as(x, dtype);
    y = weft_pow(base, onnx_as(onnx_in(c, 1), dtype));
    return onnx_as(y, weft_value_dtype(x));
}

weft_value *onnx_build_round(onnx_call *c) {
    weft_value *x = onnx_in(c, 0);
    return onnx_is_integer(x) ? x : weft_round(x);
}

/* Of integers, too. */
weft_value *onnx_build_relu(onnx_call *c) {
    weft_value *x = onnx_in(c, 0), *wide = onnx_wide(x);
    if (!onnx_is_integer(x)) return weft_relu(x);
    return onnx_as(weft_maximum(wide, onnx_constant(c, wide, 0)), weft_value_dtype(x));
}

/* Elements below 0 times a slope, which broadcasts to x. One slope a channel is a builder of Weft. */
weft_value *onnx_build_prelu(onnx_call *c) {
    weft_value *x = onnx_in(c, 0), *slope = onnx_in(c, 1), *wide = onnx_wide(x);
    if (!x || !slope) return NULL;
    int n = weft_ndim(slope), place = n - (weft_ndim(x) - 1); /* of the channels among the slope's axes */
    int64_t count = 1;
    for (int i = 0; i < n; i++) count *= weft_dim(slope, i);
    bool is_channel = place >= 0 && place < n && weft_dim(slope, place) == count;
    if (onnx_is_real(x) && n <= weft_ndim(x) && (count == 1 || is_channel))
        return weft_prelu(x, weft_reshape(slope, 1, &count));
    weft_value *below = weft_mul(wide, onnx_wide(slope));
    return onnx_as(weft_where(weft_less(wide, onnx_constant(c, wide, 0)), below, wide), weft_value_dtype(x));
}

/* ---- any number of operands ---- */

static weft_value *join_all(onnx_call *c, weft_value *(*two)(weft_value *a, weft_value *b)) {
    weft_value *first = onnx_in(c, 0), *y = onnx_wide(first);
    for (int i = 1; y && i < onnx_operands(c); i++) y = two(y, onnx_wide(onnx_in(c, i)));
    return y ? onnx_as(y, weft_value_dtype(first)) : NULL;
}

weft_value *onnx_build_max(onnx_call *c) {
    return join_all(c, weft_maximum);
}

weft_value *onnx_build_min(onnx_call *c) {
    return join_all(c, weft_minimum);
}

weft_value *onnx_build_sum(onnx_call *c) {
    return join_all(c, weft_add);
}

weft_value *onnx_build_mean(onnx_call *c) {
    weft_value *sum = join_all(c, weft_add);
    return onnx_operands(c) == 1 ? sum : weft_scale(sum, 1.0 / onnx_operands(c));
}

/* ---- limits ---- */

/* A limit as a number; `otherwise` without one. False: it is not known here, or not of one
 * element. */
static bool limit_of(onnx_call *c, int i, double otherwise, double *limit) {
    *limit = otherwise;
    if (!onnx_has(c, i)) return true;
    const onnx_known *k = onnx_known_in(c, i);
    if (!k || tensor_elements(&k->type) != 1) return false;
    *limit = onnx_number(c, i, otherwise);
    return true;
}

static weft_value *clip_by_numbers(weft_value *x, double min, double max) {
    if (min == 0 && max == 6) return weft_relu6(x);
    return min == 0 && max == INFINITY ? weft_relu(x) : weft_clamp(x, min, max);
}

weft_value *onnx_build_clip(onnx_call *c) {
    weft_value *x = onnx_in(c, 0), *y = onnx_wide(x);
    double min = 0, max = 0;
    bool is_known = onnx_is_real(x) && limit_of(c, 1, -INFINITY, &min) && limit_of(c, 2, INFINITY, &max);
    if (!x) return NULL;
    if (is_known && min <= max) return clip_by_numbers(x, min, max);
    if (onnx_has(c, 1)) y = weft_maximum(y, onnx_wide(onnx_in(c, 1)));
    if (onnx_has(c, 2)) y = weft_minimum(y, onnx_wide(onnx_in(c, 2)));
    return onnx_as(y, weft_value_dtype(x));
}

/* Before opset 11: attributes. */
weft_value *onnx_build_clip_attributes(onnx_call *c) {
    double min = onnx_real(c, "min", -INFINITY), max = onnx_real(c, "max", INFINITY);
    if (!(min <= max)) return onnx_refuse(c, "min %g is above max %g", min, max);
    return clip_by_numbers(onnx_in(c, 0), min, max);
}

/* ---- what is true ---- */

weft_value *onnx_build_where(onnx_call *c) {
    weft_value *a = onnx_in(c, 1), *b = onnx_in(c, 2), *condition = onnx_in(c, 0);
    weft_value *wide = onnx_wide(a), *y = weft_where(condition, wide, onnx_wide(b));
    return y && a ? onnx_as(y, weft_value_dtype(a)) : y;
}

weft_value *onnx_build_is_inf(onnx_call *c) {
    weft_value *x = onnx_in(c, 0);
    bool takes_below = onnx_int(c, "detect_negative", 1), takes_above = onnx_int(c, "detect_positive", 1);
    weft_value *y = weft_isinf(x);
    if (!y || (takes_below && takes_above)) return y;
    if (!takes_below && !takes_above) return weft_logical_and(y, onnx_constant(c, y, 0));
    weft_value *zero = onnx_constant(c, x, 0);
    return weft_logical_and(y, takes_above ? weft_greater(x, zero) : weft_less(x, zero));
}

/* ---- bits ---- */

weft_value *onnx_build_bit_shift(onnx_call *c) {
    weft_value *x = onnx_in(c, 0), *wide = onnx_wide(x), *by = onnx_wide(onnx_in(c, 1));
    const char *direction = onnx_word(c, "direction", "");
    bool is_left = !strcmp(direction, "LEFT");
    if (!x || !by) return NULL;
    if (!is_left && strcmp(direction, "RIGHT")) return onnx_refuse(c, "its direction is '%.40s'", direction);
    return onnx_as(is_left ? weft_bitwise_left_shift(wide, by) : weft_bitwise_right_shift(wide, by),
                   weft_value_dtype(x));
}
