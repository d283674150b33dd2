/* matmul.c - products of matrices in the last two axes, where the axes before them broadcast; torch.matmul,
 * except for operands of at least two axes.
 *     a [..., m, k] ([..., k, m] with transpose_a)   b [..., k, n] ([..., n, k])   ->   c [..., m, n]
 *     without transposes: da = dc b^T, db = a^T dc, summed to the operand's shape where it was broadcast
 * With f32_output bf16 and f16 operands give an f32 result. */
#include "ops/linalg/matmul.h"

static const op_attr attrs[] = {
    {"transpose_a", ATTR_BOOL, offsetof(matmul_attrs, transpose_a)},
    {"transpose_b", ATTR_BOOL, offsetof(matmul_attrs, transpose_b)},
    {"f32_output", ATTR_BOOL, offsetof(matmul_attrs, f32_output)},
    {0},
};

/* The axes of a before the last two. */
static tensor_type batch_of(const tensor_type *a) {
    return type_of(a->dtype, a->ndim - 2, a->shape);
}

static bool infer(op_call *c) {
    const matmul_attrs *t = c->attrs;
    if (!op_want_float(c, 0) || !op_want_same_dtype(c)) return false;
    const tensor_type *a = op_in(c, 0), *b = op_in(c, 1);
    if (a->ndim < 2 || b->ndim < 2)
        return op_fail(c, WEFT_SHAPE, "a %s and b %s: both must have at least 2 axes", TYPE(a), TYPE(b));
    int64_t inner_a = a->shape[a->ndim - (t->transpose_a ? 2 : 1)];
    int64_t inner_b = b->shape[b->ndim - (t->transpose_b ? 1 : 2)];
    if (inner_a != inner_b)
        return op_fail(c, WEFT_SHAPE, "a %s%s and b %s%s: the inner axes are %lld and %lld", TYPE(a),
                       t->transpose_a ? " transposed" : "", TYPE(b), t->transpose_b ? " transposed" : "",
                       (long long)inner_a, (long long)inner_b);
    tensor_type batch_a = batch_of(a), batch_b = batch_of(b);
    if (!shape_broadcast(&batch_a, &batch_b, &c->out[0]))
        return op_fail(c, WEFT_SHAPE, "a %s and b %s: the axes before the last two do not broadcast", TYPE(a),
                       TYPE(b));
    if (t->f32_output) c->out[0].dtype = dtype_accumulator(a->dtype);
    c->out[0].shape[c->out[0].ndim++] = a->shape[a->ndim - (t->transpose_a ? 1 : 2)];
    c->out[0].shape[c->out[0].ndim++] = b->shape[b->ndim - (t->transpose_b ? 2 : 1)];
    return true;
}

/* The transposes of the operands are folded into those of the gradient products, so nothing is transposed in
 * memory. */
static void gradient(weft_node *n, weft_value *const *dout, const bool *wanted, weft_value **din) {
    const matmul_attrs *t = n->attrs;
    weft_value *a = n->in[0], *b = n->in[1], *dc = dout[0];
    if (wanted[0])
        din[0] = sum_to(t->transpose_a ? weft_matmul(b, dc, t->transpose_b, true)
                                       : weft_matmul(dc, b, false, !t->transpose_b),
                        a);
    if (wanted[1])
        din[1] = sum_to(t->transpose_b ? weft_matmul(dc, a, true, t->transpose_a)
                                       : weft_matmul(a, dc, !t->transpose_a, false),
                        b);
}

/* A row or a column of that matrix of `t` which broadcasts to index `at` of a result with `ndim` axes. */
static element_line line_of(const tensor *t, const int64_t *at, int ndim, int64_t row, int64_t column,
                            bool is_row) {
    int64_t from[WEFT_MAX_NDIM];
    int last = t->type.ndim - 1;
    for (int i = 0; i < last - 1; i++) from[i] = t->type.shape[i] == 1 ? 0 : at[ndim - 1 - last + i];
    from[last - 1] = row;
    from[last] = column;
    return (element_line){t, element_place(t, from), t->stride[is_row ? last : last - 1]};
}

