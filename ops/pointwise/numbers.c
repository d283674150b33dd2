/* numbers.c - functions of x with a number that is known when the graph is built: scale, offset, leaky_relu,
 * elu, and the gradients of the last two. */
#include "ops/kit/basic_attrs.h"
#include "ops/kit/integer.h"
#include "ops/pointwise/family.h"

#include <math.h>

static double number_of(const weft_node *n) {
    return ((const number_attrs *)n->attrs)->value;
}

/* ---- factor x; torch.mul(x, factor) ---- */

GRADIENT(scale) {
    din[0] = weft_scale(dout[0], number_of(n));
}

/* 1 x is x. */
static weft_value *scale_simplify(weft_node *n) {
    return number_of(n) == 1 ? n->in[0] : NULL;
}

/* ---- x + amount; torch.add(x, amount) ---- */

GRADIENT(offset) {
    din[0] = dout[0];
}

/* x + 0 is x. */
static weft_value *offset_simplify(weft_node *n) {
    return number_of(n) == 0 ? n->in[0] : NULL;
}

/* ---- leaky_relu: the gradient at 0 is slope dy, as in PyTorch ---- */

GRADIENT_BY_OP(leaky_relu, n->in[0])

/* That by x is 0. */
GRADIENT(leaky_relu_backward) {
    backward_again(n, dout, wanted, din);
}

/* ---- elu (Clevert et al., arXiv 1511.07289): NaN where x is NaN ---- */

GRADIENT_BY_OP(elu, n->in[0])

/* By x: alpha e^x dy where x <= 0. */
GRADIENT(elu_backward) {
    if (!backward_again(n, dout, wanted, din)) return;
    weft_value *dy = n->in[0], *x = n->in[1];
    weft_value *zero = weft_constant(n->graph, x->type.dtype, 0, NULL, 0);
    weft_value *bend = weft_scale(weft_exp(x), number_of(n));
    weft_value *below = weft_mul(weft_mul(dout[0], dy), bend);
    din[1] = weft_where(weft_greater(x, zero), zero, below);
}

/* ---- the ops ---- */

/* The op NAME with number k, whose name is FIELD; the other fields come last. */
#define NUMBER_OP(NAME, N, FIELD, FORMULA, TEXT, ...)                                                        \
    static const op_attr NAME##_attrs[] = {{FIELD, ATTR_REAL, offsetof(number_attrs, value)}, {0}};          \
    static double NAME##_formula(const double *x, double k) {                                                \
        return FORMULA;                                                                                      \
    }                                                                                                        \
    POINTWISE_OP(NAME, N, 0, NAME##_formula(x, ((const number_attrs *)attrs)->value), TEXT,                  \
                 OP_ATTRS(number_attrs, NAME##_attrs), .precision = PRECISION_FOLLOWS,                       \
                 .gradient = NAME##_gradient, __VA_ARGS__)
/* The samples of a NUMBER_OP; those of integers, or none, come last. */
#define NUMBER_SAMPLES(NAME, FIELD, ...)                                                                     \
    static const op_sample NAME##_samples[] = {                                                              \
        {"f32[2,3]", FIELD "=0.25", .out = "f32[2,3]"},                                                      \
        {"f32[2,5,4,3]", FIELD "=-1.5"},                                                                     \
        {"f32[2]", FIELD "=inf", .error = FIELD " is not a finite number"},                                  \
        {"u8[3]", FIELD "=2", .error = "must be floating point"},                                            \
        __VA_ARGS__};
#define WHOLE_NUMBER_SAMPLES(NAME, FIELD)                                                                    \
    NUMBER_SAMPLES(NAME, FIELD, {"i64[2,3]", FIELD "=-3", .out = "i64[2,3]", .least = -9, .below = 9},       \
                   {"i32[2,5,4,3]", FIELD "=70000", .least = -70000, .below = 70000},                        \
                   {"i64[2]", FIELD "=0.5", .error = FIELD "=0.5 with i64[2]: it must be a whole number"},   \
                   {"i32[2]", FIELD "=3e9", .error = "that i32 can hold"}, {0})
#define UNARY_NUMBER_OP(NAME, FIELD, FORMULA, TEXT, ...)                                                     \
    NUMBER_OP(NAME, 1, FIELD, FORMULA, TEXT, .infer = infer_numbers, .samples = NAME##_samples, __VA_ARGS__) \
    weft_value *weft_##NAME(weft_value *x, double k) {                                                       \
        return op_value(&weft_op_##NAME, 1, &x, &(number_attrs){k});                                         \
    }
#define BACKWARD_NUMBER_OP(NAME, FIELD, FORMULA, TEXT)                                                       \
    static const op_sample NAME##_samples[] = {{"f32[2,3], f32[2,3]", FIELD "=0.1", .out = "f32[2,3]"},      \
                                               {"f32[2,5,4,3], f32[2,5,4,3]", FIELD "=-1.5"},                \
                                               {"f32[2,3], f32[3]", .error = "must have one shape"},         \
                                               {0}};                                                         \
    NUMBER_OP(NAME, 2, FIELD, FORMULA, TEXT, .infer = infer_alike, .samples = NAME##_samples)

/* infer lets integers have no other number than one of their type. */
static int64_t integer_number(const void *attrs) {
    return (int64_t)((const number_attrs *)attrs)->value;
}

INTEGER(scale, int_mul(integer_number(attrs), x[0]))
INTEGER(offset, int_add(x[0], integer_number(attrs)))

WHOLE_NUMBER_SAMPLES(scale, "factor")
WHOLE_NUMBER_SAMPLES(offset, "amount")
NUMBER_SAMPLES(leaky_relu, "slope", {0})
NUMBER_SAMPLES(elu, "alpha", {0})

UNARY_NUMBER_OP(scale, "factor", k *x[0], "factor * x", .torch = "torch.mul", .simplify = scale_simplify,
                .integer = scale_integer)
UNARY_NUMBER_OP(offset, "amount", x[0] + k, "x + amount", .torch = "torch.add", .simplify = offset_simplify,
                .integer = offset_integer)
UNARY_NUMBER_OP(leaky_relu, "slope", x[0] > 0 ? x[0] : k * x[0], "x if x > 0, else slope * x",
                .torch = "torch.nn.functional.leaky_relu")
BACKWARD_NUMBER_OP(leaky_relu_backward, "slope", x[1] > 0 ? x[0] : k * x[0], "dy if x > 0, else slope * dy")
UNARY_NUMBER_OP(elu, "alpha", x[0] > 0 ? x[0] : k * expm1(x[0]), "x if x > 0, else alpha * (e^x - 1)",
                .torch = "torch.nn.functional.elu")
BACKWARD_NUMBER_OP(elu_backward, "alpha", x[1] > 0 ? x[0] : k * exp(x[1]) * x[0],
                   "dy if x > 0, else alpha e^x dy")
