/* constants.c - operators whose results are known from attributes and types: Constant, Shape, Size. */
#include "interchange/onnx/families.h"

static const onnx_known *known_of(onnx_call *c, weft_dtype dtype, int ndim, int64_t n, const void *data) {
    tensor type = tensor_of(dtype, ndim, &n);
    onnx_known *k = onnx_known_new(c->in, &type);
    if (k && n) memcpy(k->data, data, (size_t)n * weft_dtype_bytes(dtype));
    return k;
}

static const onnx_known *known_of_tensor(onnx_call *c, const onnx_tensor *t) {
    weft_dtype dtype;
    if (!t || !onnx_dtype(t->type, &dtype)) {
        onnx_refuse(c, "its value is of %s, which Weft has not", t ? onnx_type_name(t->type) : "no type");
        return NULL;
    }
    tensor type = tensor_of(dtype, t->ndim, t->shape);
    onnx_known *k = onnx_known_new(c->in, &type);
    if (!k || onnx_tensor_read(&c->in->onnx->file, t, 0, k->data, onnx_tensor_bytes(t), c->in->error))
        return NULL;
    return k;
}

const onnx_known *onnx_know_constant(onnx_call *c) {
    const onnx_attribute *a = NULL;
    if ((a = onnx_attribute_of(c, "value"))) return known_of_tensor(c, a->tensor);
    if ((a = onnx_attribute_of(c, "value_float"))) return known_of(c, WEFT_F32, 0, 1, &a->real);
    if ((a = onnx_attribute_of(c, "value_int"))) return known_of(c, WEFT_I64, 0, 1, &a->integer);
    if ((a = onnx_attribute_of(c, "value_floats"))) return known_of(c, WEFT_F32, 1, a->n, a->reals);
    if ((a = onnx_attribute_of(c, "value_ints"))) return known_of(c, WEFT_I64, 1, a->n, a->integers);
    onnx_refuse(c, "a constant of texts, or a sparse one");
    return NULL;
}

/* The type of operand 0 on this side, which need not be a value of the graph. */
static bool type_of_operand(onnx_call *c, tensor *type) {
    const onnx_known *k = onnx_known_in(c, 0);
    if (k) *type = k->type;
    if (k || c->in->error->status) return k;
    weft_value *v = onnx_in(c, 0);
    if (!v) return false;
    *type = (tensor){.dtype = weft_value_dtype(v), .ndim = weft_ndim(v)};
    for (int i = 0; i < type->ndim; i++) type->shape[i] = weft_dim(v, i);
    return true;
}

/* An end of a range of axes, cut to what there is. */
static int64_t clamped(int64_t axis, int ndim) {
    if (axis < 0) axis += ndim;
    return axis < 0 ? 0 : axis > ndim ? ndim : axis;
}

const onnx_known *onnx_know_shape(onnx_call *c) {
    tensor type;
    if (!type_of_operand(c, &type)) return NULL;
    int64_t begin = clamped(onnx_int(c, "start", 0), type.ndim),
            end = clamped(onnx_int(c, "end", type.ndim), type.ndim);
    return known_of(c, WEFT_I64, 1, end > begin ? end - begin : 0, type.shape + begin);
}

const onnx_known *onnx_know_size(onnx_call *c) {
    tensor type;
    if (!type_of_operand(c, &type)) return NULL;
    int64_t n = tensor_elements(&type);
    return known_of(c, WEFT_I64, 0, 1, &n);
}
