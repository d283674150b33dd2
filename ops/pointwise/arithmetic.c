/* arithmetic.c - sums, differences, products, quotients and remainders of a and b, with broadcasting; as in
 * torch. Gradients are summed over broadcast axes. */
#include "ops/kit/basic_attrs.h"
#include "ops/pointwise/family.h"

#include <math.h>

/* ---- a + b ---- */

/* Each operand's gradient is dy. */
GRADIENT(add) {
    for (int i = 0; i < 2; i++)
        if (wanted[i]) din[i] = sum_to(dout[0], n->in[i]);
}

/* The sum of two pads with zeros of one axis whose contents are adjacent is a pad of their concatenation.
 * Gradients of slices (q, k and v of one projection) add up to such sums. NULL: a and b are not such pads. */
static weft_value *join_pads(weft_value *a, weft_value *b) {
    const pad_attrs *pa = a->node->attrs, *pb = b->node->attrs;
    if (a->node->op != &weft_op_pad || b->node->op != &weft_op_pad) return NULL;
    if (pa->value != 0 || pb->value != 0) return NULL;
    weft_value *xa = a->node->in[0], *xb = b->node->in[0];
    int64_t axis = pa->axis, other = pb->axis;
    if (!axis_resolve(&axis, a->type.ndim) || !axis_resolve(&other, b->type.ndim) || axis != other)
        return NULL;
    if (pa->before + xa->type.shape[axis] != pb->before) return NULL;
    weft_value *both = weft_concat(2, (weft_value *[]){xa, xb}, (int)axis);
    return pa->before || pb->after ? weft_pad(both, (int)axis, pa->before, pb->after) : both;
}

/* The operand beside the constant of n, and in *c that constant; NULL: there is none. */
static weft_value *beside_constant(weft_node *n, int i, double *c) {
    bool fits = constant_value(n->in[1 - i], c) && type_equal(&n->in[i]->type, &n->out[0].type);
    return fits ? n->in[i] : NULL;
}

/* x + 0 is x; x + c is offset(x, c), which reads no second operand. */
static weft_value *add_simplify(weft_node *n) {
    double c;
    for (int i = 0; i < 2; i++) {
        weft_value *x = beside_constant(n, i, &c), *joined = x ? NULL : join_pads(n->in[i], n->in[1 - i]);
        if (x) return c == 0 ? x : weft_offset(x, c);
        if (joined) return joined;
    }
    return NULL;
}

/* ---- a - b ---- */

/* da = dy, db = -dy */
GRADIENT(sub) {
    if (wanted[0]) din[0] = sum_to(dout[0], n->in[0]);
    if (wanted[1]) din[1] = sum_to(weft_neg(dout[0]), n->in[1]);
}

/* ---- a b ---- */

/* da = dy b, db = dy a */
GRADIENT(mul) {
    for (int i = 0; i < 2; i++)
        if (wanted[i]) din[i] = sum_to(weft_mul(dout[0], n->in[1 - i]), n->in[i]);
}

/* x * 1 is x; x * c is scale(x, c), which reads no second operand. */
static weft_value *mul_simplify(weft_node *n) {
    double c;
    for (int i = 0; i < 2; i++) {
        weft_value *x = beside_constant(n, i, &c);
        if (x) return c == 1 ? x : weft_scale(x, c);
    }
    return NULL;
}

/* ---- a / b ---- */

/* da = dy / b, db = -dy (a / b) / b. As PyTorch's, db is of the operands, so a gradient of it by y is 0; the
 * pass that merges equal nodes makes a / b the result again. */
GRADIENT(div) {
    weft_value *part = weft_div(dout[0], n->in[1]);
    if (wanted[0]) din[0] = sum_to(part, n->in[0]);
    if (wanted[1]) din[1] = sum_to(weft_neg(weft_mul(part, weft_div(n->in[0], n->in[1]))), n->in[1]);
}

/* ---- remainders: NaN where b is 0 ---- */

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

/* Differences take a step for a slope; test_special_values compares the gradient with PyTorch's. */
static const op_sample remainder_samples[] = {
    {"f32[2,3], f32[3]", .low = 1.1, .high = 1.9, .no_gradient = true, .out = "f32[2,3]"},
    {"f32[2,1,4], f32[3,1]", .no_gradient = true},
    {"f32[4], f32[3]", .error = "do not broadcast"},
    {"f32[2], f64[2]", .error = "cast one"},
    {0}};

BINARY_OP(add, OP_COMMUTES, x[0] + x[1], "a + b", .torch = "torch.add", .role = ROLE_SUM,
          .precision = PRECISION_FOLLOWS, .infer = infer_broadcast, .simplify = add_simplify,
          .gradient = add_gradient, .samples = binary_samples)
BINARY_OP(mul, OP_COMMUTES, x[0] * x[1], "a * b", .torch = "torch.mul", .role = ROLE_PRODUCT,
          .precision = PRECISION_FOLLOWS, .infer = infer_broadcast, .simplify = mul_simplify,
          .gradient = mul_gradient, .samples = binary_samples)
BROADCAST_OP(sub, 0, x[0] - x[1], "a - b", PRECISION_FOLLOWS, binary_samples)
BROADCAST_OP(div, 0, x[0] / x[1], "a / b", PRECISION_FOLLOWS, quotient_samples)
BROADCAST_OP(fmod, 0, fmod(x[0], x[1]), "remainder of a / b, with the sign of a", PRECISION_FOLLOWS,
             remainder_samples)
BROADCAST_OP(remainder, 0, floor_remainder(x[0], x[1]), "remainder of a / b, with the sign of b",
             PRECISION_FOLLOWS, remainder_samples)