/* One dot product for each element, in double. */
static weft_status reference(const kernel_call *c) {
    const matmul_attrs *t = c->attrs;
    const tensor *a = &c->in[0], *b = &c->in[1], *out = &c->out[0];
    int ndim = out->type.ndim;
    int64_t inner = a->type.shape[a->type.ndim - (t->transpose_a ? 2 : 1)], at[WEFT_MAX_NDIM] = {0};
    do {
        int64_t row = at[ndim - 2], column = at[ndim - 1];
        element_line x =
            t->transpose_a ? line_of(a, at, ndim, 0, row, false) : line_of(a, at, ndim, row, 0, true);
        element_line y =
            t->transpose_b ? line_of(b, at, ndim, column, 0, true) : line_of(b, at, ndim, 0, column, false);
        element_set(out, at, elements_dot(0, x, y, inner));
    } while (index_next(&out->type, at));
    return WEFT_OK;
}

const weft_op weft_op_matmul = {
    .name = "matmul",
    .summary = "a b over the last two axes; the others broadcast",
    .torch = "torch.matmul",
    .min_in = 2,
    .of_nothing = EMPTY_ZEROS,
    OP_ATTRS(matmul_attrs, attrs),
    .reference_strided = 3,
    .precision = PRECISION_REDUCED,
    /* Both operands are reduced; f32_output makes the result f32. */
    .infer = infer,
    .gradient = gradient,
    .reference = reference,
    .samples =
        (const op_sample[]){
            {"f32[3,4], f32[4,5]", .out = "f32[3,5]"},
            {"bf16[3,4], bf16[4,5]", .out = "bf16[3,5]",
             .no_gradient = true}, /* too coarse for differences */
            {"bf16[37,64], bf16[80,64]", "transpose_b=1 f32_output=1", .out = "f32[37,80]",
             .no_gradient = true},
            {"f16[2,37,64], f16[64,48]", .out = "f16[2,37,48]", .no_gradient = true},
            {"f32[4,3], f32[4,5]", "transpose_a=1", .out = "f32[3,5]"},
            {"f32[3,4], f32[5,4]", "transpose_b=1", .out = "f32[3,5]"},
            {"f32[4,3], f32[5,4]", "transpose_a=1 transpose_b=1", .out = "f32[3,5]"},
            {"f32[2,3,4], f32[4,5]", .out = "f32[2,3,5]"},
            {"f32[3,4], f32[2,4,5]", .out = "f32[2,3,5]"},
            {"f32[2,1,3,4], f32[5,6,4]", "transpose_b=1", .out = "f32[2,5,3,6]"},
            {"f32[2,3,4,2], f32[2,3,4,3]", "transpose_a=1", .out = "f32[2,3,2,3]"},
            {"f32[3,1], f32[1,5]", .out = "f32[3,5]"},
            {"f32[1,4], f32[4,1]", .out = "f32[1,1]"},
            /* too large for differences element by element */
            {"f32[70,65], f32[33,65]", "transpose_b=1", .out = "f32[70,33]", .no_gradient = true},
            {"f32[4,64,32], f32[4,64,48]", "transpose_a=1", .out = "f32[4,32,48]", .no_gradient = true},
            {"f32[3,4], f32[5,4]", .error = "the inner axes are 4 and 5"},
            {"f32[3,4], f32[4,5]", "transpose_a=1",
             .error = "f32[3,4] transposed and b f32[4,5]: the inner axes are 3 and 4"},
            {"f32[2,3,4], f32[3,4,5]", .error = "the axes before the last two do not broadcast"},
            {"f32[4], f32[4,5]", .error = "at least 2 axes"},
            {"f32[3,4], f64[4,5]", .error = "cast one"},
            {"i32[3,4], i32[4,5]", .error = "must be floating point"},
            {0}},
};

weft_value *weft_matmul(weft_value *a, weft_value *b, bool transpose_a, bool transpose_b) {
    matmul_attrs t = {.transpose_a = transpose_a, .transpose_b = transpose_b};
    return op_value(&weft_op_matmul, 2, (weft_value *[]){a, b}, &t);
}
