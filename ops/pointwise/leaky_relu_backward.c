/* leaky_relu_backward.c - the gradient of leaky_relu: dy where x > 0, else slope dy. Linear in dy, so its
 * gradient by dy is the same op; that by x is 0. */
#include "ops/kit/basic_attrs.h"
#include "ops/kit/op_kit.h"

static const op_attr attrs[] = {
    {"slope", ATTR_REAL, offsetof(number_attrs, value), 0, 0},
    {0},
};

static double scalar(const double *x, const void *attrs) {
    return x[1] > 0 ? x[0] : ((const number_attrs *)attrs)->value * x[0];
}

static void gradient(weft_node *n, weft_value *const *dout, const bool *wanted, weft_value **din) {
    if (wanted[0]) din[0] = node_value(n->graph, n->op, 2, (weft_value *[]){dout[0], n->in[1]}, n->attrs);
}

const weft_op weft_op_leaky_relu_backward = {
    .name = "leaky_relu_backward",
    .summary = "dy if x > 0, else slope * dy",
    .min_in = 2,
    .max_in = 2,
    .flags = OP_POINTWISE,
    .attrs_bytes = sizeof(number_attrs),
    .attrs = attrs,
    .precision = PRECISION_FOLLOWS,
    .reduced_in = 3,
    .reduced_out = 1,
    .infer = infer_alike,
    .gradient = gradient,
    .scalar = scalar,
    .samples = (const op_sample[]){{"f32[2,3], f32[2,3]", "slope=0.1", .out = "f32[2,3]"},
                                   {"f32[2,3], f32[3]", .error = "must have one shape"},
                                   {0}},
};
