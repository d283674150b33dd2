/* whole_quotients.c - how many whole times b is in a (floor_divide, trunc_divide), and what is left then
 * (remainder, fmod), with broadcasting; as in torch. A quotient has no gradient. By 0, floats give infinity
 * or NaN, as in PyTorch, and integers fail the run; the least integer by -1 wraps around, or leaves 0. */
#include "ops/kit/integer.h"
#include "ops/pointwise/family.h"

#include <math.h>

/* ---- what is left ---- */

/* da = dy, db = -dy times the whole number of times that b is taken from a. */
static void remainder_back(weft_node *n, weft_value *dy, const bool *wanted, weft_value **din,
                           weft_value *(*whole)(weft_value *)) {
    weft_value *a = n->in[0], *b = n->in[1];
    if (wanted[0]) din[0] = sum_to(dy, a);
    if (wanted[1]) din[1] = sum_to(weft_neg(weft_mul(dy, whole(weft_div(a, b)))), b);
}

GRADIENT(fmod) {
    remainder_back(n, dout[0], wanted, din, weft_trunc);
}

GRADIENT(remainder) {
    remainder_back(n, dout[0], wanted, din, weft_floor);
}

/* a - b floor(a / b), % in Python. */
static double floor_remainder(double a, double b) {
    double left = fmod(a, b);
    return left != 0 && (left < 0) != (b < 0) ? left + b : left;
}

/* ---- how many times ---- */

/* From the remainder, so that the quotient is whole where a / b rounds up to the next one. What is left of it
 * is a rounding away from a whole number. 0 keeps the sign of a / b. */
static double floor_quotient(double a, double b) {
    double left = fmod(a, b), times = (a - left) / b, whole;
    if (b == 0) return a / b;
    if (left != 0 && (left < 0) != (b < 0)) times -= 1;
    if (times == 0) return copysign(0, a / b);
    whole = floor(times);
    return times - whole > 0.5 ? whole + 1 : whole;
}

/* Of f32 the quotient is rounded to f32 before its fraction is dropped, as in PyTorch: 3 / 0.1 is 30. */
static weft_status trunc_reference(const kernel_call *c) {
    const tensor *out = &c->out[0];
    int64_t at[WEFT_MAX_NDIM] = {0};
    if (!dtype_is_float(out->type.dtype) || out->type.dtype == WEFT_F64) return reference_pointwise(c);
    do {
        double a = element_broadcast(&c->in[0], &out->type, at),
               b = element_broadcast(&c->in[1], &out->type, at);
        element_set(out, at, trunc((float)(a / b)));
    } while (index_next(&out->type, at));
    return WEFT_OK;
}

/* Differences take a step for a slope; test_special_values compares the gradient with PyTorch's. */
static const op_sample remainder_samples[] = {
    {"f32[2,3], f32[3]", .low = 1.1, .high = 1.9, .no_gradient = true, .out = "f32[2,3]"},
    {"f32[2,1,4], f32[3,1]", .no_gradient = true},
    {"i64[2,3], i64[3]", .least = 1, .below = 9, .out = "i64[2,3]"},
    {"i32[2,1,4], i32[3,1]", .least = -99, .below = 0},
    {"i64[2], i32[2]", .error = "cast one"},
    {"u8[2], u8[2]", .error = "must be floating point, i32 or i64"},
    {"f32[4], f32[3]", .error = "do not broadcast"},
    {"f32[2], f64[2]", .error = "cast one"},
    {0}};

INTEGER(fmod, int_fmod(x[0], x[1]))
INTEGER(remainder, int_remainder(x[0], x[1]))
INTEGER(floor_divide, int_floor_divide(x[0], x[1]))
INTEGER(trunc_divide, int_trunc_divide(x[0], x[1]))

BROADCAST_OP(fmod, OP_DIVIDES, fmod(x[0], x[1]), "remainder of a / b, with the sign of a", PRECISION_FOLLOWS,
             remainder_samples, .integer = fmod_integer)
BROADCAST_OP(remainder, OP_DIVIDES, floor_remainder(x[0], x[1]), "remainder of a / b, with the sign of b",
             PRECISION_FOLLOWS, remainder_samples, .integer = remainder_integer)
BINARY_OP(floor_divide, OP_DIVIDES | OP_NO_GRADIENT, floor_quotient(x[0], x[1]), "a / b, rounded down",
          .torch = "torch.floor_divide", .precision = PRECISION_FOLLOWS, .infer = infer_broadcast,
          .samples = remainder_samples, .integer = floor_divide_integer)
BINARY_OP(trunc_divide, OP_DIVIDES | OP_NO_GRADIENT, trunc(x[0] / x[1]), "a / b without its fraction",
          .torch = "torch.div", .precision = PRECISION_FOLLOWS, .infer = infer_broadcast,
          .reference = trunc_reference, .samples = remainder_samples, .integer = trunc_divide_integer)
