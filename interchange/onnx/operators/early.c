/* early.c - pointwise operators before opset 7: the second operand broadcasts only where the node says
 * so, along axes of the first that begin at a given one. */
#include "interchange/onnx/operators/families.h"
#include "interchange/onnx/import/types.h"

typedef weft_value *two(weft_value *a, weft_value *b);

/* b with axes of length 1 after its own, so that these meet those of a from `axis` on. */
static weft_value *placed(onnx_call *c, weft_value *a, weft_value *b) {
    int64_t shape[WEFT_MAX_NDIM], axis = onnx_int(c, "axis", weft_ndim(a) - weft_ndim(b));
    int n = weft_ndim(b);
    if (axis < 0) axis += weft_ndim(a);
    if (axis < 0 || axis + n > weft_ndim(a))
        return onnx_refuse(c, "%d axes from axis %jd on of a value with %d axes", n, axis, weft_ndim(a));
    onnx_shape_of(c, 1, shape);
    int wanted = weft_ndim(a) - (int)axis;
    for (int i = n; i < wanted; i++) shape[i] = 1;
    return wanted > n ? onnx_reshape(c, b, wanted, shape) : b;
}

static weft_value *joined_early(onnx_call *c, two *function) {
    weft_value *a = onnx_in(c, 0), *b = onnx_in(c, 1);
    bool broadcasts = onnx_int(c, "broadcast", 0);
    if (!a || !b) return NULL;
    if (!broadcasts) onnx_attribute_of(c, "axis"); /* it is about broadcasting */
    if (broadcasts) b = placed(c, a, b);
    if (!broadcasts && weft_ndim(a) != weft_ndim(b))
        return onnx_refuse(c, "%d axes and %d, and broadcast is 0", weft_ndim(a), weft_ndim(b));
    if (!b) return NULL;
    weft_value *wide = onnx_wide(a), *y = function(wide, onnx_wide(b));
    return y && wide != a && weft_value_dtype(y) == WEFT_I64 ? onnx_as(y, weft_value_dtype(a)) : y;
}

static weft_value *divide(weft_value *a, weft_value *b) {
    return onnx_is_integer(a) ? weft_trunc_divide(a, b) : weft_div(a, b);
}

weft_value *onnx_build_early_add(onnx_call *c) {
    return joined_early(c, weft_add);
}

weft_value *onnx_build_early_sub(onnx_call *c) {
    return joined_early(c, weft_sub);
}

weft_value *onnx_build_early_mul(onnx_call *c) {
    return joined_early(c, weft_mul);
}

weft_value *onnx_build_early_div(onnx_call *c) {
    return joined_early(c, divide);
}

weft_value *onnx_build_early_pow(onnx_call *c) {
    return joined_early(c, weft_pow);
}

weft_value *onnx_build_early_and(onnx_call *c) {
    return joined_early(c, weft_logical_and);
}

weft_value *onnx_build_early_or(onnx_call *c) {
    return joined_early(c, weft_logical_or);
}

weft_value *onnx_build_early_xor(onnx_call *c) {
    return joined_early(c, weft_logical_xor);
}

weft_value *onnx_build_early_equal(onnx_call *c) {
    return joined_early(c, weft_equal);
}

weft_value *onnx_build_early_greater(onnx_call *c) {
    return joined_early(c, weft_greater);
}

weft_value *onnx_build_early_less(onnx_call *c) {
    return joined_early(c, weft_less);
}

/* One slope, or one a channel. */
weft_value *onnx_build_early_prelu(onnx_call *c) {
    weft_value *x = onnx_in(c, 0), *slope = onnx_in(c, 1);
    return weft_prelu(x, weft_reshape(slope, 1, (int64_t[]){-1}));
}
