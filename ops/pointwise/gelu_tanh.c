/* gelu_tanh.c - x (1 + tanh(u)) / 2 with u = sqrt(2/pi) (x + 0.044715 x^3): torch.nn.GELU("tanh") (Hendrycks
 * and Gimpel 2016, arXiv:1606.08415, section 2). dx is gelu_tanh_backward. */
#include "ops/kit/op_kit.h"

#include <math.h>

static double scalar(const double *x, const void *attrs) {
    (void)attrs;
    double u = sqrt(M_2_PI) * (x[0] + 0.044715 * x[0] * x[0] * x[0]);
    return 0.5 * x[0] * (1 + tanh(u));
}

static void gradient(weft_node *n, weft_value *const *dout, const bool *wanted, weft_value **din) {
    (void)wanted;
    din[0] = node_value(n->graph, &weft_op_gelu_tanh_backward, 2, (weft_value *[]){dout[0], n->in[0]}, NULL);
}

const weft_op weft_op_gelu_tanh = {
    .name = "gelu_tanh",
    .summary = "GELU, tanh approximation",
    .torch = "torch.nn.functional.gelu(approximate='tanh')",
    .min_in = 1,
    .max_in = 1,
    .flags = OP_POINTWISE,
    .precision = PRECISION_FOLLOWS,
    .reduced_in = 1,
    .reduced_out = 1,
    .infer = infer_same,
    .gradient = gradient,
    .scalar = scalar,
    .samples = (const op_sample[]){{"f32[2,3]", .out = "f32[2,3]"},
                                   {"f32[2,5,4,3]"},
                                   {"i32[3]", .error = "must be floating point"},
                                   {0}},
};

weft_value *weft_gelu_tanh(weft_value *x) {
    return op_value(&weft_op_gelu_tanh, 1, &x, NULL);
}
