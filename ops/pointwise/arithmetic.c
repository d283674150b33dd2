/* arithmetic.c - sums, differences, products and quotients of a and b, with broadcasting; as in torch.
 * Gradients are summed over broadcast axes. Integers wrap around; their quotients are in whole_quotients.c.
 * */
#include "ops/kit/basic_attrs.h"
#include "ops/kit/integer.h"
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
    if (pa->value != 0 || pb->value != 0 || pa->between || pb->between) return NULL;
    weft_value *xa = a->node->in[0], *xb = b->node->in[0];
    int64_t axis = pa->axis, other = pb->axis;
    if (!axis_resolve(&axis, a->type.ndim) || !axis_resolve(&other, b->type.ndim) || axis != other)
        return NULL;
    if (pa->before + xa->type.shape[axis] != pb->before) return NULL;
    weft_value *both = weft_concat(2, (weft_value *[]){xa, xb}, (int)axis);
    return pa->before || pb->after ? weft_pad(both, (int)axis, pa->before, pb->after) : both;
}

/* The operand beside the finite constant of n, and in *c that constant; NULL: there is none. */
static weft_value *beside_constant(weft_node *n, int i, double *c) {
    bool fits =
        constant_value(n->in[1 - i], c) && isfinite(*c) && type_equal(&n->in[i]->type, &n->out[0].type);
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

/* Of integers it would be another type than theirs. */
static bool div_infer(op_call *c) {
    weft_dtype dtype = op_in(c, 0)->dtype;
    if (dtype_is_float(dtype)) return infer_broadcast(c);
    return op_fail(c, WEFT_TYPE,
                   "operand 0 is %s: a quotient of integers is floating point: cast them (weft_cast), or "
                   "take weft_floor_divide or weft_trunc_divide",
                   TYPE(op_in(c, 0)));
}

static const op_sample div_samples[] = {{"f32[2,3], f32[3]", .out = "f32[2,3]", .low = 0.5, .high = 2},
                                        {"f32[2,1,4], f32[3,1]", .out = "f32[2,3,4]", .low = 0.5, .high = 2},
                                        {"f32[4], f32[3]", .error = "do not broadcast"},
                                        {"f32[2], f64[2]", .error = "cast one"},
                                        {"i64[2], i64[2]", .error = "take weft_floor_divide"},
                                        {0}};

INTEGER(add, int_add(x[0], x[1]))
INTEGER(mul, int_mul(x[0], x[1]))
INTEGER(sub, int_sub(x[0], x[1]))

BINARY_OP(add, OP_COMMUTES, x[0] + x[1], "a + b", .torch = "torch.add", .role = ROLE_SUM,
          .precision = PRECISION_FOLLOWS, .infer = infer_broadcast, .simplify = add_simplify,
          .gradient = add_gradient, .samples = whole_binary_samples, .integer = add_integer)
BINARY_OP(mul, OP_COMMUTES, x[0] * x[1], "a * b", .torch = "torch.mul", .role = ROLE_PRODUCT,
          .precision = PRECISION_FOLLOWS, .infer = infer_broadcast, .simplify = mul_simplify,
          .gradient = mul_gradient, .samples = whole_binary_samples, .integer = mul_integer)
BROADCAST_OP(sub, 0, x[0] - x[1], "a - b", PRECISION_FOLLOWS, whole_binary_samples, .integer = sub_integer)
BINARY_OP(div, 0, x[0] / x[1], "a / b", .torch = "torch.div", .precision = PRECISION_FOLLOWS,
          .infer = div_infer, .gradient = div_gradient, .samples = div_samples)
