/* reshape.c - the same elements, in row-major order, in another shape; torch.reshape. One axis may be -1: its
 * length is computed. A view where strides allow it. dx is dy in the shape of x. */
#include "ops/shape/lengths.h"

#include "ops/kit/basic_attrs.h"

static const op_attr attrs[] = {
    {"shape", ATTR_INTS, offsetof(shape_attrs, shape), -1, INT64_MAX},
    {0},
};

/* The error names both shapes and the number of elements. */
static bool no_fit(op_call *c) {
    return op_fail(c, WEFT_SHAPE, "%s (%lld elements) cannot become %s", TYPE(op_in(c, 0)),
                   (long long)type_elements(op_in(c, 0)), TYPE(&c->out[0]));
}

static bool infer(op_call *c) {
    const shape_attrs *a = c->attrs;
    const tensor_type *x = op_in(c, 0);
    tensor_type *out = &c->out[0];
    int64_t elements = type_elements(x);
    size_t known = 1; /* the product of all axes but -1 */
    int open = -1;
    *out = type_of(x->dtype, a->shape.n, a->shape.v);
    shape_bind(c, out);
    for (int i = 0; i < out->ndim; i++) {
        if (out->shape[i] != -1) {
            if (out->shape[i] < 0 || !size_mul(&known, known, (size_t)out->shape[i])) return no_fit(c);
        } else if (open >= 0) {
            return op_fail(c, WEFT_ARGUMENT, "shape: only one axis may be -1");
        } else {
            open = i;
        }
    }
    /* The open axis takes what the known ones leave. */
    if (open >= 0 && known == 0)
        return op_fail(c, WEFT_ARGUMENT, "shape: an axis is 0, so any number fits for -1: write it");
    if (open >= 0 && (size_t)elements % known == 0) {
        out->shape[open] = elements / (int64_t)known;
        known *= (size_t)out->shape[open];
    }
    if (known != (size_t)elements) return no_fit(c);
    return true;
}

static void gradient(weft_node *n, weft_value *const *dout, const bool *wanted, weft_value **din) {
    din[0] = weft_reshape(dout[0], n->in[0]->type.ndim, n->in[0]->type.shape);
}

/* Walks over both shapes from the front in groups of axes with equal numbers of elements. Inside a group the
 * operand's strides must be regular (stride[i] = stride[i+1] * shape[i+1]). After numpy's
 * _attempt_nocopy_reshape. */
static bool view(const weft_node *n, const int64_t *in_stride, int64_t *out_stride, int64_t *offset) {
    const tensor_type *x = &n->in[0]->type, *y = &n->out[0].type;
    int64_t shape[WEFT_MAX_NDIM], stride[WEFT_MAX_NDIM]; /* the operand without axes of length 1 */
    int axes = 0, from = 0, to = 0;
    for (int i = 0; i < x->ndim; i++)
        if (x->shape[i] > 1) {
            shape[axes] = x->shape[i];
            stride[axes++] = in_stride[i];
        }
    *offset = 0;
    while (to < y->ndim) {
        int first = to, last = from;
        int64_t want = y->shape[to++], have = from < axes ? shape[from] : 1;
        while (want != have) {
            if (want < have)
                want *= y->shape[to++];
            else
                have *= shape[++last];
        }
        for (int i = from; i < last; i++)
            if (stride[i] != stride[i + 1] * shape[i + 1]) return false;
        int64_t step = from < axes ? stride[last] : 1;
        /* A group of length 1 uses up no axis of the operand. */
        if (want > 1)
            from = last + 1;
        else
            step = 1;
        for (int i = to - 1; i >= first; i--) {
            out_stride[i] = step;
            step *= y->shape[i];
        }
    }
    return true;
}

const weft_op weft_op_reshape = {
    .name = "reshape",
    .summary = "the same elements under another shape",
    .torch = "torch.reshape",
    .min_in = 1,
    .flags = OP_VIEW,
    OP_ATTRS(shape_attrs, attrs),
    .reference_strided = 1,
    .precision = PRECISION_FOLLOWS,
    .infer = infer,
    .simplify = simplify_same_type,
    .gradient = gradient,
    .reference = reference_reshape,
    .view = view,
    .samples = (const op_sample[]){{"f32[2,3,4]", "shape=6,4", .out = "f32[6,4]"},
                                   {"f32[2,3,4]", "shape=4,-1,3", .out = "f32[4,2,3]"},
                                   {"f32[2,3,4,5]", "shape=2,60", .out = "f32[2,60]"},
                                   {"i64[1]", .out = "i64[]"},
                                   {"f32[]", "shape=1,1", .out = "f32[1,1]"},
                                   {"f32[2,3]", "shape=4", .error = "(6 elements) cannot become f32[4]"},
                                   {"f32[2,3]", "shape=-1,4", .error = "cannot become"},
                                   {"f32[2,3]", "shape=0,-1", .error = "any number fits for -1"},
                                   {"f32[2,3]", "shape=0", .error = "cannot become"},
                                   {"f32[2,3]", "shape=-1,-1", .error = "only one axis may be -1"},
                                   {0}},
};

weft_value *weft_reshape(weft_value *x, int ndim, const int64_t *shape) {
    shape_attrs a = {0};
    if (!x || !shape_attr(x->node->graph, "reshape", &a.shape, ndim, shape)) return NULL;
    return node_value(x->node->graph, &weft_op_reshape, 1, &x, &a);
}

/* torch.flatten from `first_axis` on. */
weft_value *weft_flatten(weft_value *x, int first_axis) {
    if (!x) return NULL;
    int64_t first = first_axis, flat[] = {-1};
    if (x->type.ndim && !axis_resolve(&first, x->type.ndim))
        return value_fail(x, WEFT_SHAPE, "flatten: %s has no axis %d", TYPE(&x->type), first_axis);
    if (x->type.ndim == 0 || first == 0) return weft_reshape(x, 1, flat);
    lengths l = lengths_of(x);
    lengths_merge(&l, (int)first, l.n);
    return reshape_lengths(x, &l);
}

weft_value *weft_unsqueeze(weft_value *x, int axis) {
    if (!x) return NULL;
    int64_t at = axis;
    if (x->type.ndim == WEFT_MAX_NDIM || !axis_resolve(&at, x->type.ndim + 1))
        return value_fail(x, WEFT_SHAPE, "unsqueeze: %s with a new axis %d: -%d to %d are possible%s",
                          TYPE(&x->type), axis, x->type.ndim + 1, x->type.ndim,
                          x->type.ndim == WEFT_MAX_NDIM ? ", but it has as many axes as there can be" : "");
    lengths l = lengths_of(x);
    lengths_insert(&l, (int)at, 1);
    return reshape_lengths(x, &l);
}

weft_value *weft_squeeze(weft_value *x, int axis) {
    if (!x) return NULL;
    int64_t at = axis;
    if (!axis_resolve(&at, x->type.ndim) || x->type.shape[at] != 1)
        return value_fail(x, WEFT_SHAPE, "squeeze: %s has no axis %d of length 1", TYPE(&x->type), axis);
    x = fixed_axis(x, (int)at);
    if (!x) return NULL;
    lengths l = lengths_of(x);
    lengths_remove(&l, (int)at);
    return reshape_lengths(x, &l);
}
