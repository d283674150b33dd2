/* op_kit.c - see op_kit.h. */
#include "ops/kit/op_kit.h"

#include "ops/kit/basic_attrs.h"

#include <math.h>

bool infer_numbers(op_call *c) {
    const tensor_type *x = op_in(c, 0);
    if (!infer_same(c)) return false;
    for (const op_attr *f = c->op->attrs; dtype_is_wide(x->dtype) && f->name; f++) {
        if (f->kind != ATTR_REAL) continue;
        double value = *(const double *)((const char *)c->attrs + f->offset);
        if (!constant_fits(x->dtype, value))
            return op_fail(c, WEFT_ARGUMENT, "%s=%g with %s: it must be a whole number that %s can hold",
                           f->name, value, TYPE(x), dtype_name(x->dtype));
    }
    return true;
}

/* ---- reference kernels ---- */

/* The element of operand 1 that broadcasting puts at index `at` of the result is 0. */
static weft_status divided_by_zero(const kernel_call *c, const int64_t *at) {
    const tensor *b = &c->in[1];
    int64_t from[WEFT_MAX_NDIM] = {0}, number = 0;
    index_broadcast(b, &c->out[0].type, at, from);
    for (int i = 0; i < b->type.ndim; i++) number = number * b->type.shape[i] + from[i];
    return kernel_fail_at(c, number, "operand 1 is 0 (number %lld): an integer has no quotient by it",
                          (long long)number);
}

static weft_status integers_pointwise(const kernel_call *c) {
    const tensor *out = &c->out[0];
    bool divides = c->node->op->flags & OP_DIVIDES;
    int64_t at[WEFT_MAX_NDIM] = {0};
    do {
        int64_t x[4];
        for (int i = 0; i < c->n_in; i++) x[i] = element_broadcast_int(&c->in[i], &out->type, at);
        if (divides && x[1] == 0) return divided_by_zero(c, at);
        element_set_int(out, at, c->node->op->integer(x, c->attrs));
    } while (index_next(&out->type, at));
    return WEFT_OK;
}

weft_status reference_pointwise(const kernel_call *c) {
    if (node_is_integer(c->node)) return integers_pointwise(c);
    const tensor *out = &c->out[0];
    int64_t at[WEFT_MAX_NDIM] = {0};
    /* x[4]: no pointwise op has more than three operands. */
    do {
        double x[4];
        for (int i = 0; i < c->n_in; i++) x[i] = element_broadcast(&c->in[i], &out->type, at);
        element_set(out, at, c->node->op->scalar(x, c->attrs));
    } while (index_next(&out->type, at));
    return WEFT_OK;
}

static weft_status copy_elements(const tensor *out, const tensor *from) {
    int64_t at[WEFT_MAX_NDIM] = {0};
    do element_copy(out, at, from, at);
    while (index_next(&out->type, at));
    return WEFT_OK;
}

weft_status reference_copy(const kernel_call *c) {
    return copy_elements(&c->out[0], &c->in[0]);
}

/* The view's strides over the operand's memory describe the elements to copy. */
/* Both indices run in row-major order. */
weft_status reference_reshape(const kernel_call *c) {
    const tensor *x = &c->in[0], *y = &c->out[0];
    int64_t from[WEFT_MAX_NDIM] = {0}, to[WEFT_MAX_NDIM] = {0};
    do {
        element_copy(y, to, x, from);
        index_next(&x->type, from);
    } while (index_next(&y->type, to));
    return WEFT_OK;
}

weft_status reference_view(const kernel_call *c) {
    const tensor *out = &c->out[0];
    tensor from = {.data = c->in[0].data, .type = out->type};
    int64_t offset;
    if (!c->node->op->view(c->node, c->in[0].stride, from.stride, &offset))
        return error_set(c->error, WEFT_INTERNAL, "%s: no view of the operand", c->node->op->name);
    from.data = (char *)from.data + offset * (int64_t)dtype_bytes(out->type.dtype);
    return copy_elements(out, &from);
}

bool infer_compare(op_call *c) {
    if (!op_want_same_dtype(c)) return false;
    if (!shape_broadcast(op_in(c, 0), op_in(c, 1), &c->out[0]))
        return op_fail(c, WEFT_SHAPE, "%s and %s do not broadcast", TYPE(op_in(c, 0)), TYPE(op_in(c, 1)));
    c->out[0].dtype = WEFT_BOOL;
    return true;
}

bool infer_test(op_call *c) {
    c->out[0].dtype = WEFT_BOOL;
    return true;
}

/* ---- constants ---- */

/* A view of a constant is constant too. */
bool constant_value(const weft_value *v, double *value) {
    enum { VIEWS = 32 }; /* an arbitrary bound on the walk */
    for (int i = 0; v && i < VIEWS && v->node->op->flags & OP_VIEW; i++) v = v->node->in[0];
    if (!v || v->node->op->role != ROLE_CONSTANT) return false;
    *value = convert_element(v->type.dtype, ((const constant_attrs *)v->node->attrs)->value);
    return true;
}

bool constant_fits(weft_dtype dtype, double value) {
    /* The range is [least, past). `past` is exact as a double where the largest i64 is not. */
    static const double least[WEFT_DTYPES] = {
        [WEFT_I64] = -0x1p63, [WEFT_I32] = INT32_MIN, [WEFT_I8] = INT8_MIN};
    static const double past[WEFT_DTYPES] = {
        [WEFT_I64] = 0x1p63, [WEFT_I32] = 0x1p31, [WEFT_U8] = 256,    [WEFT_BOOL] = 2,
        [WEFT_I8] = 128,     [WEFT_U16] = 65536,  [WEFT_U32] = 0x1p32};
    if ((unsigned)dtype >= WEFT_DTYPES) return false;
    if (dtype_is_float(dtype)) return !isfinite(value) || isfinite(convert_element(dtype, value));
    return value >= least[dtype] && value < past[dtype] && value == floor(value);
}

/* ---- algebra ---- */

weft_value *simplify_same_type(weft_node *n) {
    return type_equal(&n->in[0]->type, &n->out[0].type) ? n->in[0] : NULL;
}

bool formula_number(const weft_node *n, int i, double *value) {
    const op_attr *f = n->op->attrs;
    for (; f && f->name; f++)
        if (f->kind == ATTR_REAL && i-- == 0) break;
    if (!f || !f->name) return false;
    *value = *(const double *)((const char *)n->attrs + f->offset);
    return true;
}

double option_number(double value, double otherwise) {
    return value == 0 ? otherwise : value == WEFT_ZERO ? 0 : value;
}
