/* pointwise.c - operators of one element, or of two that broadcast, whose builder is not one of Weft's
 * as it is. */
#include "interchange/onnx/families.h"

weft_value *onnx_build_identity(onnx_call *c) {
    weft_value *x = onnx_in(c, 0);
    return x;
}

weft_value *onnx_build_cast(onnx_call *c) {
    weft_dtype dtype;
    int64_t to = onnx_int(c, "to", ONNX_UNDEFINED);
    onnx_int(c, "saturate", 1); /* of types of 8 bits and less, which Weft has not */
    if (!onnx_dtype((int)to, &dtype))
        return onnx_refuse(c, "a cast to %s, which Weft has not", onnx_type_name((int)to));
    return weft_cast(onnx_in(c, 0), dtype);
}

/* Of integers C's quotient: towards 0. */
weft_value *onnx_build_div(onnx_call *c) {
    weft_value *a = onnx_in(c, 0), *b = onnx_in(c, 1);
    bool is_integer = a && (weft_value_dtype(a) == WEFT_I64 || weft_value_dtype(a) == WEFT_I32);
    return is_integer ? weft_trunc_divide(a, b) : weft_div(a, b);
}
