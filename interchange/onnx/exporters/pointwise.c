/* pointwise.c - pointwise ops as nodes of ONNX. */
#include "interchange/onnx/exporters/exporter_families.h"

#include <math.h>

static edge *number(export_call *c, double value) {
    return export_number(c, export_dtype(c, 0), value);
}

static edge *by_number(export_call *c, const char *op, double value) {
    return export_2(c, op, export_in(c, 0), number(c, value));
}

static edge *of_0(export_call *c, const char *op) {
    return export_1(c, op, export_in(c, 0));
}

static bool of_float(const export_call *c) {
    return onnx_is_float(export_dtype(c, 0));
}

edge *export_operand_0(export_call *c) {
    return export_in(c, 0);
}

edge *export_cast_op(export_call *c) {
    return export_cast(c, export_in(c, 0), export_dtype(c, 0), (weft_dtype)export_int(c, "dtype"));
}

/* ---- of one operand ---- */

edge *export_abs(export_call *c) {
    return export_dtype(c, 0) == WEFT_BOOL ? export_in(c, 0) : of_0(c, "Abs");
}

edge *export_square(export_call *c) {
    return export_2(c, "Mul", export_in(c, 0), export_in(c, 0));
}

edge *export_rsqrt(export_call *c) {
    return export_1(c, "Reciprocal", of_0(c, "Sqrt"));
}

edge *export_root(export_call *c) {
    return by_number(c, "Pow", export_real(c, "exponent"));
}

edge *export_scale(export_call *c) {
    double factor = export_real(c, "factor");
    return factor == 1 ? export_in(c, 0) : by_number(c, "Mul", factor);
}

edge *export_offset(export_call *c) {
    return by_number(c, "Add", export_real(c, "amount"));
}

/* Integers stay as they are. */
edge *export_floor(export_call *c) {
    return of_float(c) ? of_0(c, "Floor") : export_in(c, 0);
}

edge *export_ceil(export_call *c) {
    return of_float(c) ? of_0(c, "Ceil") : export_in(c, 0);
}

edge *export_round(export_call *c) {
    return of_float(c) ? of_0(c, "Round") : export_in(c, 0);
}

static edge *truncated(export_call *c, edge *x) {
    edge *size = export_1(c, "Floor", export_1(c, "Abs", x));
    return export_2(c, "Mul", export_1(c, "Sign", x), size);
}

edge *export_trunc(export_call *c) {
    return of_float(c) ? truncated(c, export_in(c, 0)) : export_in(c, 0);
}

/* Of floating point alone; no integer is NaN. */
static edge *false_like(export_call *c) {
    return export_2(c, "Greater", export_in(c, 0), export_in(c, 0));
}

edge *export_isnan(export_call *c) {
    return of_float(c) ? of_0(c, "IsNaN") : false_like(c);
}

edge *export_isinf(export_call *c) {
    return of_float(c) ? of_0(c, "IsInf") : false_like(c);
}

/* `near` where |x| < 1/2, `far` elsewhere. */
static edge *near_0(export_call *c, edge *near, edge *far) {
    edge *size = of_0(c, "Abs"), *is_near = export_2(c, "Less", size, number(c, 0.5));
    return export_3(c, "Where", is_near, near, far);
}

/* Near 0 e^x - 1 = 2 t / (1 - t) with t = tanh(x / 2), which loses no digits. */
edge *export_expm1(export_call *c) {
    edge *t = export_1(c, "Tanh", by_number(c, "Mul", 0.5)), *rest = export_2(c, "Sub", number(c, 1), t);
    edge *near = export_2(c, "Div", export_2(c, "Add", t, t), rest);
    edge *power = of_0(c, "Exp");
    return near_0(c, near, export_2(c, "Sub", power, number(c, 1)));
}

/* Near 0 log(1 + x) = 2 atanh(x / (2 + x)). */
edge *export_log1p(export_call *c) {
    edge *t = export_1(c, "Atanh", export_2(c, "Div", export_in(c, 0), by_number(c, "Add", 2)));
    edge *near = export_2(c, "Add", t, t), *far = export_1(c, "Log", by_number(c, "Add", 1));
    return near_0(c, near, far);
}

/* ---- activations ---- */

edge *export_leaky_relu(export_call *c) {
    return with_real(c, of_0(c, "LeakyRelu"), "alpha", export_real(c, "slope"));
}

edge *export_elu(export_call *c) {
    return with_real(c, of_0(c, "Elu"), "alpha", export_real(c, "alpha"));
}

edge *export_gelu_tanh(export_call *c) {
    return with_text(c, of_0(c, "Gelu"), "approximate", "tanh");
}

edge *export_silu(export_call *c) {
    return export_2(c, "Mul", export_in(c, 0), of_0(c, "Sigmoid"));
}

edge *export_clamp(export_call *c) {
    double min = export_real(c, "min"), max = export_real(c, "max");
    edge *least = isinf(min) ? NULL : number(c, min), *most = isinf(max) ? NULL : number(c, max);
    return export_3(c, "Clip", export_in(c, 0), least, most);
}

