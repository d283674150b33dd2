/* rotary.c - rotary position embedding: pair i of the columns of row t is rotated by the angle (offset + t)
 * base^(-2 i / dims). Su et al., RoFormer, arXiv 2104.09864, equation 34.
 *     x [..., T, D]  ->  [..., T, D]        (a, b) -> (a cos - b sin, b cos + a sin)
 * Pairs are neighbours (interleaved), as in the paper, or the two halves of the columns, as in GPT-NeoX and
 * Llama. One pass over x: made of builders it would be two fused nodes, the tables of both functions and a
 * concat. A rotation is orthogonal, so its gradient is the inverse rotation, and so on. Angles grow with
 * the position, so all kernels compute them in f64. */
#include "ops/attention/rotary.h"

#include "ops/kit/op_kit.h"

#include <math.h>

static const op_attr attrs[] = {
    {"base", ATTR_REAL, offsetof(rotary_attrs, base)},
    {"offset", ATTR_INT, offsetof(rotary_attrs, offset), 0, INT64_C(1) << 40},
    {"dims", ATTR_INT, offsetof(rotary_attrs, dims), 0, INT64_MAX},
    {"interleaved", ATTR_BOOL, offsetof(rotary_attrs, interleaved)},
    {"inverse", ATTR_BOOL, offsetof(rotary_attrs, inverse)},
    {0},
};

static bool infer(op_call *c) {
    const rotary_attrs *a = c->attrs;
    const tensor_type *x = op_in(c, 0);
    if (!infer_same(c)) return false;
    if (x->ndim < 2) return op_fail(c, WEFT_SHAPE, "%s: x must be [..., T, D]", TYPE(x));
    if (!(a->base > 0)) return op_fail(c, WEFT_ARGUMENT, "base %g: it must be above 0", a->base);
    int64_t columns = x->shape[x->ndim - 1], dims = a->dims ? a->dims : columns;
    if (dims % 2 || dims > columns)
        return op_fail(c, WEFT_SHAPE, "%lld columns of %s: an even number, at most D, can be rotated",
                       (long long)dims, TYPE(x));
    return true;
}

static void gradient(weft_node *n, weft_value *const *dout, const bool *wanted, weft_value **din) {
    rotary_attrs a = *(const rotary_attrs *)n->attrs;
    a.inverse = !a.inverse;
    if (wanted[0]) din[0] = node_value(n->graph, n->op, 1, dout, &a);
}

/* Pair i of one row, whose index is `at` except for the column. */
static void rotate_pair(const kernel_call *c, int64_t *at, int64_t i, int64_t pairs) {
    const rotary_attrs *a = c->attrs;
    int last = c->in[0].type.ndim - 1;
    double angle = (double)(a->offset + at[last - 1]) * pow(a->base, (double)-i / (double)pairs);
    double s = a->inverse ? -sin(angle) : sin(angle), p[2];
    const int64_t column[] = {a->interleaved ? 2 * i : i, a->interleaved ? 2 * i + 1 : i + pairs};
    for (int k = 0; k < 2; k++) {
        at[last] = column[k];
        p[k] = element_get(&c->in[0], at);
    }
    for (int k = 0; k < 2; k++) {
        at[last] = column[k];
        element_set(&c->out[0], at, p[k] * cos(angle) + (k ? p[0] : -p[1]) * s);
    }
}

static weft_status reference(const kernel_call *c) {
    tensor_type rows = c->in[0].type;
    int last = rows.ndim - 1;
    int64_t columns = rows.shape[last], pairs = rotary_pairs(c->attrs, columns), at[WEFT_MAX_NDIM] = {0};
    rows.shape[last] = 1;
    do {
        for (int64_t i = 0; i < pairs; i++) rotate_pair(c, at, i, pairs);
        for (at[last] = 2 * pairs; at[last] < columns; at[last]++)
            element_set(&c->out[0], at, element_get(&c->in[0], at));
        at[last] = 0;
    } while (index_next(&rows, at));
    return WEFT_OK;
}

const weft_op weft_op_rotary = {
    .name = "rotary",
    .summary = "rotates pairs of columns by angles that grow with the row: rotary position embedding",
    .min_in = 1,
    OP_ATTRS(rotary_attrs, attrs),
    .reference_strided = 1,
    .in_place = 1,
    .precision = PRECISION_FOLLOWS,
    .infer = infer,
    .gradient = gradient,
    .reference = reference,
    .samples =
        (const op_sample[]){
            {"f32[2,3,5,8]", "base=10000", .out = "f32[2,3,5,8]"},
            {"f32[2,3,5,8]", "base=10000 interleaved=1 offset=7"},
            {"f32[4,7]", "base=100 dims=4 inverse=1"},
            {"f32[3,4,6]", "base=500 dims=2 offset=3 interleaved=1 inverse=1"},
            {"f32[2,1,3,2,2]", "base=10000"},
            /* more rows than a kernel takes at a time, more heads, positions far away */
            {"f32[2,19,150,10]", "base=10000 offset=4000", .no_gradient = true},
            {"f32[40,70,34]", "base=500000 dims=32 interleaved=1 offset=100000", .no_gradient = true},
            {"f32[8]", "base=10000", .error = "x must be [..., T, D]"},
            {"f32[2,7]", "base=10000", .error = "7 columns of f32[2,7]: an even number"},
            {"f32[2,8]", "base=10000 dims=10", .error = "at most D"},
            {"f32[2,8]", "base=-1", .error = "must be above 0"},
            {"i32[2,8]", "base=10000", .error = "floating point"},
            {0}},
};

weft_value *weft_rotary(weft_value *x, const weft_rotary_options *options) {
    weft_rotary_options o = options ? *options : (weft_rotary_options){0};
    rotary_attrs a = {.base = o.base != 0 ? o.base : 10000,
                      .offset = o.offset,
                      .dims = o.dims,
                      .interleaved = o.interleaved};
    if (x && !value_reserved(x, "rotary", o.reserved, sizeof o.reserved)) return NULL;
    return op_value(&weft_op_rotary, 1, &x, &a);
}
