/* types.c - see types.h. */
#include "interchange/onnx/import/types.h"

bool onnx_is_real(const weft_value *x) {
    weft_dtype dtype = x ? weft_value_dtype(x) : WEFT_BOOL;
    return onnx_is_float(dtype);
}

bool onnx_is_integer(const weft_value *x) {
    return x && !onnx_is_real(x) && weft_value_dtype(x) != WEFT_BOOL;
}

weft_value *onnx_as(weft_value *x, weft_dtype dtype) {
    return x && weft_value_dtype(x) != dtype ? weft_cast(x, dtype) : x;
}

weft_value *onnx_wide(weft_value *x) {
    bool is_narrow = onnx_is_integer(x) && weft_value_dtype(x) != WEFT_I32;
    return is_narrow ? onnx_as(x, WEFT_I64) : x;
}

weft_value *onnx_as_real(weft_value *x) {
    return x && !onnx_is_real(x) ? weft_cast(x, WEFT_F64) : x;
}

bool onnx_dtype_of(onnx_call *c, const char *attribute, weft_dtype otherwise, weft_dtype *dtype) {
    int64_t type = onnx_int(c, attribute, ONNX_UNDEFINED);
    *dtype = otherwise;
    if (type == ONNX_UNDEFINED || onnx_dtype((int)type, dtype)) return true;
    return onnx_refuse(c, "a result of %s, which Weft does not have", onnx_type_name((int)type));
}

bool onnx_operand_type(onnx_call *c, int i, tensor *type) {
    const onnx_known *k = onnx_known_in(c, i);
    if (k) *type = k->type;
    if (k || c->in->error->status) return k;
    weft_value *v = onnx_in(c, i);
    if (!v && onnx_has(c, i))
        v = onnx_value_in(c->in, c->operands[i], c->side); /* not in the scratch graph */
    if (!v) return false;
    *type = (tensor){.dtype = weft_value_dtype(v), .ndim = weft_ndim(v)};
    for (int axis = 0; axis < type->ndim; axis++) type->shape[axis] = weft_dim(v, axis);
    return true;
}
