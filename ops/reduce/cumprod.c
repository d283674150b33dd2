/* cumprod.c - the product of an element and those before it along an axis; torch.cumprod. For integers and
 * bool it is i64, as in PyTorch, modulo 2^64. With e[i] the product before element i, dx[i] = e[i] g[i],
 * where g[i] = dy[i] + x[i + 1] g[i + 1]: there is no division, so zeros need no exception, and the gradients
 * of the gradient are of the same kind. PyTorch computes the gradient from y where x has no zero, and from x
 * alone elsewhere; here it is from x alone. */
#include "ops/reduce/scan.h"

/* x[i + 1] g[i + 1] is the state of h[i] = x[i] h[i + 1] + x[i] dy[i] before step i. For an exclusive product
 * g[i] = dy[i + 1] + x[i + 1] g[i + 1] is that of h[i] = x[i] h[i + 1] + dy[i]. */
static void gradient(weft_node *n, weft_value *const *dout, const bool *wanted, weft_value **din) {
    const scan_attrs *a = n->attrs;
    weft_value *x = n->in[0], *dy = dout[0], *before = scan_product_before(x, a->axis, a->reverse), *g;
    if (a->exclusive) /* `before` is this node once more: equal nodes are merged later */
        g = scan_before(x, dy, a->axis, !a->reverse);
    else
        g = weft_add(dy, scan_before(x, weft_mul(x, dy), a->axis, !a->reverse));
    din[0] = weft_mul(before, g);
}

const weft_op weft_op_cumprod = {
    .name = "cumprod",
    .summary = "the product of the elements up to each along an axis",
    .torch = "torch.cumprod",
    .min_in = 1,
    OP_ATTRS(scan_attrs, scan_attr_table),
    .reference_strided = 1,
    /* No precision: runs in f32, as under torch.amp.autocast. */
    .infer = scan_infer_whole,
    .gradient = gradient,
    .reference = scan_reference,
    .samples = (const op_sample[]){{"f32[2,3]", "axis=1", .out = "f32[2,3]"},
                                   {"f32[4,3,5]", "axis=-2 reverse=1", .out = "f32[4,3,5]"},
                                   {"f32[7,5]", "axis=1 reverse=1 exclusive=1"},
                                   {"f32[4,37]", "axis=0 exclusive=1"},
                                   {"f32[2,5,4,3]", "axis=1"},
                                   {"f32[7,300]", "axis=1 exclusive=1", .low = 0.9, .high = 1.1},
                                   {"f32[3,2600]", "axis=1", .low = 0.98, .high = 1.02},
                                   {"f32[130,300]", "axis=0 reverse=1", .low = 0.9, .high = 1.1},
                                   {"f32[2,3]", "axis=2", .error = "f32[2,3] has no axis 2"},
                                   {"i64[5,9]", "axis=1", .out = "i64[5,9]", .below = 1000},
                                   {"i32[40,3]", "axis=0 exclusive=1", .out = "i64[40,3]", .below = 9},
                                   {"u8[2,3000]", "axis=1 reverse=1", .out = "i64[2,3000]", .below = 256},
                                   {"bool[2,300]", "axis=1", .out = "i64[2,300]", .below = 2},
                                   {0}},
};

weft_value *weft_cumprod(weft_value *x, int axis) {
    return op_value(&weft_op_cumprod, 1, &x, &(scan_attrs){.axis = axis});
}
