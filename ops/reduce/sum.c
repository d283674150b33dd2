/* sum.c - the sum, or mean, over some axes; torch.sum, torch.mean. Result: the shape of x without these axes,
 * or with length 1 (`keep`). dx is dy, for the mean divided by the number of elements, broadcast to the shape
 * of x. The reference sums in double, fast kernels in f32 by chunks. The mean is an attribute and not a later
 * scale, because its divisor depends on the batch size. */
#include "ops/kit/basic_attrs.h"
#include "ops/kit/op_kit.h"

static const op_attr attrs[] = {
    {"axes", ATTR_INTS, offsetof(sum_attrs, axes), -WEFT_MAX_NDIM, WEFT_MAX_NDIM - 1},
    {"keep", ATTR_BOOL, offsetof(sum_attrs, keep), 0, 0},
    {"mean", ATTR_BOOL, offsetof(sum_attrs, mean), 0, 0},
    {"f32_output", ATTR_BOOL, offsetof(sum_attrs, f32_output), 0, 0},
    {0},
};

unsigned sum_axes(const sum_attrs *a, int ndim) {
    unsigned mask = a->axes.n ? 0 : (1u << ndim) - 1;
    for (int i = 0; i < a->axes.n; i++) {
        int64_t axis = a->axes.v[i];
        if (axis_resolve(&axis, ndim)) mask |= 1u << axis;
    }
    return mask;
}

/* Axes may be negative but not repeated. */
static bool infer(op_call *c) {
    const sum_attrs *a = c->attrs;
    if (!op_want_float(c, 0)) return false;
    const tensor_type *x = op_in(c, 0);
    tensor_type *out = &c->out[0];
    /* Bit i: axis i was named. */
    unsigned seen = 0;
    for (int i = 0; i < a->axes.n; i++) {
        int64_t axis = a->axes.v[i];
        if (!axis_resolve(&axis, x->ndim))
            return op_fail(c, WEFT_SHAPE, "%s has no axis %lld", TYPE(x), (long long)axis);
        if (seen >> axis & 1) return op_fail(c, WEFT_ARGUMENT, "axis %lld is named twice", (long long)axis);
        seen |= 1u << axis;
    }
    unsigned mask = sum_axes(a, x->ndim);
    *out = type_scalar(a->f32_output ? dtype_accumulator(x->dtype) : x->dtype);
    for (int i = 0; i < x->ndim; i++)
        if (!(mask >> i & 1))
            out->shape[out->ndim++] = x->shape[i];
        else if (a->keep)
            out->shape[out->ndim++] = 1;
    c->n_out = 1;
    return true;
}

/* The shape of x with length 1 at the reduced axes. */
static tensor_type kept_type(const weft_node *n) {
    tensor_type kept = n->in[0]->type;
    unsigned mask = sum_axes(n->attrs, kept.ndim);
    for (int i = 0; i < kept.ndim; i++)
        if (mask >> i & 1) kept.shape[i] = 1;
    return kept;
}

static void gradient(weft_node *n, weft_value *const *dout, const bool *wanted, weft_value **din) {
    (void)wanted;
    const sum_attrs *a = n->attrs;
    const tensor_type *x = &n->in[0]->type, kept = kept_type(n);
    weft_value *dy = dout[0];
    /* 1 / number of elements in each mean */
    if (a->mean) dy = weft_scale(dy, (double)type_elements(&n->out[0].type) / (double)type_elements(x));
    if (dy && !shape_equal(&dy->type, &kept)) dy = weft_reshape(dy, kept.ndim, kept.shape);
    din[0] = weft_broadcast_to(dy, x->ndim, x->shape);
}

