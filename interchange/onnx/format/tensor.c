/* tensor.c - element types and elements of an ONNX file: file.h. */
#include "interchange/onnx/format/file.h"

/* ---- types ---- */

static const struct {
    int type;
    const char *name;
    int dtype; /* -1: Weft has none */
} types[] = {
    {ONNX_FLOAT, "float", WEFT_F32},
    {ONNX_UINT8, "uint8", WEFT_U8},
    {ONNX_INT8, "int8", WEFT_I8},
    {ONNX_UINT16, "uint16", WEFT_U16},
    {ONNX_INT16, "int16", -1},
    {ONNX_INT32, "int32", WEFT_I32},
    {ONNX_INT64, "int64", WEFT_I64},
    {ONNX_STRING, "string", -1},
    {ONNX_BOOL, "bool", WEFT_BOOL},
    {ONNX_FLOAT16, "float16", WEFT_F16},
    {ONNX_DOUBLE, "double", WEFT_F64},
    {ONNX_UINT32, "uint32", WEFT_U32},
    {ONNX_UINT64, "uint64", -1},
    {14, "complex64", -1},
    {15, "complex128", -1},
    {ONNX_BFLOAT16, "bfloat16", WEFT_BF16},
    {17, "float8e4m3fn", -1},
    {18, "float8e4m3fnuz", -1},
    {19, "float8e5m2", -1},
    {20, "float8e5m2fnuz", -1},
    {21, "uint4", -1},
    {22, "int4", -1},
    {23, "float4e2m1", -1},
    {24, "float8e8m0", -1},
    {25, "uint2", -1},
    {26, "int2", -1},
};
enum { N_TYPES = sizeof types / sizeof *types };

bool onnx_dtype(int type, weft_dtype *dtype) {
    for (int i = 0; i < N_TYPES; i++)
        if (types[i].type == type && types[i].dtype >= 0) return *dtype = (weft_dtype)types[i].dtype, true;
    return false;
}

int onnx_type_of(weft_dtype dtype) {
    for (int i = 0; i < N_TYPES; i++)
        if (types[i].dtype == (int)dtype) return types[i].type;
    return ONNX_UNDEFINED;
}

const char *onnx_type_name(int type) {
    for (int i = 0; i < N_TYPES; i++)
        if (types[i].type == type) return types[i].name;
    return "unknown";
}

bool onnx_is_float(weft_dtype dtype) {
    return dtype == WEFT_F32 || dtype == WEFT_F64 || dtype == WEFT_BF16 || dtype == WEFT_F16;
}

char *onnx_dotted(kit_arena *a, const char *path) {
    char *name = kit_copy(a, path);
    for (char *c = name; c && *c; c++)
        if (*c == '/') *c = '.';
    return name;
}

/* ---- elements ---- */

size_t onnx_tensor_bytes(const onnx_tensor *t) {
    weft_dtype dtype;
    size_t bytes = onnx_dtype(t->type, &dtype) ? weft_dtype_bytes(dtype) : 0;
    for (int i = 0; i < t->ndim; i++)
        if (!kit_mul(&bytes, bytes, (size_t)t->shape[i])) return 0;
    return bytes;
}

/* The typed fields of TensorProto: small elements stand in int32_data, a word each. */
enum { FLOAT_DATA = 4, INT32_DATA = 5, INT64_DATA = 7, DOUBLE_DATA = 10, UINT64_DATA = 11 };

typedef struct typed {
    uint32_t field;
    wire_kind kind; /* of one number */
} typed;

static typed field_of(int type) {
    switch (type) {
    case ONNX_FLOAT:
        return (typed){FLOAT_DATA, WIRE_FIXED32};
    case ONNX_DOUBLE:
        return (typed){DOUBLE_DATA, WIRE_FIXED64};
    case ONNX_INT64:
        return (typed){INT64_DATA, WIRE_VARINT};
    case ONNX_UINT32:
        return (typed){UINT64_DATA, WIRE_VARINT};
    default:
        return (typed){INT32_DATA, WIRE_VARINT};
    }
}

static bool next_number(wire *w, wire_kind kind, uint64_t *number) {
    if (kind == WIRE_VARINT) return wire_varint(w, number);
    return wire_fixed(w, kind == WIRE_FIXED32 ? 4 : 8, number);
}

/* Elements [first, first + n) of a tensor whose numbers stand in a typed field. */
static void read_typed(onnx_file *file, const onnx_tensor *t, size_t width, size_t first, size_t n,
                       uint8_t *into) {
    typed of = field_of(t->type);
    size_t place = 0, end = first + n;
    wire_field f;
    for (wire w = wire_of(&file->wire, t->message); wire_next(&w, &f);) {
        if (f.number != of.field) continue;
        bool is_single = f.kind == of.kind;
        wire inner = wire_of(&file->wire, f.bytes);
        uint64_t number = f.value;
        while (is_single || next_number(&inner, of.kind, &number)) {
            /* little-endian: the low bytes are the element */
            if (place >= first && place < end) memcpy(into + (place - first) * width, &number, width);
            place++;
            if (is_single) break;
        }
    }
    if (place < end)
        wire_broken(&file->wire, "tensor '%.80s' has %zu elements; its shape says more", t->name, place);
}

weft_status onnx_tensor_read(onnx_file *file, const onnx_tensor *t, size_t begin, void *into, size_t bytes,
                             weft_error *error) {
    weft_dtype dtype;
    size_t whole = onnx_tensor_bytes(t);
    bool has_raw = t->raw.end > t->raw.begin;
    if (bytes == 0) return WEFT_OK;
    if (!onnx_dtype(t->type, &dtype))
        return kit_fail(error, WEFT_TYPE, "%.300s: tensor '%.80s' is of %s, which Weft does not have",
                        file->wire.path, t->name, onnx_type_name(t->type));
    if (t->is_external) return onnx_external_read(file, t, begin, into, bytes, error);
    if (has_raw && t->raw.end - t->raw.begin != whole)
        wire_broken(&file->wire, "tensor '%.80s' has %ju bytes; its shape says %zu", t->name,
                    t->raw.end - t->raw.begin, whole);
    else if (has_raw)
        wire_copy(&file->wire, t->raw.begin + begin, into, bytes);
    else {
        size_t width = weft_dtype_bytes(dtype);
        read_typed(file, t, width, begin / width, bytes / width, into);
    }
    return kit_pass(error, &file->wire.error);
}
