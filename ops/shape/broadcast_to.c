/* broadcast_to.c - x repeated to a shape that it broadcasts to; torch.broadcast_to. An axis may be -1: it
 * keeps its length, whatever the batch. A view in which repeated axes have stride 0. dx is dy summed over
 * these axes. */
#include "ops/kit/basic_attrs.h"
#include "ops/kit/op_kit.h"

static const op_attr attrs[] = {
    {"shape", ATTR_INTS, offsetof(shape_attrs, shape), -1, INT64_MAX},
    {0},
};

/* The result must be exactly the wanted shape: x may not be larger. */
static bool infer(op_call *c) {
    const shape_attrs *a = c->attrs;
    const tensor_type *x = op_in(c, 0);
    tensor_type want = type_of(x->dtype, a->shape.n, a->shape.v);
    shape_bind(c, &want);
    for (int i = 0; i < want.ndim; i++) {
        int own = i - (want.ndim - x->ndim);
        if (want.shape[i] != -1) continue;
        if (own < 0)
            return op_fail(c, WEFT_SHAPE, "axis %d is -1, but %s has no such axis to keep the length of", i,
                           TYPE(x));
        want.shape[i] = x->shape[own];
    }
    if (!shape_broadcast(x, &want, &c->out[0]) || !shape_equal(&c->out[0], &want))
        return op_fail(c, WEFT_SHAPE, "%s does not broadcast to %s", TYPE(x), TYPE(&want));
    return true;
}

static bool view(const weft_node *n, const int64_t *in_stride, int64_t *out_stride, int64_t *offset) {
    const tensor_type *x = &n->in[0]->type, *y = &n->out[0].type;
    int lead = y->ndim - x->ndim;
    *offset = 0;
    for (int i = 0; i < y->ndim; i++)
        out_stride[i] = i < lead || x->shape[i - lead] == 1 ? 0 : in_stride[i - lead];
    return true;
}

static void gradient(weft_node *n, weft_value *const *dout, const bool *wanted, weft_value **din) {
    din[0] = sum_to(dout[0], n->in[0]);
}

const weft_op weft_op_broadcast_to = {
    .name = "broadcast_to",
    .summary = "x repeated to a shape",
    .torch = "torch.broadcast_to",
    .min_in = 1,
    .flags = OP_VIEW,
    OP_ATTRS(shape_attrs, attrs),
    .reference_strided = 1,
    .precision = PRECISION_FOLLOWS,
    .infer = infer,
    .simplify = simplify_same_type,
    .gradient = gradient,
    .reference = reference_view,
    .view = view,
    .samples = (const op_sample[]){{"f32[3,1]", "shape=2,3,4", .out = "f32[2,3,4]"},
                                   {"f32[]", "shape=5", .out = "f32[5]"},
                                   {"f32[2,1,3]", "shape=-1,5,-1", .out = "f32[2,5,3]"},
                                   {"f32[3]", "shape=-1,3", .error = "axis 0 is -1, but f32[3] has no such"},
                                   {"f32[3]", "shape=0", .error = "does not broadcast"},
                                   {"i64[4]", "shape=3,4", .out = "i64[3,4]"},
                                   {"f32[3]", "shape=2,4", .error = "f32[3] does not broadcast to f32[2,4]"},
                                   {"f32[2,3]", "shape=3", .error = "does not broadcast"},
                                   {"f32[2,3]", "shape=1,3", .error = "does not broadcast"},
                                   {0}},
};

weft_value *weft_broadcast_to(weft_value *x, int ndim, const int64_t *shape) {
    shape_attrs a = {0};
    if (!x || !shape_attr(x->node->graph, "broadcast_to", &a.shape, ndim, shape)) return NULL;
    return node_value(x->node->graph, &weft_op_broadcast_to, 1, &x, &a);
}
