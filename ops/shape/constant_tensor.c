/* constant_tensor.c - a tensor whose elements the model holds; torch.tensor. They are an attribute: saved,
 * compared and merged as such. The layout pass gives equal ones one place in the session, which is filled
 * when it opens, so that no run copies them. No operands, no gradient. */
#include "ops/kit/op_kit.h"

#include "graph/core/limits.h"

#include <string.h>

typedef struct constant_tensor_attrs {
    weft_dtype dtype;
    attr_ints shape;
    attr_bytes data;
} constant_tensor_attrs;

static const op_attr attrs[] = {
    {"dtype", ATTR_DTYPE, offsetof(constant_tensor_attrs, dtype)},
    {"shape", ATTR_INTS, offsetof(constant_tensor_attrs, shape), 0, (int64_t)1 << 46},
    {"data", ATTR_BYTES, offsetof(constant_tensor_attrs, data)},
    {0},
};

/* Kernels take a bool for 0 or 1. */
static bool are_bools(const attr_bytes *v) {
    for (size_t i = 0; i < v->n; i++)
        if (v->data[i] > 1) return false;
    return true;
}

/* Other shapes that no tensor has fail after infer. */
static bool infer(op_call *c) {
    const constant_tensor_attrs *a = c->attrs;
    c->out[0] = type_of(a->dtype, a->shape.n, a->shape.v);
    if (!type_check_or_empty(&c->out[0])) return true;
    size_t bytes = type_bytes(&c->out[0]);
    if (bytes > MODEL_MAX_CONSTANT_BYTES)
        return op_fail(c, WEFT_SHAPE, "%s has %zu bytes, at most %d are allowed: feed it as an input",
                       TYPE(&c->out[0]), bytes, MODEL_MAX_CONSTANT_BYTES);
    if (a->data.n != bytes || (bytes && !a->data.data))
        return op_fail(c, WEFT_ARGUMENT, "%s has %zu bytes, but there are %zu", TYPE(&c->out[0]), bytes,
                       a->data.n);
    return a->dtype != WEFT_BOOL || are_bools(&a->data) ||
           op_fail(c, WEFT_ARGUMENT, "an element of bool is neither 0 nor 1");
}

static weft_status reference(const kernel_call *c) {
    const constant_tensor_attrs *a = c->attrs;
    memcpy(c->out[0].data, a->data.data, a->data.n);
    return WEFT_OK;
}

const weft_op weft_op_constant_tensor = {
    .name = "constant_tensor",
    .summary = "a tensor whose elements the model holds",
    .torch = "torch.tensor",
    .flags = OP_NO_GRADIENT,
    OP_ATTRS(constant_tensor_attrs, attrs),
    .infer = infer,
    .reference = reference,
    .samples =
        (const op_sample[]){
            {"", "dtype=f32 shape=2,2 data=0000803f000000400000404000008040", .out = "f32[2,2]"},
            {"", "dtype=f64 data=182d4454fb210940", .out = "f64[]"},
            {"", "dtype=bf16 shape=3 data=803f0040c17f", .out = "bf16[3]"},
            {"", "dtype=f16 shape=1,2 data=003c0040", .out = "f16[1,2]"},
            {"", "dtype=i64 shape=2 data=0100000000000000ffffffffffffffff"},
            {"", "dtype=i32 shape=1 data=ffffff7f", .out = "i32[1]"},
            {"", "dtype=u8 shape=2,1,2 data=00ff0180", .out = "u8[2,1,2]"},
            {"", "dtype=bool shape=3 data=000101", .out = "bool[3]"},
            {"", "dtype=u16 shape=2 data=ffff0100", .out = "u16[2]"},
            {"", "dtype=bool shape=3 data=000201", .error = "neither 0 nor 1"},
            {"", "dtype=f32 shape=2 data=0000803f", .error = "f32[2] has 8 bytes, but there are 4"},
            {"", "dtype=f32 shape=2", .error = "there are 0"},
            {"", "dtype=f32 shape=-1", .error = "shape=-1: it must be 0 to"},
            {"", "dtype=f32 data=0000803", .error = "the value of data cannot be read"},
            {"", "dtype=f32 shape=8388609", .error = "at most 33554432 are allowed"},
            {0}},
};

const attr_bytes *constant_bytes(const weft_node *n) {
    return &((const constant_tensor_attrs *)n->attrs)->data;
}

weft_value *weft_constant_tensor(weft_graph *g, weft_dtype dtype, int ndim, const int64_t *shape,
                                 const void *data) {
    constant_tensor_attrs a = {.dtype = dtype};
    if (!g || !shape_attr(g, "constant_tensor", &a.shape, ndim, shape)) return NULL;
    for (int i = 0; i < a.shape.n; i++)
        if (a.shape.v[i] == WEFT_BATCH)
            return model_fail(g->model, g, WEFT_SHAPE,
                              "constant_tensor: axis %d is WEFT_BATCH, but its data have one length: use 1, "
                              "which broadcasts, or an input",
                              i);
    tensor_type type = type_of(dtype, a.shape.n, a.shape.v);
    if (!data && !type_is_empty(&type))
        return model_fail(g->model, g, WEFT_ARGUMENT, "constant_tensor: data is NULL");
    /* `data` is as large as the type says; what is not a type, or too large, is not read and fails in
     * infer. */
    if (dtype_bytes(dtype) && type_check(&type) && type_bytes(&type) <= MODEL_MAX_CONSTANT_BYTES)
        a.data = attr_bytes_of(data, type_bytes(&type));
    return node_value(g, &weft_op_constant_tensor, 0, NULL, &a);
}
