/* known.c - values that are known while importing, and initializers as such. */
#include "interchange/onnx/import/import.h"

#include "runtime/data/convert.h"

/* Whether so many bytes more are within what known values may have: files may be hostile. */
static bool has_room(importer *in, size_t bytes) {
    if (bytes <= ONNX_KNOWN_BYTES - in->known_bytes) {
        in->known_bytes += bytes;
        return true;
    }
    const onnx_node *n = in->node;
    char place[200] = "";
    if (n) snprintf(place, sizeof place, "node %d '%.80s' (%.60s): ", n->index, n->name, n->op);
    kit_fail(in->error, WEFT_UNSUPPORTED,
             "%.300s: %sthe values that are known while importing have more than %d GiB",
             in->onnx->file.wire.path, place, (int)(ONNX_KNOWN_BYTES >> 30));
    return false;
}

onnx_known *onnx_known_new(importer *in, const tensor *type) {
    size_t bytes = weft_dtype_bytes(type->dtype);
    for (int i = 0; i < type->ndim; i++)
        if (!kit_mul(&bytes, bytes, (size_t)type->shape[i])) bytes = SIZE_MAX;
    if (!has_room(in, bytes)) return NULL;
    onnx_known *k = kit_take(in->arena, 1, sizeof *k);
    if (k) *k = (onnx_known){*type, kit_take(in->arena, bytes ? bytes : 1, 1)};
    if (k && k->data) return k;
    kit_no_memory(in->error, "a constant");
    return NULL;
}

bool onnx_known_equal(const onnx_known *a, const onnx_known *b) {
    return a && b && a->type.dtype == b->type.dtype && a->type.ndim == b->type.ndim &&
           !memcmp(a->type.shape, b->type.shape, sizeof a->type.shape) &&
           !memcmp(a->data, b->data, tensor_bytes(&a->type));
}

double onnx_known_number(const onnx_known *k, int64_t i) {
    const char *at = (const char *)k->data + (size_t)i * weft_dtype_bytes(k->type.dtype);
    double number = 0;
    convert_numbers(k->type.dtype, at, WEFT_F64, &number, 1, true);
    return number;
}

/* ---- initializers ---- */

static const onnx_known *read_initializer(importer *in, const onnx_tensor *t) {
    weft_dtype dtype;
    if (!onnx_dtype(t->type, &dtype)) {
        kit_fail(in->error, WEFT_TYPE, "%.300s: tensor '%.80s' is of %s, which Weft does not have",
                 in->onnx->file.wire.path, t->name, onnx_type_name(t->type));
        return NULL;
    }
    tensor type = tensor_of(dtype, t->ndim, t->shape);
    onnx_known *k = onnx_known_new(in, &type);
    if (!k || onnx_tensor_read(&in->onnx->file, t, 0, k->data, onnx_tensor_bytes(t), in->error)) return NULL;
    return k;
}

bool onnx_is_parameter(const onnx_value *v) {
    weft_dtype dtype;
    const onnx_tensor *t = v->initializer;
    if (!t || t->is_constant || !onnx_dtype(t->type, &dtype) || v->known[0]) return false;
    return onnx_is_float(dtype) && onnx_tensor_bytes(t) > weft_dtype_bytes(dtype);
}

const onnx_known *onnx_known_of(importer *in, onnx_value *v, int side) {
    if (v->known[side] || !v->initializer) return v->known[side];
    const onnx_known *k = read_initializer(in, v->initializer);
    if (!k || onnx_is_parameter(v)) return k; /* it stays a parameter for the graph */
    v->known[0] = v->known[1] = k;
    return k;
}
