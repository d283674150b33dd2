/* constant.c - a tensor with one value in all elements; torch.full. The shape may contain WEFT_BATCH. No
 * operands, no gradient. */
#include "ops/kit/op_kit.h"

#include <math.h>

typedef struct constant_attrs {
    weft_dtype dtype;
    attr_ints shape;
    double value;
} constant_attrs;

static const op_attr attrs[] = {
    {"dtype", ATTR_DTYPE, offsetof(constant_attrs, dtype), 0, 0},
    {"shape", ATTR_INTS, offsetof(constant_attrs, shape), 1, INT64_MAX},
    {"value", ATTR_REAL, offsetof(constant_attrs, value), 0, 0},
    {0},
};

static bool infer(op_call *c) {
    const constant_attrs *a = c->attrs;
    c->n_out = 1;
    c->out[0] = type_of(a->dtype, a->shape.n, a->shape.v);
    return shape_bind(c, &c->out[0]);
}

static weft_status reference(const kernel_call *c) {
    const constant_attrs *a = c->attrs;
    int64_t at[WEFT_MAX_NDIM] = {0};
    do element_set(&c->out[0], at, a->value);
    while (index_next(&c->out[0].type, at));
    return WEFT_OK;
}

const weft_op weft_op_constant = {
    .name = "constant",
    .summary = "a tensor filled with one value",
    .torch = "torch.full",
    .flags = OP_NO_GRADIENT,
    .attrs_bytes = sizeof(constant_attrs),
    .attrs = attrs,
    .infer = infer,
    .reference = reference,
    .samples = (const op_sample[]){{"", "dtype=f32 shape=2,3 value=0.5", .out = "f32[2,3]"},
                                   {"", "dtype=i64 value=7", .out = "i64[]"},
                                   {"", "dtype=f32 shape=0", .error = "at least 1"},
                                   {0}},
};

/* A view of a constant is constant too. */
bool constant_value(const weft_value *v, double *value) {
    enum { VIEWS = 32 }; /* an arbitrary bound on the walk */
    for (int i = 0; v && i < VIEWS && v->node->op->flags & OP_VIEW; i++) v = v->node->in[0];
    if (!v || v->node->op != &weft_op_constant) return false;
    *value = convert_element(v->type.dtype, ((const constant_attrs *)v->node->attrs)->value);
    return true;
}

bool constant_fits(weft_dtype dtype, double value) {
    /* The range is [least, past). `past` is exact as a double where the largest i64 is not. */
    static const double least[WEFT_DTYPES] = {[WEFT_I64] = -0x1p63, [WEFT_I32] = INT32_MIN};
    static const double past[WEFT_DTYPES] = {
        [WEFT_I64] = 0x1p63, [WEFT_I32] = 0x1p31, [WEFT_U8] = 256, [WEFT_BOOL] = 2};
    if ((unsigned)dtype >= WEFT_DTYPES) return false;
    if (dtype_is_float(dtype)) return isfinite(convert_element(dtype, value));
    return value >= least[dtype] && value < past[dtype] && value == floor(value);
}

weft_value *weft_constant(weft_graph *g, weft_dtype dtype, int ndim, const int64_t *shape, double value) {
    constant_attrs a = {.dtype = dtype, .value = value};
    if (!g || !shape_attr(g, "constant", &a.shape, ndim, shape)) return NULL;
    /* other values fail the op's own checks */
    if (isfinite(value) && dtype_bytes(dtype) && !constant_fits(dtype, value))
        return model_fail(g->model, g, WEFT_ARGUMENT, "constant: %s cannot hold %g", dtype_name(dtype), value);
    return node_value(g, &weft_op_constant, 0, NULL, &a);
}
