/* linear.c - x w^T + b over the last axis of x; torch.nn.functional.linear.
 *     x [..., in]   w [out, in]   b [out] (may be left out)   ->   [..., out]
 *     dx = dy w        dw = dy^T x        db = sum of dy over all axes but the last
 * The bias of bf16 and f16 operands may be f32, and with f32_output the result is f32 too. */
#include "ops/linalg/matmul.h"

static const op_attr attrs[] = {
    {"f32_output", ATTR_BOOL, offsetof(linear_attrs, f32_output)},
    {0},
};

static bool infer(op_call *c) {
    if (!op_want_float(c, 0) || !op_want_beside(c, 2, 0)) return false;
    const tensor_type *x = op_in(c, 0), *w = op_in(c, 1);
    if (x->dtype != w->dtype)
        return op_fail(c, WEFT_TYPE, "x is %s and the weight %s: cast one to the other's type", TYPE(x),
                       TYPE(w));
    if (x->ndim < 1 || w->ndim != 2 || x->shape[x->ndim - 1] != w->shape[1])
        return op_fail(c, WEFT_SHAPE, "x %s and weight %s: the last axis of x must be the weight's axis 1",
                       TYPE(x), TYPE(w));
    if (c->n_in == 3 && c->in[2]) {
        const tensor_type *b = op_in(c, 2);
        if (b->ndim != 1 || b->shape[0] != w->shape[0])
            return op_fail(c, WEFT_SHAPE, "bias %s: it must be [%lld]", TYPE(b), (long long)w->shape[0]);
    }
    if (((const linear_attrs *)c->attrs)->f32_output) c->out[0].dtype = dtype_accumulator(x->dtype);
    c->out[0].shape[x->ndim - 1] = w->shape[0];
    return true;
}

/* v as a matrix [rows, columns]: all axes but the last are merged. */
static weft_value *rows_of(weft_value *v) {
    if (!v || v->type.ndim == 2) return v;
    int64_t columns = v->type.shape[v->type.ndim - 1];
    return weft_reshape(v, 2, (int64_t[]){type_elements(&v->type) / columns, columns});
}

/* dy summed over all axes but the last. */
static weft_value *bias_gradient(weft_value *dy) {
    int64_t axes[WEFT_MAX_NDIM];
    for (int i = 0; i < dy->type.ndim - 1; i++) axes[i] = i;
    return dy->type.ndim > 1 ? weft_sum(dy, dy->type.ndim - 1, axes, false) : dy;
}

static void gradient(weft_node *n, weft_value *const *dout, const bool *wanted, weft_value **din) {
    weft_value *x = n->in[0], *w = n->in[1], *dy = rows_of(dout[0]);
    if (wanted[0]) {
        din[0] = weft_matmul(dy, w, false, false);
        if (x->type.ndim != 2) din[0] = weft_reshape(din[0], x->type.ndim, x->type.shape);
    }
    if (wanted[1]) din[1] = weft_matmul(dy, rows_of(x), true, false);
    if (n->n_in == 3 && wanted[2]) din[2] = bias_gradient(dout[0]);
}

/* xi is the index of x for element `at` of y. */
static weft_status reference(const kernel_call *c) {
    const tensor *x = &c->in[0], *w = &c->in[1], *y = &c->out[0];
    int last = y->type.ndim - 1;
    int64_t at[WEFT_MAX_NDIM] = {0};
    do {
        int64_t o = at[last], xi[WEFT_MAX_NDIM];
        for (int i = 0; i < last; i++) xi[i] = at[i];
        double sum = c->n_in == 3 && c->in[2].data ? element_get(&c->in[2], &o) : 0;
        xi[last] = 0;
        element_line row = {x, element_place(x, xi), x->stride[last]},
                     weights = {w, element_place(w, (int64_t[]){o, 0}), w->stride[1]};
        element_set(y, at, elements_dot(sum, row, weights, w->type.shape[1]));
    } while (index_next(&y->type, at));
    return WEFT_OK;
}

const weft_op weft_op_linear = {
    .name = "linear",
    .summary = "x w^T + b over the last axis",
    .torch = "torch.nn.functional.linear",
    .min_in = 2,
    .max_in = 3,
    .of_nothing = EMPTY_ADDED,
    OP_ATTRS(linear_attrs, attrs),
    .precision = PRECISION_REDUCED,
    /* x and w are reduced; the bias is f32. */
    .f32_in = 1 << 2,
    .kinds = {0, 0, WEFT_PARAMS_BIAS},
    .infer = infer,
    .gradient = gradient,
    .reference = reference,
    .samples =
        (const op_sample[]){
            {"f32[4,3], f32[5,3], f32[5]", .out = "f32[4,5]"},
            {"bf16[4,64], bf16[48,64], f32[48]", .out = "bf16[4,48]", .no_gradient = true},
            {"bf16[4,64], bf16[48,64]", "f32_output=1", .out = "f32[4,48]", .no_gradient = true},
            {"f16[33,64], f16[48,64], f16[48]", .out = "f16[33,48]", .no_gradient = true},
            {"f32[4,3], f32[5,3], bf16[5]", .error = "cast one"},
            {"f32[2,4,3], f32[5,3]", .out = "f32[2,4,5]"},
            {"f32[3], f32[5,3], f32[5]", .out = "f32[5]"},
            /* too large for differences element by element */
            {"f32[3,17,64], f32[80,64], f32[80]", .out = "f32[3,17,80]", .no_gradient = true},
            {"f32[4,3], f32[5,4]", .error = "the last axis of x must be the weight's axis 1"},
            {"f32[4,3], f32[5,3], f32[4]", .error = "it must be [5]"},
            {0}},
};

weft_value *weft_linear_op(weft_value *x, weft_value *w, weft_value *b) {
    return op_value(&weft_op_linear, b ? 3 : 2, (weft_value *[]){x, w, b}, NULL);
}
