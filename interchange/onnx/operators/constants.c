/* constants.c - operators whose results are known from attributes and types: Constant, Shape, Size; and
 * constants that a rule fills: ConstantOfShape, Range, EyeLike. */
#include "interchange/onnx/operators/families.h"
#include "interchange/onnx/import/types.h"

static const onnx_known *known_of(onnx_call *c, weft_dtype dtype, int ndim, int64_t n, const void *data) {
    tensor type = tensor_of(dtype, ndim, &n);
    onnx_known *k = onnx_known_new(c->in, &type);
    if (k && n) memcpy(k->data, data, (size_t)n * weft_dtype_bytes(dtype));
    return k;
}

static const onnx_known *known_of_tensor(onnx_call *c, const onnx_tensor *t) {
    weft_dtype dtype;
    if (!t || !onnx_dtype(t->type, &dtype)) {
        onnx_refuse(c, "its value is of %s, which Weft does not have",
                    t ? onnx_type_name(t->type) : "no type");
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

/* An end of a range of axes, cut to what there is. */
static int64_t clamped(int64_t axis, int ndim) {
    if (axis < 0) axis += ndim;
    return axis < 0 ? 0 : axis > ndim ? ndim : axis;
}

const onnx_known *onnx_know_shape(onnx_call *c) {
    tensor type;
    if (!onnx_operand_type(c, 0, &type)) return NULL;
    int64_t begin = clamped(onnx_int(c, "start", 0), type.ndim),
            end = clamped(onnx_int(c, "end", type.ndim), type.ndim);
    return known_of(c, WEFT_I64, 1, end > begin ? end - begin : 0, type.shape + begin);
}

const onnx_known *onnx_know_size(onnx_call *c) {
    tensor type;
    if (!onnx_operand_type(c, 0, &type)) return NULL;
    int64_t n = tensor_elements(&type);
    return known_of(c, WEFT_I64, 0, 1, &n);
}

/* ---- filled by a rule ---- */

/* Lengths of a shape that is operand 0; NULL after an error. */
static const int64_t *shape_in(onnx_call *c, int *n) {
    const int64_t *shape = onnx_lengths(c, 0, n);
    if (!shape) return NULL;
    if (*n > WEFT_MAX_NDIM)
        return onnx_refuse(c, "a shape of %d axes; %d are the most", *n, WEFT_MAX_NDIM), NULL;
    for (int i = 0; i < *n; i++)
        if (shape[i] == ONNX_DEPENDS)
            return onnx_refuse(c, "length %d depends on the batch and is not the batch", i), NULL;
    return shape;
}

/* One number over a whole shape; an f32 0 where none is given. */
weft_value *onnx_build_constant_of_shape(onnx_call *c) {
    static const float zero = 0;
    const onnx_attribute *a = onnx_attribute_of(c, "value");
    const onnx_known *k = a ? known_of_tensor(c, a->tensor) : known_of(c, WEFT_F32, 1, 1, &zero);
    int64_t ones[WEFT_MAX_NDIM];
    int n;
    const int64_t *shape = shape_in(c, &n);
    if (!k || !shape) return NULL;
    if (tensor_elements(&k->type) != 1)
        return onnx_refuse(c, "its value has %jd elements; one is needed", tensor_elements(&k->type));
    for (int i = 0; i < n; i++) ones[i] = 1;
    weft_value *element = weft_constant_tensor(onnx_graph_of(c), k->type.dtype, n, ones, k->data);
    return n ? weft_broadcast_to(element, n, shape) : element;
}

/* From start by steps of delta, before limit, which may be the batch. */
weft_value *onnx_build_range(onnx_call *c) {
    tensor type;
    int n;
    double start = onnx_number(c, 0, 0), step = onnx_number(c, 2, 1);
    onnx_int(c, "stash_type", 1); /* elements are computed as doubles */
    if (!onnx_operand_type(c, 0, &type)) return NULL;
    const int64_t *length = onnx_lengths(c, 1, &n);
    if (c->in->error->status) return NULL;
    if (length && n == 1 && *length == WEFT_BATCH && start == 0 && step == 1)
        return weft_arange(onnx_graph_of(c), type.dtype, 0, (double)WEFT_BATCH, 1);
    double limit = onnx_number(c, 1, 0);
    if (c->in->error->status) return NULL;
    if (step == 0) return onnx_refuse(c, "delta is 0");
    bool is_empty = step > 0 ? limit <= start : limit >= start;
    return weft_arange(onnx_graph_of(c), type.dtype, is_empty ? 0 : start, is_empty ? 0 : limit,
                       is_empty ? 1 : step);
}

/* 0, 1, ... along one of two axes, which may be the batch. */
static weft_value *places(onnx_call *c, int64_t length, int axis) {
    return weft_unsqueeze(weft_arange(onnx_graph_of(c), WEFT_I64, 0, (double)length, 1), 1 - axis);
}

/* Ones where the column is the row and k more, else zeros. */
weft_value *onnx_build_eye_like(onnx_call *c) {
    tensor type;
    weft_dtype dtype;
    int64_t shape[WEFT_MAX_NDIM], k = onnx_int(c, "k", 0);
    if (!onnx_operand_type(c, 0, &type) || !onnx_dtype_of(c, "dtype", type.dtype, &dtype)) return NULL;
    if (type.ndim != 2) return onnx_refuse(c, "x has %d axes; 2 are taken", type.ndim);
    onnx_shape_of(c, 0, shape);
    if (shape[0] == ONNX_DEPENDS || shape[1] == ONNX_DEPENDS)
        return onnx_refuse(c, "a length depends on the batch and is not the batch");
    weft_value *rows = places(c, shape[0], 0), *columns = places(c, shape[1], 1);
    return onnx_as(weft_equal(weft_offset(rows, (double)k), columns), dtype);
}
