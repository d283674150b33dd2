/* offset.c - x + amount, where the amount is a number known when the graph is built; torch.add(x, amount). dx
 * = dy. */
#include "ops/kit/basic_attrs.h"
#include "ops/kit/op_kit.h"

static const op_attr attrs[] = {
    {"amount", ATTR_REAL, offsetof(number_attrs, value), 0, 0},
    {0},
};

static double scalar(const double *x, const void *attrs) {
    double amount = ((const number_attrs *)attrs)->value;
    return x[0] + amount;
}

static void gradient(weft_node *n, weft_value *const *dout, const bool *wanted, weft_value **din) {
    (void)wanted;
    (void)n;
    din[0] = dout[0];
}

/* x + 0 is x. */
static weft_value *simplify(weft_node *n) {
    return ((const number_attrs *)n->attrs)->value == 0 ? n->in[0] : NULL;
}

const weft_op weft_op_offset = {
    .name = "offset",
    .summary = "x + amount",
    .torch = "torch.add",
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
    .samples = (const op_sample[]){{"f32[2,3]", "amount=0.25", .out = "f32[2,3]"},
                                   {"f32[2,5,4,3]", "amount=-1.5"},
                                   {"f32[2]", "amount=inf", .error = "amount is not a finite number"},
                                   {"u8[3]", "amount=2", .error = "must be floating point"},
                                   {0}},
};

weft_value *weft_offset(weft_value *x, double amount) {
    return op_value(&weft_op_offset, 1, &x, &(number_attrs){amount});
}
