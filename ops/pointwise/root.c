/* root.c - x^exponent for x of at least 0: the root of a sum, as in norms and standard deviations. Unlike
 * those of sqrt and pow its gradient is 0 where y is 0, and it is of the result, as PyTorch's of a norm: dx =
 * dy exponent y^(1 - 1 / exponent), dy / (2 y) for a square root. */
#include "ops/kit/basic_attrs.h"
#include "ops/kit/op_kit.h"

#include <math.h>

static const op_attr attrs[] = {
    {"exponent", ATTR_REAL, offsetof(number_attrs, value), 0, 0},
    {0},
};

static double exponent_of(const void *attrs) {
    return ((const number_attrs *)attrs)->value;
}

static bool infer(op_call *c) {
    if (exponent_of(c->attrs) == 0) return op_fail(c, WEFT_ARGUMENT, "exponent=0: it must be another number");
    return infer_same(c);
}

static double scalar(const double *x, const void *attrs) {
    double e = exponent_of(attrs);
    return e == 0.5 ? sqrt(x[0]) : pow(x[0], e);
}

/* 1 stands in for a y of 0, where slopes may be infinite, and infinity times 0 NaN. */
static void gradient(weft_node *n, weft_value *const *dout, const bool *wanted, weft_value **din) {
    weft_value *y = &n->out[0];
    weft_dtype dtype = y->type.dtype;
    double e = exponent_of(n->attrs);
    weft_value *zero = weft_constant(n->graph, dtype, 0, NULL, 0),
               *one = weft_constant(n->graph, dtype, 0, NULL, 1);
    (void)wanted;
    weft_value *is_zero = weft_equal(y, zero), *safe = weft_where(is_zero, one, y),
               *dy = weft_scale(dout[0], e);
    weft_value *dx = e == 0.5
                         ? weft_div(dy, safe)
                         : weft_mul(dy, weft_pow(safe, weft_constant(n->graph, dtype, 0, NULL, 1 - 1 / e)));
    din[0] = weft_where(is_zero, zero, dx);
}

const weft_op weft_op_root = {
    .name = "root",
    .summary = "x^exponent, whose gradient is 0 where it is 0",
    .min_in = 1,
    .max_in = 1,
    .flags = OP_POINTWISE | OP_FROM_RESULT,
    .attrs_bytes = sizeof(number_attrs),
    .attrs = attrs,
    /* No precision: runs in f32, as under torch.amp.autocast. */
    .infer = infer,
    .gradient = gradient,
    .scalar = scalar,
    .samples = (const op_sample[]){{"f32[2,3]", "exponent=0.5", .out = "f32[2,3]", .low = 0.3, .high = 3},
                                   {"f32[2,5,4,3]", "exponent=0.25", .low = 0.3, .high = 3},
                                   {"f32[7]", "exponent=-0.5", .low = 0.3, .high = 3},
                                   {"f32[2]", .error = "exponent=0: it must be another number"},
                                   {"i32[3]", "exponent=0.5", .error = "must be floating point"},
                                   {0}},
};
