/* constant.c - a tensor with one value in all elements; torch.full. The shape may contain WEFT_BATCH. No
 * operands, no gradient. */
#include "ops/kit/basic_attrs.h"
#include "ops/kit/op_kit.h"

static const op_attr attrs[] = {
    {"dtype", ATTR_DTYPE, offsetof(constant_attrs, dtype)},
    {"shape", ATTR_INTS, offsetof(constant_attrs, shape), 0, INT64_MAX},
    {"value", ATTR_REAL, offsetof(constant_attrs, value), .any_real = true},
    {0},
};

static bool infer(op_call *c) {
    const constant_attrs *a = c->attrs;
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
    .role = ROLE_CONSTANT,
    OP_ATTRS(constant_attrs, attrs),
    .infer = infer,
    .reference = reference,
    .samples = (const op_sample[]){{"", "dtype=f32 shape=2,3 value=0.5", .out = "f32[2,3]"},
                                   {"", "dtype=i64 value=7", .out = "i64[]"},
                                   {"", "dtype=f32 shape=5 value=-inf", .out = "f32[5]"},
                                   {"", "dtype=f64 shape=3 value=inf"},
                                   {"", "dtype=bf16 shape=2,3 value=nan"},
                                   {"", "dtype=f16 shape=3 value=inf"},
                                   {"", "dtype=i8 shape=67 value=-128", .out = "i8[67]"},
                                   {"", "dtype=u32 shape=3 value=4294967295"},
                                   {"", "dtype=f32 shape=-1", .error = "at least 0"},
                                   {0}},
};

weft_value *weft_constant(weft_graph *g, weft_dtype dtype, int ndim, const int64_t *shape, double value) {
    constant_attrs a = {.dtype = dtype, .value = value};
    if (!g || !shape_attr(g, "constant", &a.shape, ndim, shape)) return NULL;
    /* a wrong type fails the op's own checks */
    if (dtype_bytes(dtype) && !constant_fits(dtype, value))
        return model_fail(g->model, g, WEFT_ARGUMENT, "constant: %s cannot hold %g", dtype_name(dtype),
                          value);
    return node_value(g, &weft_op_constant, 0, NULL, &a);
}

weft_value *zeros_like(weft_value *like) {
    weft_graph *g = like->node->graph;
    weft_value *never = weft_constant(g, WEFT_BOOL, 0, NULL, 0);
    weft_value *zero = weft_constant(g, like->type.dtype, 0, NULL, 0);
    return weft_where(never, like, zero);
}
