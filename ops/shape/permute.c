/* permute.c - the same elements with the axes in another order: axis i of the result is axis axes[i] of the
 * operand; torch.permute. A view with permuted strides. dx is dy with the inverse permutation. */
#include "ops/kit/basic_attrs.h"
#include "ops/kit/op_kit.h"

static const op_attr attrs[] = {
    {"axes", ATTR_INTS, offsetof(shape_attrs, shape), -WEFT_MAX_NDIM, WEFT_MAX_NDIM - 1},
    {0},
};

/* Every axis once. */
static bool infer(op_call *c) {
    const shape_attrs *a = c->attrs;
    const tensor_type *x = op_in(c, 0);
    unsigned seen = 0;
    if (a->shape.n != x->ndim) return op_fail(c, WEFT_SHAPE, "%d axes for %s", a->shape.n, TYPE(x));
    for (int i = 0; i < x->ndim; i++) {
        int64_t axis = a->shape.v[i];
        if (!axis_resolve(&axis, x->ndim) || seen >> axis & 1)
            return op_fail(c, WEFT_SHAPE, "axis %lld: every axis of %s must be named once", (long long)axis,
                           TYPE(x));
        seen |= 1u << axis;
        c->out[0].shape[i] = x->shape[axis];
    }
    return true;
}

/* Strides are permuted like axes. */
static bool view(const weft_node *n, const int64_t *in_stride, int64_t *out_stride, int64_t *offset) {
    const shape_attrs *a = n->attrs;
    *offset = 0;
    for (int i = 0; i < a->shape.n; i++) {
        int64_t axis = a->shape.v[i];
        if (!axis_resolve(&axis, a->shape.n)) return false;
        out_stride[i] = in_stride[axis];
    }
    return true;
}

static void gradient(weft_node *n, weft_value *const *dout, const bool *wanted, weft_value **din) {
    const shape_attrs *a = n->attrs;
    int64_t back[WEFT_MAX_NDIM];
    for (int i = 0; i < a->shape.n; i++) {
        int64_t axis = a->shape.v[i];
        if (axis_resolve(&axis, a->shape.n)) back[axis] = i;
    }
    din[0] = weft_permute(dout[0], back);
}

/* Two permutations in a row become one, or none if they undo each other. */
static weft_value *simplify(weft_node *n) {
    const weft_node *before = n->in[0]->node;
    const attr_ints *axes = &((const shape_attrs *)n->attrs)->shape;
    int64_t both[WEFT_MAX_NDIM];
    bool same = true, chained = before->op == n->op;
    for (int i = 0; i < axes->n; i++) {
        int64_t axis = axes->v[i];
        if (!axis_resolve(&axis, axes->n)) return NULL;
        both[i] = chained ? ((const shape_attrs *)before->attrs)->shape.v[axis] : axis;
        if (!axis_resolve(&both[i], axes->n)) return NULL;
        same &= both[i] == i;
    }
    if (same) return chained ? before->in[0] : n->in[0];
    return chained ? weft_permute(before->in[0], both) : NULL;
}

const weft_op weft_op_permute = {
    .name = "permute",
    .summary = "axes in another order",
    .torch = "torch.permute",
    .min_in = 1,
    .flags = OP_VIEW,
    OP_ATTRS(shape_attrs, attrs),
    .reference_strided = 1,
    .precision = PRECISION_FOLLOWS,
    .infer = infer,
    .simplify = simplify,
    .gradient = gradient,
    .reference = reference_view,
    .view = view,
    .samples = (const op_sample[]){{"f32[2,3]", "axes=1,0", .out = "f32[3,2]"},
                                   {"f32[2,3,4,5]", "axes=0,2,-1,1", .out = "f32[2,4,5,3]"},
                                   {"u8[5,2,7]", "axes=2,0,1", .out = "u8[7,5,2]"},
                                   {"f32[170,90]", "axes=1,0"},
                                   {"f64[3,67,70]", "axes=0,2,1"},
                                   {"f32[2,20,35,33]", "axes=0,3,1,2"},
                                   {"f32[4,33,6,8]", "axes=0,2,1,3"},
                                   {"f32[2,3]", "axes=0", .error = "1 axes for f32[2,3]"},
                                   {"f32[2,3]", "axes=0,-2", .error = "must be named once"},
                                   {"f32[2,3]", "axes=0,2", .error = "must be named once"},
                                   {0}},
};

weft_value *weft_permute(weft_value *x, const int64_t *axes) {
    shape_attrs a = {0};
    if (!x || !shape_attr(x->node->graph, "permute", &a.shape, x->type.ndim, axes)) return NULL;
    return node_value(x->node->graph, &weft_op_permute, 1, &x, &a);
}

/* torch.transpose: a permute that swaps two axes. */
weft_value *weft_transpose(weft_value *x, int axis_a, int axis_b) {
    if (!x) return NULL;
    int64_t a = axis_a, b = axis_b, axes[WEFT_MAX_NDIM];
    if (!axis_resolve(&a, x->type.ndim) || !axis_resolve(&b, x->type.ndim))
        return value_fail(x, WEFT_SHAPE, "transpose: %s has no axes %d and %d", TYPE(&x->type), axis_a,
                          axis_b);
    for (int i = 0; i < x->type.ndim; i++) axes[i] = i == a ? b : i == b ? a : i;
    return weft_permute(x, axes);
}

weft_value *value_again(weft_value *v) {
    int64_t axes[WEFT_MAX_NDIM];
    for (int i = 0; i < WEFT_MAX_NDIM; i++) axes[i] = i;
    /* works for any type and batch size; a view to the layout pass, and removed by simplify */
    return weft_permute(v, axes);
}
