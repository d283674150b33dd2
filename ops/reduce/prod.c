/* prod.c - the product over some axes; torch.prod. It is i64 for integers and bool, modulo 2^64. dx[i] = dy
 * times the product of all other elements: that of those before times that of those after, without a
 * division, so zeros need no exception. Where a part of that overflows (1e30, 1e30, 1e-30, 1e-30) it is the
 * whole product by x[i], as PyTorch has it. PyTorch computes the gradient from y where x has no zero, and
 * from x alone elsewhere; here it is from x alone, whatever the numbers are. */
#include "ops/reduce/reduce.h"
#include "ops/reduce/scan.h"

static const op_attr attrs[] = {REDUCE_ATTRS, {0}};

static bool infer(op_call *c) {
    return reduce_infer(c, reduce_total(op_in(c, 0)->dtype));
}

/* The product of all other elements along one axis. */
static weft_value *others(weft_value *x, int64_t axis) {
    weft_value *before = scan_product_before(x, axis, false), *after = scan_product_before(x, axis, true);
    return weft_mul(before, after);
}

/* The same over several axes: they are moved after the kept ones and made one. */
static weft_value *others_of_axes(weft_value *x, unsigned mask) {
    const tensor_type *t = &x->type;
    int64_t order[WEFT_MAX_NDIM], back[WEFT_MAX_NDIM], moved[WEFT_MAX_NDIM], merged[WEFT_MAX_NDIM];
    int n = 0, kept;
    for (int i = 0; i < t->ndim; i++)
        if (!(mask >> i & 1)) order[n++] = i;
    kept = n;
    merged[kept] = 1;
    for (int i = 0; i < t->ndim; i++)
        if (mask >> i & 1) order[n++] = i;
    for (int k = 0; k < n; k++) {
        back[order[k]] = k;
        moved[k] = t->shape[order[k]];
        merged[k < kept ? k : kept] = k <= kept ? moved[k] : merged[kept] * moved[k];
    }
    weft_value *rows = weft_reshape(weft_permute(x, order), kept + 1, merged);
    return weft_permute(weft_reshape(others(rows, kept), n, moved), back);
}

/* `others` of x where it is finite or x is 0, else y / x. */
static weft_value *finite_others(weft_value *others, weft_value *x, weft_value *y) {
    weft_value *is_nan = weft_isnan(others), *is_inf = weft_isinf(others);
    weft_value *is_none = weft_logical_or(is_nan, is_inf), *is_there = weft_cast(x, WEFT_BOOL);
    weft_value *is_lost = weft_logical_and(is_none, is_there);
    weft_value *one = weft_constant(x->node->graph, x->type.dtype, 0, NULL, 1);
    weft_value *whole = weft_div(y, weft_where(is_lost, x, one));
    return weft_where(is_lost, whole, others);
}

static void gradient(weft_node *n, weft_value *const *dout, const bool *wanted, weft_value **din) {
    weft_value *x = n->in[0], *dy = reduce_kept(n, dout[0]);
    weft_value *y = reduce_kept(n, node_value(n->graph, n->op, 1, &x, n->attrs)); /* merged with n later */
    unsigned mask = sum_axes(n->attrs, x->type.ndim);
    int axis = 0;
    while (mask && !(mask >> axis & 1)) axis++;
    if (!mask)
        din[0] = dy; /* x is a single number */
    else if (mask == 1u << axis)
        din[0] = weft_mul(dy, finite_others(others(x, axis), x, y));
    else
        din[0] = weft_mul(dy, finite_others(others_of_axes(x, mask), x, y));
}

const weft_op weft_op_prod = {
    .name = "prod",
    .summary = "the product over axes",
    .torch = "torch.prod",
    .min_in = 1,
    .of_nothing = EMPTY_ONES,
    OP_ATTRS(sum_attrs, attrs),
    .reference_strided = 1,
    /* No precision: runs in f32, as under torch.amp.autocast. */
    .infer = infer,
    .gradient = gradient,
    .reference = reduce_reference,
    .samples = (const op_sample[]){{"f32[2,3,4]", "axes=1", .out = "f32[2,4]"},
                                   {"f32[2,3,4]", "axes=-1,0 keep=1", .out = "f32[1,3,1]"},
                                   {"f32[2,3]", .out = "f32[]"},
                                   {"f32[]", .out = "f32[]"},
                                   {"f32[9,7]", "axes=1", .out = "f32[9]", .low = 0.5, .high = 1.5},
                                   {"f32[33,70]", "axes=0", .out = "f32[70]", .low = 0.75, .high = 1.25},
                                   {"f32[33,70]", "axes=1", .out = "f32[33]", .low = 0.75, .high = 1.25},
                                   {"f32[3,5,4,7]", "axes=0,2,3", .out = "f32[5]", .low = 0.75, .high = 1.25},
                                   {"f32[5001]", .low = 0.999, .high = 1.001},
                                   {"f32[1200,3]", "axes=0", .low = 0.99, .high = 1.01},
                                   {"f32[150,1100]", "axes=0", .low = 0.9, .high = 1.1},
                                   {"f32[3,700,7]", "axes=1", .low = 0.99, .high = 1.01},
                                   {"f32[2,3]", "axes=2", .error = "has no axis 2"},
                                   {"f32[2,3]", "axes=1,-1", .error = "axis 1 is named twice"},
                                   {"i64[2,3]", .out = "i64[]", .least = -9, .below = 9},
                                   {"i32[9,70]", "axes=1", .out = "i64[9]", .least = 1, .below = 70000},
                                   {"u8[33,70]", "axes=0", .out = "i64[70]", .least = 1, .below = 256},
                                   {"bool[3,5,4,7]", "axes=0,2,3", .out = "i64[5]", .below = 2},
                                   {0}},
};

weft_value *weft_prod(weft_value *x, int n_axes, const int64_t *axes, bool keep) {
    return reduce_value(&weft_op_prod, x, n_axes, axes, (sum_attrs){.keep = keep});
}
