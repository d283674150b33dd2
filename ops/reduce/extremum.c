/* extremum.c - the largest, and the smallest, element over some axes; torch.amax, torch.amin. NaN if any
 * element is NaN. Any element type (bool too: any, all), as the result; bool alone has an extremum of no
 * elements. The gradient is shared evenly among equal ones, as in PyTorch. */
#include "ops/reduce/reduce.h"

static const op_attr attrs[] = {REDUCE_ATTRS, {0}};

static bool infer(op_call *c) {
    return reduce_infer(c, op_in(c, 0)->dtype);
}

/* dx is dy / (number of equal ones) where x is equal to y, as in PyTorch; where y is NaN nothing is equal,
 * and dx is dy 0 / 0, NaN. */
static void gradient(weft_node *n, weft_value *const *dout, const bool *wanted, weft_value **din) {
    const sum_attrs *a = n->attrs;
    weft_value *x = n->in[0], *y = reduce_kept(n, &n->out[0]), *dy = reduce_kept(n, dout[0]);
    weft_value *chosen = weft_cast(weft_equal(x, y), x->type.dtype);
    weft_value *number = weft_sum(chosen, a->axes.n, a->axes.n ? a->axes.v : NULL, true);
    din[0] = weft_mul(chosen, weft_div(dy, number));
}

static const op_sample samples[] = {
    {"f32[2,3,4]", "axes=1", .out = "f32[2,4]"},
    {"f32[2,3,4]", "axes=-1,0 keep=1", .out = "f32[1,3,1]"},
    {"f32[2,3]", .out = "f32[]"},
    {"f32[]", .out = "f32[]"},
    {"f16[2,3,4]", "axes=1", .out = "f16[2,4]", .no_gradient = true},
    {"bf16[33,70]", "axes=1", .out = "bf16[33]", .no_gradient = true},
    {"bool[5,7]", "axes=0", .out = "bool[7]", .below = 2},
    {"u8[300,41]", "axes=1", .out = "u8[300]", .below = 256},
    {"u8[4,64,48]", "axes=2", .below = 256},
    {"i32[6,5]", "axes=0", .out = "i32[5]", .below = 1000},
    {"i64[3,9]", .out = "i64[]", .least = -1000, .below = 1000},
    {"f32[33,70]", "axes=0", .out = "f32[70]"},
    {"f32[33,70]", "axes=1", .out = "f32[33]"},
    {"f32[3,5,4,7]", "axes=0,2,3", .out = "f32[5]"},
    /* many chunks, narrow rows, rows of more than a tile; no gradient checks:
     * the nearest elements are closer than the differences */
    {"f32[40001]", .no_gradient = true},
    {"f32[9000,3]", "axes=0", .no_gradient = true},
    {"f32[150,1100]", "axes=0", .no_gradient = true},
    {"f32[3,5000,7]", "axes=1", .no_gradient = true},
    {"f32[2,19,11,13]", "axes=0,2,3", .no_gradient = true},
    {"f32[2,3]", "axes=2", .error = "has no axis 2"},
    {"f32[2,3]", "axes=1,-1", .error = "axis 1 is named twice"},
    {0},
};

#define EXTREMUM_OP(NAME, TEXT, OF_NOTHING)                                                                  \
    const weft_op weft_op_##NAME = {                                                                         \
        .name = #NAME,                                                                                       \
        .summary = TEXT,                                                                                     \
        .torch = "torch." #NAME,                                                                             \
        .min_in = 1,                                                                                         \
        .of_nothing = OF_NOTHING,                                                                            \
        OP_ATTRS(sum_attrs, attrs),                                                                          \
        .reference_strided = 1,                                                                              \
        .precision = PRECISION_FOLLOWS,                                                                      \
        .infer = infer,                                                                                      \
        .gradient = gradient,                                                                                \
        .reference = reduce_reference,                                                                       \
        .samples = samples,                                                                                  \
    };                                                                                                       \
    weft_value *weft_##NAME(weft_value *x, int n_axes, const int64_t *axes, bool keep) {                     \
        return reduce_value(&weft_op_##NAME, x, n_axes, axes, (sum_attrs){.keep = keep});                    \
    }

EXTREMUM_OP(amax, "the largest element over axes", EMPTY_FALSE)
EXTREMUM_OP(amin, "the smallest element over axes", EMPTY_TRUE)
