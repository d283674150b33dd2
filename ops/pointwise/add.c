/* add.c - a + b with broadcasting; torch.add. Each operand's gradient is dy, summed over its broadcast
 * axes. */
#include "ops/kit/basic_attrs.h"
#include "ops/kit/op_kit.h"

static double scalar(const double *x, const void *attrs) {
    (void)attrs;
    return x[0] + x[1];
}

static void gradient(weft_node *n, weft_value *const *dout, const bool *wanted, weft_value **din) {
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

/* x + 0 is x; x + c is offset(x, c), which reads no second operand. */
static weft_value *simplify(weft_node *n) {
    double c;
    for (int i = 0; i < 2; i++) {
        weft_value *same = simplify_neutral(n, i, 0);
        if (same || (same = join_pads(n->in[i], n->in[1 - i]))) return same;
        if (constant_value(n->in[1 - i], &c) && type_equal(&n->in[i]->type, &n->out[0].type))
            return weft_offset(n->in[i], c);
    }
    return NULL;
}

const weft_op weft_op_add = {
    .name = "add",
    .summary = "a + b",
    .torch = "torch.add",
    .min_in = 2,
    .max_in = 2,
    .flags = OP_POINTWISE | OP_COMMUTES,
    .role = ROLE_SUM,
    .precision = PRECISION_FOLLOWS,
    .reduced_in = 3,
    .reduced_out = 1,
    .infer = infer_broadcast,
    .simplify = simplify,
    .gradient = gradient,
    .scalar = scalar,
    .samples = (const op_sample[]){{"f32[2,3], f32[3]", .out = "f32[2,3]"},
                                   {"f32[2,1,4], f32[3,1]", .out = "f32[2,3,4]"},
                                   {"f32[128,64], f32[10]", .error = "axis -1 is 64 and 10"},
                                   {"f32[2], f64[2]", .error = "cast one"},
                                   {0}},
};

weft_value *weft_add(weft_value *a, weft_value *b) {
    return op_value(&weft_op_add, 2, (weft_value *[]){a, b}, NULL);
}
