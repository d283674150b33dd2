/* shape.c - operators that move elements or give them another shape. */
#include "interchange/onnx/families.h"

/* 0 is the length that x has there (unless allowzero), -1 what is left. */
weft_value *onnx_build_reshape(onnx_call *c) {
    int64_t shape[WEFT_MAX_NDIM], own[WEFT_MAX_NDIM];
    int n;
    weft_value *x = onnx_in(c, 0);
    const int64_t *wanted = onnx_lengths(c, 1, &n);
    bool keeps_zero = onnx_int(c, "allowzero", 0);
    if (!x || !wanted) return NULL;
    if (n > WEFT_MAX_NDIM) return onnx_refuse(c, "a shape of %d axes; %d are the most", n, WEFT_MAX_NDIM);
    onnx_shape_of(c, 0, own);
    for (int i = 0; i < n; i++) {
        bool is_copied = wanted[i] == 0 && !keeps_zero;
        if (is_copied && i >= weft_ndim(x))
            return onnx_refuse(c, "length %d is 0, and x has %d axes", i, weft_ndim(x));
        shape[i] = is_copied ? own[i] : wanted[i];
    }
    return onnx_reshape(c, x, n, shape);
}

/* To two axes, those before `axis` and those from it on. */
weft_value *onnx_build_flatten(onnx_call *c) {
    int64_t own[WEFT_MAX_NDIM], shape[2] = {1, 1};
    weft_value *x = onnx_in(c, 0);
    int64_t axis = onnx_int(c, "axis", 1);
    if (!x) return NULL;
    onnx_shape_of(c, 0, own);
    if (axis < 0) axis += weft_ndim(x);
    if (axis < 0 || axis > weft_ndim(x))
        return onnx_refuse(c, "axis %jd of a value with %d axes", axis, weft_ndim(x));
    for (int i = 0; i < weft_ndim(x); i++) {
        int64_t *part = &shape[i >= axis];
        bool is_number = own[i] >= 0 && *part >= 0;
        *part = is_number ? *part * own[i] : *part == 1 ? own[i] : ONNX_DEPENDS;
    }
    return onnx_reshape(c, x, 2, shape);
}

weft_value *onnx_build_transpose(onnx_call *c) {
    int64_t axes[WEFT_MAX_NDIM];
    int n;
    weft_value *x = onnx_in(c, 0);
    const int64_t *given = onnx_ints(c, "perm", &n);
    if (!x) return NULL;
    if (given && n != weft_ndim(x)) return onnx_refuse(c, "perm has %d axes, x has %d", n, weft_ndim(x));
    for (int i = 0; i < weft_ndim(x); i++) axes[i] = given ? given[i] : weft_ndim(x) - 1 - i;
    return weft_permute(x, axes);
}
