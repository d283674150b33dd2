/* sum.c - the sum, or mean, over some axes; torch.sum, torch.mean. Result: the shape of x without these axes,
 * or with length 1 (`keep`); a sum of integers or bool is i64, modulo 2^64. dx is dy, for the mean divided by
 * the number of elements, broadcast to the shape of x. The reference sums in double, fast kernels in f32 by
 * chunks. The mean is an attribute and not a later scale, because its divisor depends on the batch size. */
#include "ops/reduce/reduce.h"

static const op_attr attrs[] = {
    REDUCE_ATTRS,
    {"mean", ATTR_BOOL, offsetof(sum_attrs, mean)},
    {"f32_output", ATTR_BOOL, offsetof(sum_attrs, f32_output)},
    {"correction", ATTR_REAL, offsetof(sum_attrs, correction)},
    {0},
};

static bool infer(op_call *c) {
    const sum_attrs *a = c->attrs;
    weft_dtype dtype = op_in(c, 0)->dtype;
    if (a->mean && !dtype_is_float(dtype))
        return op_fail(c, WEFT_TYPE, "operand 0 is %s: of a mean it must be floating point (cast it to f32)",
                       TYPE(op_in(c, 0)));
    if (a->correction != 0 && !a->mean)
        return op_fail(c, WEFT_ARGUMENT, "correction=%g without mean=1: it changes a divisor", a->correction);
    return reduce_infer(c, a->f32_output ? dtype_accumulator(dtype) : reduce_total(dtype));
}

static void gradient(weft_node *n, weft_value *const *dout, const bool *wanted, weft_value **din) {
    const sum_attrs *a = n->attrs;
    const tensor_type *x = &n->in[0]->type;
    weft_value *dy = dout[0];
    double divisor = sum_divisor(a, type_elements(x) / type_elements(&n->out[0].type));
    if (divisor == 0)
        dy = weft_div(dy, weft_constant(n->graph, dy->type.dtype, 0, NULL, 0)); /* infinite or NaN */
    else if (a->mean)
        dy = weft_scale(dy, 1 / divisor);
    din[0] = weft_broadcast_to(reduce_kept(n, dy), x->ndim, x->shape);
}

const weft_op weft_op_sum = {
    .name = "sum",
    .summary = "sum or mean over axes",
    .torch = "torch.sum",
    .min_in = 1,
    .of_nothing = EMPTY_MEAN,
    OP_ATTRS(sum_attrs, attrs),
    .reference_strided = 1,
    .precision = PRECISION_FOLLOWS,
    /* f32_output, which the precision pass sets, keeps a reduced sum in f32. */
    .infer = infer,
    .gradient = gradient,
    .reference = reduce_reference,
    .samples =
        (const op_sample[]){{"f32[2,3,4]", "axes=1", .out = "f32[2,4]"},
                            {"f32[2,3,4]", "axes=-1,0 keep=1 mean=1", .out = "f32[1,3,1]"},
                            {"f32[2,3]", "mean=1", .out = "f32[]"},
                            {"bf16[33,70]", "axes=0 f32_output=1", .out = "f32[70]", .no_gradient = true},
                            {"f16[2,3,4]", "axes=1", .out = "f16[2,4]", .no_gradient = true},
                            {"f32[33,70]", "axes=0", .out = "f32[70]"},
                            {"f32[33,70]", "axes=1", .out = "f32[33]"},
                            {"f32[3,5,4,7]", "axes=0,2,3", .out = "f32[5]"},
                            {"f32[3,5,4,7]", "axes=2,3 mean=1", .out = "f32[3,5]"},
                            {"f32[]", .out = "f32[]"},
                            {"f32[3,5,4,7]", "axes=0,2 mean=1 correction=1", .out = "f32[5,7]"},
                            {"f32[6,33]", "axes=1 mean=1 correction=0.5", .out = "f32[6]"},
                            /* many chunks, narrow rows, rows of more than a tile */
                            {"f32[40001]", "mean=1"},
                            {"f32[9000,3]", "axes=0"},
                            {"f32[150,1100]", "axes=0"},
                            {"f32[3,5000,7]", "axes=1"},
                            {"f32[2,19,11,13]", "axes=0,2,3"},
                            {"f32[2,3]", "axes=2", .error = "has no axis 2"},
                            {"f32[2,3]", "axes=1,-1", .error = "axis 1 is named twice"},
                            {"f32[2,3]", "correction=1", .error = "correction=1 without mean=1"},
                            {"i64[2,3]", .out = "i64[]", .least = -9, .below = 9},
                            {"i32[9,70]", "axes=1", .out = "i64[9]", .least = -70000, .below = 70000},
                            {"u8[33,700]", "axes=0", .out = "i64[700]", .below = 256},
                            {"bool[3,5,4,7]", "axes=0,2,3 keep=1", .out = "i64[1,5,1,1]"},
                            {"u8[40001]", .out = "i64[]", .below = 256},
                            {"i64[2,3]", "mean=1", .error = "of a mean it must be floating point"},
                            {0}},
};

weft_value *weft_sum(weft_value *x, int n_axes, const int64_t *axes, bool keep) {
    return reduce_value(&weft_op_sum, x, n_axes, axes, (sum_attrs){.keep = keep});
}

weft_value *weft_mean(weft_value *x, int n_axes, const int64_t *axes, bool keep) {
    return reduce_value(&weft_op_sum, x, n_axes, axes, (sum_attrs){.keep = keep, .mean = true});
}
