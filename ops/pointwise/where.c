/* where.c - condition ? a : b; torch.where. All three broadcast; the condition is bool, a and b have any one
 * type. da is dy where the condition is true, else 0; db the other way round; both summed over broadcast
 * axes. */
#include "ops/kit/op_kit.h"

static bool infer(op_call *c) {
    const tensor_type *condition = op_in(c, 0), *a = op_in(c, 1), *b = op_in(c, 2);
    if (condition->dtype != WEFT_BOOL)
        return op_fail(c, WEFT_TYPE, "the condition is %s: it must be bool", TYPE(condition));
    if (a->dtype != b->dtype)
        return op_fail(c, WEFT_TYPE, "a is %s and b %s: cast one to the other's type", TYPE(a), TYPE(b));
    if (!shape_broadcast(a, b, &c->out[0]) || !shape_broadcast(&c->out[0], condition, &c->out[0]))
        return op_fail(c, WEFT_SHAPE, "%s, %s and %s do not broadcast", TYPE(condition), TYPE(a), TYPE(b));
    c->out[0].dtype = a->dtype;
    return true;
}

static double scalar(const double *x, const void *attrs) {
    return x[0] != 0 ? x[1] : x[2];
}

static int64_t integer(const int64_t *x, const void *attrs) {
    return x[0] != 0 ? x[1] : x[2];
}

static void gradient(weft_node *n, weft_value *const *dout, const bool *wanted, weft_value **din) {
    weft_value *condition = n->in[0], *zero = weft_constant(n->graph, n->out[0].type.dtype, 0, NULL, 0);
    if (wanted[1]) din[1] = sum_to(weft_where(condition, dout[0], zero), n->in[1]);
    if (wanted[2]) din[2] = sum_to(weft_where(condition, zero, dout[0]), n->in[2]);
}

const weft_op weft_op_where = {
    .name = "where",
    .summary = "condition ? a : b",
    .torch = "torch.where",
    .min_in = 3,
    .flags = OP_POINTWISE,
    .precision = PRECISION_FOLLOWS,
    .infer = infer,
    .gradient = gradient,
    .scalar = scalar,
    .integer = integer,
    .samples = (const op_sample[]){{"bool[2,3], f32[3], f32[2,1]", .out = "f32[2,3]"},
                                   {"bool[], i64[4], i64[4]", .out = "i64[4]"},
                                   {"bool[5], i32[2,1], i32[5]", .out = "i32[2,5]", .least = -9, .below = 9},
                                   {"f32[2], f32[2], f32[2]", .error = "it must be bool"},
                                   {"bool[2], f32[2], i64[2]", .error = "cast one"},
                                   {"bool[2], f32[3], f32[]", .error = "do not broadcast"},
                                   {0}},
};

weft_value *weft_where(weft_value *condition, weft_value *a, weft_value *b) {
    return op_value(&weft_op_where, 3, (weft_value *[]){condition, a, b}, NULL);
}
