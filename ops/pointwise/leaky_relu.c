/* leaky_relu.c - x where x > 0, else slope x; torch.nn.functional.leaky_relu. The gradient at 0 is slope dy,
 * as in PyTorch. */
#include "ops/kit/basic_attrs.h"
#include "ops/kit/op_kit.h"

static const op_attr attrs[] = {
    {"slope", ATTR_REAL, offsetof(number_attrs, value), 0, 0},
    {0},
};

static double scalar(const double *x, const void *attrs) {
    double slope = ((const number_attrs *)attrs)->value;
    return x[0] > 0 ? x[0] : slope * x[0];
}

static void gradient(weft_node *n, weft_value *const *dout, const bool *wanted, weft_value **din) {
    (void)wanted;
    din[0] =
        node_value(n->graph, &weft_op_leaky_relu_backward, 2, (weft_value *[]){dout[0], n->in[0]}, n->attrs);
}

const weft_op weft_op_leaky_relu = {
    .name = "leaky_relu",
    .summary = "x if x > 0, else slope * x",
    .torch = "torch.nn.functional.leaky_relu",
    .min_in = 1,
    .max_in = 1,
    .flags = OP_POINTWISE,
    .attrs_bytes = sizeof(number_attrs),
    .attrs = attrs,
    .precision = PRECISION_FOLLOWS,
    .reduced_in = 1,
    .reduced_out = 1,
    .infer = infer_same,
    .gradient = gradient,
    .scalar = scalar,
    .samples = (const op_sample[]){{"f32[2,3]", "slope=0.25", .out = "f32[2,3]"},
                                   {"f32[2,5,4,3]", "slope=-1.5"},
                                   {"f32[2]", "slope=inf", .error = "slope is not a finite number"},
                                   {"u8[3]", "slope=2", .error = "must be floating point"},
                                   {0}},
};

weft_value *weft_leaky_relu(weft_value *x, double slope) {
    return op_value(&weft_op_leaky_relu, 1, &x, &(number_attrs){slope});
}
