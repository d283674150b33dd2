/* quantize.c - numbers as integers with a scale and a zero point, and back. */
#include "interchange/onnx/operators/families.h"

/* The range of integers that Weft has; false for other types. */
static bool range_of(weft_dtype dtype, double *least, double *most) {
    *least = dtype == WEFT_I8 ? -128 : 0;
    *most = dtype == WEFT_I8 ? 127 : dtype == WEFT_U8 ? 255 : 65535;
    return dtype == WEFT_I8 || dtype == WEFT_U8 || dtype == WEFT_U16;
}

static weft_value *as(weft_value *x, weft_dtype dtype) {
    return x && weft_value_dtype(x) != dtype ? weft_cast(x, dtype) : x;
}

/* Scales or zero points as they broadcast to x: one number, one for each part of `axis`, or one for each
 * block of parts. */
static weft_value *beside(onnx_call *c, weft_value *v, weft_value *x, int64_t given, int64_t block) {
    int64_t shape[WEFT_MAX_NDIM];
    int axis;
    if (!v || !x) return NULL;
    if (weft_ndim(v) == 0) return v;
    if (weft_ndim(v) == 1 && weft_dim(v, 0) == 1) return weft_reshape(v, 0, NULL);
    if (!onnx_axis_of(c, given, weft_ndim(x), &axis)) return NULL;
    if (block > 0) {
        v = weft_repeat_interleave(v, block, axis);
        return v && weft_dim(v, axis) > weft_dim(x, axis) ? weft_slice(v, axis, 0, weft_dim(x, axis)) : v;
    }
    if (weft_ndim(v) != 1) return onnx_refuse(c, "a scale of %d axes", weft_ndim(v));
    for (int i = 0; i < weft_ndim(x); i++) shape[i] = i == axis ? -1 : 1;
    return weft_reshape(v, weft_ndim(x), shape);
}

/* round(x / scale) + zero, saturated, as `to`. Sums are exact: f32 holds integers of 16 bits. */
static weft_value *quantized(weft_value *x, weft_value *scale, weft_value *zero, weft_dtype to) {
    double least, most;
    range_of(to, &least, &most);
    weft_value *y = weft_round(weft_div(x, scale));
    if (weft_value_dtype(scale) != WEFT_F64) y = as(y, WEFT_F32);
    if (zero) y = weft_add(y, as(zero, y ? weft_value_dtype(y) : WEFT_F32));
    return weft_cast(weft_clamp(y, least, most), to);
}

/* The type of the result: that of the zero point, or output_dtype, or u8. */
static bool target_of(onnx_call *c, weft_value *zero, weft_dtype *to) {
    double least, most;
    int64_t named = onnx_int(c, "output_dtype", ONNX_UNDEFINED);
    *to = zero ? weft_value_dtype(zero) : WEFT_U8;
    if (named && zero && named != onnx_type_of(*to))
        return onnx_refuse(c, "output_dtype is not the type of the zero point");
    if (named && !zero && !onnx_dtype((int)named, to))
        return onnx_refuse(c, "integers of %s, which Weft does not have", onnx_type_name((int)named));
    return range_of(*to, &least, &most) || onnx_refuse(c, "a result of %s", weft_dtype_name(*to));
}

/* The type in which x / scale is computed: `precision`, or that of the scale. */
static bool precision_of(onnx_call *c, weft_value *scale, weft_dtype *of) {
    int64_t named = onnx_int(c, "precision", ONNX_UNDEFINED);
    *of = weft_value_dtype(scale);
    return !named || onnx_dtype((int)named, of) ||
           onnx_refuse(c, "a precision of %s", onnx_type_name((int)named));
}

weft_value *onnx_build_quantize(onnx_call *c) {
    weft_value *x = onnx_in(c, 0), *scale = onnx_in(c, 1), *zero = onnx_in(c, 2);
    int64_t axis = onnx_int(c, "axis", 1), block = onnx_int(c, "block_size", 0);
    weft_dtype to, of;
    onnx_int(c, "saturate", 1); /* of floats of 8 bits, which Weft does not have */
    if (!x || !scale || !target_of(c, zero, &to) || !precision_of(c, scale, &of)) return NULL;
    scale = beside(c, scale, x, axis, block);
    if (zero && !(zero = beside(c, zero, x, axis, block))) return NULL;
    x = as(x, of);
    return scale ? quantized(x, as(scale, of), zero, to) : NULL;
}

/* (x - zero) scale, computed in f32, or in f64 where the scale or x needs it. */
weft_value *onnx_build_dequantize(onnx_call *c) {
    weft_value *x = onnx_in(c, 0), *scale = onnx_in(c, 1), *zero = onnx_in(c, 2);
    int64_t axis = onnx_int(c, "axis", 1), block = onnx_int(c, "block_size", 0),
            named = onnx_int(c, "output_dtype", ONNX_UNDEFINED);
    if (!x || !scale) return NULL;
    weft_dtype to = weft_value_dtype(scale),
               of = to == WEFT_F64 || weft_value_dtype(x) == WEFT_I32 ? WEFT_F64 : WEFT_F32;
    if (named && !onnx_dtype((int)named, &to))
        return onnx_refuse(c, "a result of %s", onnx_type_name((int)named));
    scale = beside(c, scale, x, axis, block);
    if (zero && !(zero = beside(c, zero, x, axis, block))) return NULL;
    weft_value *y = as(x, of);
    if (zero) y = weft_sub(y, as(zero, of));
    return scale ? as(weft_mul(y, as(scale, of)), to) : NULL;
}

/* To u8 by the range of x, which has 0 in it. Zeros alone become zeros. */
weft_value *onnx_build_dynamic_quantize(onnx_call *c) {
    weft_value *x = onnx_in(c, 0);
    if (!x) return NULL;
    weft_value *zero = onnx_constant(c, x, 0);
    weft_value *most = weft_maximum(weft_amax(x, 0, NULL, false), zero),
               *least = weft_minimum(weft_amin(x, 0, NULL, false), zero);
    weft_value *span = weft_sub(most, least), *scale = weft_div(span, onnx_constant(c, x, 255));
    weft_value *is_zero = weft_equal(scale, zero), *one = onnx_constant(c, x, 1),
               *divisor = weft_where(is_zero, one, scale);
    weft_value *point =
        weft_cast(weft_round(weft_clamp(weft_div(weft_neg(least), divisor), 0, 255)), WEFT_U8);
    onnx_result(c, 1, scale);
    onnx_result(c, 2, point);
    return quantized(x, divisor, point, WEFT_U8);
}