/* log(1 + e^-|x|) + max(x, 0), the same as Softplus without overflow. */
static edge *soft_plus(export_call *c, edge *x) {
    edge *e = export_1(c, "Exp", export_1(c, "Neg", export_1(c, "Abs", x)));
    edge *above = export_1(c, "Relu", x);
    return export_2(c, "Add", above, export_1(c, "Log", export_2(c, "Add", e, number(c, 1))));
}

edge *export_softplus(export_call *c) {
    double beta = export_real(c, "beta");
    edge *x = export_in(c, 0), *scaled = beta == 1 ? x : by_number(c, "Mul", beta), *y = soft_plus(c, scaled);
    if (beta != 1) y = export_2(c, "Div", y, number(c, beta));
    return export_3(c, "Where", export_2(c, "Greater", scaled, number(c, export_real(c, "threshold"))), x, y);
}

/* max(x, 0) - x t + log(1 + e^-|x|) */
edge *export_bce_with_logits(export_call *c) {
    edge *x = export_in(c, 0);
    edge *soft = soft_plus(c, x);
    return export_2(c, "Sub", soft, export_2(c, "Mul", x, export_in(c, 1)));
}

/* ---- of two operands ---- */

edge *export_log_add(export_call *c) {
    return export_2(c, "Add", of_0(c, "Log"), export_in(c, 1));
}

edge *export_not_equal(export_call *c) {
    return export_1(c, "Not", export_2(c, "Equal", export_in(c, 0), export_in(c, 1)));
}

/* The angle of (b, a): atan(a / b) in the right half, pi further in the left one. */
edge *export_atan2(export_call *c) {
    edge *a = export_in(c, 0), *b = export_in(c, 1), *zero = number(c, 0), *half = number(c, acos(-1) / 2);
    edge *angle = export_1(c, "Atan", export_2(c, "Div", a, b)), *is_left = export_2(c, "Less", b, zero);
    edge *is_below = export_2(c, "Less", a, zero), *turn = number(c, acos(-1));
    turn = export_3(c, "Where", is_below, export_1(c, "Neg", turn), turn);
    angle = export_3(c, "Where", is_left, export_2(c, "Add", angle, turn), angle);
    edge *upright = export_2(c, "Mul", export_1(c, "Sign", a), half);
    return export_3(c, "Where", export_2(c, "Equal", b, zero), upright, angle);
}

/* ---- quotients and remainders ---- */

edge *export_fmod(export_call *c) {
    return with_int(c, export_2(c, "Mod", export_in(c, 0), export_in(c, 1)), "fmod", 1);
}

/* Mod of integers has the sign of b; that of floating point is moved where its sign is not b's. */
edge *export_remainder(export_call *c) {
    edge *a = export_in(c, 0), *b = export_in(c, 1), *zero = number(c, 0);
    if (!of_float(c)) return export_2(c, "Mod", a, b);
    edge *rest = with_int(c, export_2(c, "Mod", a, b), "fmod", 1);
    edge *sign = export_1(c, "Sign", rest), *of_b = export_1(c, "Sign", b);
    edge *is_other = export_2(c, "Less", export_2(c, "Mul", sign, of_b), zero);
    return export_3(c, "Where", is_other, export_2(c, "Add", rest, b), rest);
}

/* Of integers: (a - remainder) / b, which has no rest. */
edge *export_floor_divide(export_call *c) {
    edge *a = export_in(c, 0), *b = export_in(c, 1);
    if (of_float(c)) return export_1(c, "Floor", export_2(c, "Div", a, b));
    return export_2(c, "Div", export_2(c, "Sub", a, export_2(c, "Mod", a, b)), b);
}

edge *export_trunc_divide(export_call *c) {
    edge *quotient = export_2(c, "Div", export_in(c, 0), export_in(c, 1));
    return of_float(c) ? truncated(c, quotient) : quotient;
}

/* ---- truth values and bits ---- */

static edge *truth(export_call *c, int i) {
    return export_cast(c, export_in(c, i), export_dtype(c, i), WEFT_BOOL);
}

static edge *logical(export_call *c, const char *op) {
    edge *a = truth(c, 0), *b = truth(c, 1);
    return export_2(c, op, a, b);
}

edge *export_logical_and(export_call *c) {
    return logical(c, "And");
}

edge *export_logical_or(export_call *c) {
    return logical(c, "Or");
}

edge *export_logical_xor(export_call *c) {
    return logical(c, "Xor");
}

edge *export_logical_not(export_call *c) {
    return export_1(c, "Not", truth(c, 0));
}

static edge *bits(export_call *c, const char *of_integers, const char *of_bool) {
    return export_2(c, export_dtype(c, 0) == WEFT_BOOL ? of_bool : of_integers, export_in(c, 0),
                    export_in(c, 1));
}

edge *export_bitwise_and(export_call *c) {
    return bits(c, "BitwiseAnd", "And");
}

edge *export_bitwise_or(export_call *c) {
    return bits(c, "BitwiseOr", "Or");
}

edge *export_bitwise_xor(export_call *c) {
    return bits(c, "BitwiseXor", "Xor");
}

edge *export_bitwise_not(export_call *c) {
    return of_0(c, export_dtype(c, 0) == WEFT_BOOL ? "Not" : "BitwiseNot");
}

edge *export_where_op(export_call *c) {
    return export_where(c, export_in(c, 0), export_dtype(c, 0), export_in(c, 1), export_in(c, 2));
}
