/* flip.c - x with the order of elements along some axes turned around; torch.flip. Its own gradient. */
#include "ops/kit/basic_attrs.h"
#include "ops/kit/op_kit.h"

static const op_attr attrs[] = {
    {"axes", ATTR_INTS, offsetof(shape_attrs, shape), -WEFT_MAX_NDIM, WEFT_MAX_NDIM - 1},
    {0},
};

bool flip_strides(const shape_attrs *a, const tensor *x, int64_t *stride, int64_t *offset) {
    unsigned turned = 0;
    *offset = 0;
    for (int i = 0; i < x->type.ndim; i++) stride[i] = x->stride[i];
    for (int i = 0; i < a->shape.n; i++) {
        int64_t axis = a->shape.v[i];
        if (!axis_resolve(&axis, x->type.ndim) || turned >> axis & 1) return false;
        turned |= 1u << axis;
        *offset += (x->type.shape[axis] - 1) * stride[axis];
        stride[axis] = -stride[axis];
    }
    return true;
}

/* Every axis at most once. */
static bool infer(op_call *c) {
    tensor x = {.type = *op_in(c, 0)};
    int64_t stride[WEFT_MAX_NDIM], offset;
    if (!flip_strides(c->attrs, &x, stride, &offset))
        return op_fail(c, WEFT_SHAPE, "axes must be those of %s, each at most once", TYPE(&x.type));
    c->out[0] = x.type;
    return true;
}

static void gradient(weft_node *n, weft_value *const *dout, const bool *wanted, weft_value **din) {
    const attr_ints *axes = &((const shape_attrs *)n->attrs)->shape;
    if (wanted[0]) din[0] = weft_flip(dout[0], axes->n, axes->v);
}

static weft_status reference(const kernel_call *c) {
    const attr_ints *axes = &((const shape_attrs *)c->attrs)->shape;
    const tensor *x = &c->in[0], *y = &c->out[0];
    int64_t at[WEFT_MAX_NDIM] = {0};
    do {
        int64_t from[WEFT_MAX_NDIM];
        for (int i = 0; i < x->type.ndim; i++) from[i] = at[i];
        for (int i = 0; i < axes->n; i++) {
            int64_t axis = axes->v[i];
            axis_resolve(&axis, x->type.ndim);
            from[axis] = x->type.shape[axis] - 1 - at[axis];
        }
        element_copy(y, at, x, from);
    } while (index_next(&y->type, at));
    return WEFT_OK;
}

/* Turned around twice along the same list of axes is x. */
static weft_value *simplify(weft_node *n) {
    const weft_node *before = n->in[0]->node;
    bool is_back = before->op == n->op && attrs_equal(n->op, n->attrs, before->attrs);
    return is_back ? before->in[0] : NULL;
}

const weft_op weft_op_flip = {
    .name = "flip",
    .torch = "torch.flip",
    .summary = "the elements in the other direction along some axes",
    .min_in = 1,
    .flags = OP_MOVES,
    OP_ATTRS(shape_attrs, attrs),
    .reference_strided = 1,
    .precision = PRECISION_FOLLOWS,
    .infer = infer,
    .simplify = simplify,
    .gradient = gradient,
    .reference = reference,
    .samples = (const op_sample[]){{"f32[2,3]", "axes=1", .out = "f32[2,3]"},
                                   {"f32[2,5,4,3]", "axes=1,-1", .out = "f32[2,5,4,3]"},
                                   {"f32[3,4,8]", "axes=0"},
                                   {"f32[3,40,8]", "axes=0,1,2"},
                                   {"i64[5]", "axes=0", .out = "i64[5]"},
                                   {"u16[3,16]", "axes=0,1", .out = "u16[3,16]"},
                                   {"u8[3,16]", "axes=0", .out = "u8[3,16]"},
                                   {"f32[2,3]", "axes=2", .error = "those of f32[2,3], each at most once"},
                                   {"f32[2,3]", "axes=1,-1", .error = "each at most once"},
                                   {0}},
};

weft_value *weft_flip(weft_value *x, int n_axes, const int64_t *axes) {
    shape_attrs a = {0};
    if (!x || !shape_attr(x->node->graph, "flip", &a.shape, n_axes, axes)) return NULL;
    return op_value(&weft_op_flip, 1, &x, &a);
}
