/* clamp.c - x limited to [min, max]; torch.clamp. NaN stays NaN. The bounds of integers are whole, others
 * may be infinite. The
 * gradient is dy where min < x < max, so 0 at the bounds and where x is NaN, as in PyTorch 2.15; earlier
 * versions let it pass at the bounds. */
#include "ops/kit/op_kit.h"

#include <math.h>

typedef struct clamp_attrs {
    double min, max;
} clamp_attrs;

static const op_attr attrs[] = {
    {"min", ATTR_REAL, offsetof(clamp_attrs, min), .any_real = true},
    {"max", ATTR_REAL, offsetof(clamp_attrs, max), .any_real = true},
    {0},
};

static bool infer(op_call *c) {
    const clamp_attrs *a = c->attrs;
    if (isnan(a->min) || isnan(a->max))
        return op_fail(c, WEFT_ARGUMENT, "min=%g max=%g: a bound is a number or infinite", a->min, a->max);
    if (a->min > a->max)
        return op_fail(c, WEFT_ARGUMENT, "min=%g is above max=%g: they are the lower and the upper bound",
                       a->min, a->max);
    return infer_numbers(c);
}

static double scalar(const double *x, const void *attrs) {
    const clamp_attrs *a = attrs;
    return x[0] < a->min ? a->min : x[0] > a->max ? a->max : x[0];
}

static int64_t integer(const int64_t *x, const void *attrs) {
    const clamp_attrs *a = attrs;
    int64_t min = (int64_t)a->min, max = (int64_t)a->max;
    return x[0] < min ? min : x[0] > max ? max : x[0];
}

/* Constants broadcast, so the comparisons need no full tensors. */
static void gradient(weft_node *n, weft_value *const *dout, const bool *wanted, weft_value **din) {
    const clamp_attrs *a = n->attrs;
    weft_dtype dtype = n->out[0].type.dtype;
    weft_value *zero = weft_constant(n->graph, dtype, 0, NULL, 0);
    weft_value *is_above_min = weft_greater(n->in[0], weft_constant(n->graph, dtype, 0, NULL, a->min));
    weft_value *is_below_max = weft_greater(weft_constant(n->graph, dtype, 0, NULL, a->max), n->in[0]);
    din[0] = weft_where(is_above_min, weft_where(is_below_max, dout[0], zero), zero);
}

const weft_op weft_op_clamp = {
    .name = "clamp",
    .summary = "x limited to the range from min to max",
    .torch = "torch.clamp",
    .min_in = 1,
    .flags = OP_POINTWISE,
    OP_ATTRS(clamp_attrs, attrs),
    .precision = PRECISION_FOLLOWS,
    .infer = infer,
    .gradient = gradient,
    .scalar = scalar,
    .integer = integer,
    .samples = (const op_sample[]){{"f32[2,3]", "min=-0.5 max=0.25", .out = "f32[2,3]"},
                                   {"f32[2,5,4,3]", "min=-0.75 max=0.75"},
                                   {"f32[7]", "min=1 max=-1", .error = "min=1 is above max=-1"},
                                   {"f32[7]", "min=0 max=inf", .out = "f32[7]"},
                                   {"f32[3,5]", "min=-inf max=0.5"},
                                   {"f32[2]", "min=nan max=1", .error = "min=nan max=1: a bound is a number"},
                                   {"i64[2]", "min=0 max=inf", .error = "a whole number that i64 can hold"},
                                   {"i64[2,3]", "min=-2 max=3", .least = -9, .below = 9, .out = "i64[2,3]"},
                                   {"i32[2,5,4,3]", "min=-70000 max=0", .least = -90000, .below = 90000},
                                   {"i64[2]", "min=0 max=0.5", .error = "max=0.5 with i64[2]: it must be"},
                                   {"u8[3]", "min=0 max=1", .error = "must be floating point"},
                                   {0}},
};

weft_value *weft_clamp(weft_value *x, double min, double max) {
    return op_value(&weft_op_clamp, 1, &x, &(clamp_attrs){min, max});
}
