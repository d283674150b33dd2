/* elu.c - x where x > 0, else alpha (e^x - 1); torch.nn.functional.elu. Clevert et al., arXiv 1511.07289.
 * selu is a scaled one. */
#include "ops/kit/basic_attrs.h"
#include "ops/kit/op_kit.h"

#include <math.h>

static const op_attr attrs[] = {
    {"alpha", ATTR_REAL, offsetof(number_attrs, value), 0, 0},
    {0},
};

static double scalar(const double *x, const void *attrs) {
    double alpha = ((const number_attrs *)attrs)->value;
    return x[0] > 0 ? x[0] : alpha * expm1(x[0]);
}

static void gradient(weft_node *n, weft_value *const *dout, const bool *wanted, weft_value **din) {
    (void)wanted;
    din[0] = node_value(n->graph, &weft_op_elu_backward, 2, (weft_value *[]){dout[0], n->in[0]}, n->attrs);
}

const weft_op weft_op_elu = {
    .name = "elu",
    .summary = "x if x > 0, else alpha * (e^x - 1)",
    .torch = "torch.nn.functional.elu",
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
    .samples = (const op_sample[]){{"f32[2,3]", "alpha=1", .out = "f32[2,3]"},
                                   {"f32[2,5,4,3]", "alpha=-1.5"},
                                   {"f32[2]", "alpha=inf", .error = "alpha is not a finite number"},
                                   {"u8[3]", "alpha=2", .error = "must be floating point"},
                                   {0}},
};

weft_value *weft_elu(weft_value *x, double alpha) {
    return op_value(&weft_op_elu, 1, &x, &(number_attrs){alpha});
}
