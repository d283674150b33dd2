/* scale.c - factor x, where the factor is a number known when the graph is built; torch.mul(x, factor). dx =
 * factor dy. */
#include "ops/kit/basic_attrs.h"
#include "ops/kit/op_kit.h"

static const op_attr attrs[] = {
    {"factor", ATTR_REAL, offsetof(number_attrs, value), 0, 0},
    {0},
};

static double scalar(const double *x, const void *attrs) {
    double factor = ((const number_attrs *)attrs)->value;
    return factor * x[0];
}

static void gradient(weft_node *n, weft_value *const *dout, const bool *wanted, weft_value **din) {
    (void)wanted;
    din[0] = weft_scale(dout[0], ((const number_attrs *)n->attrs)->value);
}

/* 1 x is x. */
static weft_value *simplify(weft_node *n) {
    return ((const number_attrs *)n->attrs)->value == 1 ? n->in[0] : NULL;
}

const weft_op weft_op_scale = {
    .name = "scale",
    .summary = "factor * x",
    .torch = "torch.mul",
    .min_in = 1,
    .max_in = 1,
    .flags = OP_POINTWISE,
    .attrs_bytes = sizeof(number_attrs),
    .attrs = attrs,
    .precision = PRECISION_FOLLOWS,
    .reduced_in = 1,
    .reduced_out = 1,
    .infer = infer_same,
    .simplify = simplify,
    .gradient = gradient,
    .scalar = scalar,
    .samples = (const op_sample[]){{"f32[2,3]", "factor=0.25", .out = "f32[2,3]"},
                                   {"f32[2,5,4,3]", "factor=-1.5"},
                                   {"f32[2]", "factor=inf", .error = "factor is not a finite number"},
                                   {"u8[3]", "factor=2", .error = "must be floating point"},
                                   {0}},
};

weft_value *weft_scale(weft_value *x, double factor) {
    return op_value(&weft_op_scale, 1, &x, &(number_attrs){factor});
}
