/* pow.c - a^b with broadcasting; torch.pow. Gradients as PyTorch's: da = dy b a^(b-1), 0 where b is 0; db =
 * dy y log a, 0 where a is 0 and b is at least 0. */
#include "ops/kit/op_kit.h"

#include <math.h>

static double scalar(const double *x, const void *attrs) {
    (void)attrs;
    return pow(x[0], x[1]);
}

static void gradient(weft_node *n, weft_value *const *dout, const bool *wanted, weft_value **din) {
    weft_value *a = n->in[0], *b = n->in[1], *y = &n->out[0];
    weft_value *zero = weft_constant(n->graph, a->type.dtype, 0, NULL, 0);
    if (wanted[0]) {
        weft_value *slope = weft_mul(b, weft_pow(a, weft_offset(b, -1)));
        din[0] = sum_to(weft_mul(dout[0], weft_where(weft_equal(b, zero), zero, slope)), a);
    }
    if (wanted[1]) {
        weft_value *slope = weft_mul(y, weft_log(a));
        /* where a is 0: 0 for b >= 0, else the slope (infinite), also for NaN */
        weft_value *of_power = weft_where(weft_greater(b, zero), zero, slope);
        weft_value *of_zero = weft_where(weft_equal(b, zero), zero, of_power);
        din[1] = sum_to(weft_mul(dout[0], weft_where(weft_equal(a, zero), of_zero, slope)), b);
    }
}

const weft_op weft_op_pow = {
    .name = "pow",
    .summary = "a^b",
    .torch = "torch.pow",
    .min_in = 2,
    .max_in = 2,
    .flags = OP_POINTWISE | OP_FROM_RESULT,
    /* No precision: runs in f32, as under torch.amp.autocast. */
    .infer = infer_broadcast,
    .gradient = gradient,
    .scalar = scalar,
    .samples = (const op_sample[]){{"f32[2,3], f32[3]", .out = "f32[2,3]", .low = 0.5, .high = 2},
                                   {"f32[2,1,4], f32[3,1]", .out = "f32[2,3,4]", .low = 0.5, .high = 2},
                                   {"f32[4], f32[3]", .error = "do not broadcast"},
                                   {"f32[2], f64[2]", .error = "cast one"},
                                   {0}},
};

weft_value *weft_pow(weft_value *a, weft_value *b) {
    return op_value(&weft_op_pow, 2, (weft_value *[]){a, b}, NULL);
}
