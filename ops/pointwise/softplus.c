/* softplus.c - log(1 + exp(beta x)) / beta, a smooth relu; x where beta x > threshold;
 * torch.nn.functional.softplus. It is computed as max(beta x, 0) + log(1 + exp(-|beta x|)), the same function
 * without overflow. */
#include "ops/kit/op_kit.h"

#include <math.h>

typedef struct softplus_attrs {
    double beta, threshold;
} softplus_attrs;

static const op_attr attrs[] = {
    {"beta", ATTR_REAL, offsetof(softplus_attrs, beta)},
    {"threshold", ATTR_REAL, offsetof(softplus_attrs, threshold)},
    {0},
};

static bool infer(op_call *c) {
    const softplus_attrs *a = c->attrs;
    if (!(a->beta > 0)) return op_fail(c, WEFT_ARGUMENT, "beta=%g: it must be above 0", a->beta);
    return infer_same(c);
}

static double scalar(const double *x, const void *attrs) {
    const softplus_attrs *a = attrs;
    double scaled = a->beta * x[0];
    if (scaled > a->threshold) return x[0];
    return (fmax(scaled, 0) + log1p(exp(-fabs(scaled)))) / a->beta;
}

/* dx = dy sigmoid(beta x), or dy above the threshold. */
static void gradient(weft_node *n, weft_value *const *dout, const bool *wanted, weft_value **din) {
    const softplus_attrs *a = n->attrs;
    weft_value *scaled = weft_scale(n->in[0], a->beta);
    weft_value *threshold = weft_constant(n->graph, n->out[0].type.dtype, 0, NULL, a->threshold);
    weft_value *below = weft_mul(dout[0], weft_sigmoid(scaled));
    din[0] = weft_where(weft_greater(scaled, threshold), dout[0], below);
}

const weft_op weft_op_softplus = {
    .name = "softplus",
    .summary = "log(1 + exp(beta * x)) / beta, and x where beta * x > threshold",
    .torch = "torch.nn.functional.softplus",
    .min_in = 1,
    .flags = OP_POINTWISE,
    OP_ATTRS(softplus_attrs, attrs),
    /* No precision: runs in f32, as under torch.amp.autocast. */
    .infer = infer,
    .gradient = gradient,
    .scalar = scalar,
    .samples = (const op_sample[]){{"f32[2,3]", "beta=1 threshold=20", .out = "f32[2,3]"},
                                   {"f32[2,5,4,3]", "beta=2.5 threshold=20"},
                                   {"f32[7]", "beta=1 threshold=20", .low = 18, .high = 24},
                                   {"f32[2]", "threshold=20", .error = "beta=0: it must be above 0"},
                                   {"u8[3]", "beta=1 threshold=20", .error = "must be floating point"},
                                   {0}},
};

weft_value *weft_softplus(weft_value *x, double beta, double threshold) {
    return op_value(&weft_op_softplus, 1, &x, &(softplus_attrs){beta, threshold});
}