static weft_status reference(const kernel_call *c) {
    const sum_attrs *a = c->attrs;
    const tensor *x = &c->in[0], *y = &c->out[0];
    tensor_type inner = type_scalar(x->type.dtype); /* shape of the reduced axes alone */
    tensor kept = *x, part;                         /* x with length 1 at the reduced axes */
    unsigned mask = sum_axes(a, x->type.ndim);
    int inner_axis[WEFT_MAX_NDIM];
    for (int i = 0; i < x->type.ndim; i++)
        if (mask >> i & 1) {
            inner_axis[inner.ndim] = i;
            inner.shape[inner.ndim++] = x->type.shape[i];
            kept.type.shape[i] = 1;
        }
    int64_t at[WEFT_MAX_NDIM] = {0}, to[WEFT_MAX_NDIM] = {0};
    do {
        int64_t in[WEFT_MAX_NDIM] = {0};
        double sum = 0;
        part = *x;
        do {
            int64_t from[WEFT_MAX_NDIM];
            for (int i = 0; i < x->type.ndim; i++) from[i] = at[i];
            for (int i = 0; i < inner.ndim; i++) from[inner_axis[i]] = in[i];
            sum += element_get(&part, from);
        } while (index_next(&inner, in));
        element_set(y, to, a->mean ? sum / (double)type_elements(&inner) : sum);
        index_next(&y->type, to);
    } while (index_next(&kept.type, at));
    return WEFT_OK;
}

const weft_op weft_op_sum = {
    .name = "sum",
    .summary = "sum or mean over axes",
    .torch = "torch.sum",
    .min_in = 1,
    .max_in = 1,
    .attrs_bytes = sizeof(sum_attrs),
    .attrs = attrs,
    .reference_strided = 1,
    .precision = PRECISION_FOLLOWS,
    /* f32_output, which the precision pass sets, keeps a reduced sum in f32. */
    .reduced_in = 1,
    .reduced_out = 1,
    .infer = infer,
    .gradient = gradient,
    .reference = reference,
    .samples = (const op_sample[]){{"f32[2,3,4]", "axes=1", .out = "f32[2,4]"},
                                   {"f32[2,3,4]", "axes=-1,0 keep=1 mean=1", .out = "f32[1,3,1]"},
                                   {"f32[2,3]", "mean=1", .out = "f32[]"},
                                   {"bf16[33,70]", "axes=0 wide=1", .out = "f32[70]", .no_gradient = true},
                                   {"f16[2,3,4]", "axes=1", .out = "f16[2,4]", .no_gradient = true},
                                   {"f32[33,70]", "axes=0", .out = "f32[70]"},
                                   {"f32[33,70]", "axes=1", .out = "f32[33]"},
                                   {"f32[3,5,4,7]", "axes=0,2,3", .out = "f32[5]"},
                                   {"f32[3,5,4,7]", "axes=2,3 mean=1", .out = "f32[3,5]"},
                                   {"f32[]", .out = "f32[]"},
                                   /* many chunks, narrow rows, rows of more than a tile */
                                   {"f32[40001]", "mean=1"},
                                   {"f32[9000,3]", "axes=0"},
                                   {"f32[150,1100]", "axes=0"},
                                   {"f32[3,5000,7]", "axes=1"},
                                   {"f32[2,19,11,13]", "axes=0,2,3"},
                                   {"f32[2,3]", "axes=2", .error = "has no axis 2"},
                                   {"f32[2,3]", "axes=1,-1", .error = "axis 1 is named twice"},
                                   {"i64[2,3]", .error = "must be floating point"},
                                   {0}},
};

/* NULL for axes means all; an empty list of axes is an error, because it would mean none. */
static weft_value *reduce(weft_value *x, int n_axes, const int64_t *axes, bool keep, bool mean) {
    sum_attrs a = {.keep = keep, .mean = mean};
    if (!x || !shape_attr(x->node->graph, "sum", &a.axes, n_axes, axes)) return NULL;
    weft_graph *g = x->node->graph;
    if (n_axes == 0 && axes)
        return model_fail(g->model, g, WEFT_ARGUMENT,
                          "sum: 0 axes of a list: for all axes pass NULL (none would leave x as it is)");
    return node_value(g, &weft_op_sum, 1, &x, &a);
}

weft_value *weft_sum(weft_value *x, int n_axes, const int64_t *axes, bool keep) {
    return reduce(x, n_axes, axes, keep, false);
}

weft_value *weft_mean(weft_value *x, int n_axes, const int64_t *axes, bool keep) {
    return reduce(x, n_axes, axes, keep, true);
}
