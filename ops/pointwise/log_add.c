/* log_add.c - y = log x + m: the end of a logarithm of a sum, whose largest summand e^m was taken out. Its
 * gradient by x is of the result, as PyTorch's of logsumexp: 1 / x as e^(m - y). That would be rounded where
 * m and y are large, so it is the number 1 / x, without gradients, times e^(m - y) / e^(m - y), of which only
 * the numerator has some. */
#include "ops/kit/op_kit.h"

#include <math.h>

static double scalar(const double *x, const void *attrs) {
    (void)attrs;
    return log(x[0]) + x[1];
}

/* v less itself, which is 0 whatever v is; only the first has gradients. */
static weft_value *moved(weft_value *v) {
    weft_value *zero = weft_constant(v->node->graph, v->type.dtype, 0, NULL, 0);
    weft_value *finite = weft_where(weft_isinf(v), zero, v);
    return weft_sub(finite, weft_stop_gradient(finite));
}

static void gradient(weft_node *n, weft_value *const *dout, const bool *wanted, weft_value **din) {
    weft_value *x = n->in[0], *m = n->in[1];
    if (wanted[0]) {
        weft_value *by_m = moved(m);
        weft_value *by_y = moved(&n->out[0]);
        weft_value *number = weft_stop_gradient(x), *one = weft_exp(weft_sub(by_m, by_y));
        din[0] = weft_div(weft_mul(dout[0], one), number);
    }
    din[1] = dout[0];
}

const weft_op weft_op_log_add = {
    .name = "log_add",
    .summary = "log x + m",
    .min_in = 2,
    .max_in = 2,
    .flags = OP_POINTWISE | OP_FROM_RESULT,
    /* No precision: runs in f32, as under torch.amp.autocast. */
    .infer = infer_alike,
    .gradient = gradient,
    .scalar = scalar,
    .samples = (const op_sample[]){{"f32[2,3], f32[2,3]", .out = "f32[2,3]", .low = 0.3, .high = 3},
                                   {"f32[2,5,4,3], f32[2,5,4,3]", .low = 0.3, .high = 3},
                                   {"f32[2], f32[3]", .error = ""},
                                   {0}},
};
