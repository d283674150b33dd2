/* mul.c - a b with broadcasting; torch.mul. da = dy b, db = dy a, summed over broadcast axes. */
#include "ops/kit/op_kit.h"

static double scalar(const double *x, const void *attrs) {
    (void)attrs;
    return x[0] * x[1];
}

static void gradient(weft_node *n, weft_value *const *dout, const bool *wanted, weft_value **din) {
    for (int i = 0; i < 2; i++)
        if (wanted[i]) din[i] = sum_to(weft_mul(dout[0], n->in[1 - i]), n->in[i]);
}

/* x * 1 is x; x * c is scale(x, c), which reads no second operand. */
static weft_value *simplify(weft_node *n) {
    double c;
    for (int i = 0; i < 2; i++) {
        weft_value *same = simplify_neutral(n, i, 1);
        if (same) return same;
        if (constant_value(n->in[1 - i], &c) && type_equal(&n->in[i]->type, &n->out[0].type))
            return weft_scale(n->in[i], c);
    }
    return NULL;
}

const weft_op weft_op_mul = {
    .name = "mul",
    .summary = "a * b",
    .torch = "torch.mul",
    .min_in = 2,
    .max_in = 2,
    .flags = OP_POINTWISE | OP_COMMUTES,
    .role = ROLE_PRODUCT,
    .precision = PRECISION_FOLLOWS,
    .reduced_in = 3,
    .reduced_out = 1,
    .infer = infer_broadcast,
    .simplify = simplify,
    .gradient = gradient,
    .scalar = scalar,
    .samples = (const op_sample[]){{"f32[2,3], f32[3]", .out = "f32[2,3]"},
                                   {"f32[2,1,4], f32[3,1]", .out = "f32[2,3,4]"},
                                   {"f32[4], f32[3]", .error = "do not broadcast"},
                                   {"f32[2], f64[2]", .error = "cast one"},
                                   {0}},
};

weft_value *weft_mul(weft_value *a, weft_value *b) {
    return op_value(&weft_op_mul, 2, (weft_value *[]){a, b}, NULL);
}
