/* gelu.c - x Phi(x), with Phi the standard normal distribution function: torch.nn.GELU() (Hendrycks and
 * Gimpel 2016, arXiv:1606.08415). Phi(x) = erfc(-x / sqrt 2) / 2, which loses no digits for large negative x.
 * dx is gelu_backward. */
#include "ops/kit/op_kit.h"

#include <math.h>

static double scalar(const double *x, const void *attrs) {
    (void)attrs;
    return 0.5 * x[0] * erfc(-x[0] * M_SQRT1_2);
}

static void gradient(weft_node *n, weft_value *const *dout, const bool *wanted, weft_value **din) {
    (void)wanted;
    din[0] = node_value(n->graph, &weft_op_gelu_backward, 2, (weft_value *[]){dout[0], n->in[0]}, NULL);
}

const weft_op weft_op_gelu = {
    .name = "gelu",
    .summary = "x Phi(x), by erf",
    .torch = "torch.nn.functional.gelu",
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

weft_value *weft_gelu(weft_value *x) {
    return op_value(&weft_op_gelu, 1, &x, NULL);
}
