/* concat.c - values one after the other along an axis, with equal other axes; torch.cat. The gradient of
 * operand i is its range of dy. */
#include "ops/kit/basic_attrs.h"
#include "ops/kit/op_kit.h"

enum { MOST_JOINED = 32 /* operands of a node that simplify makes: chains of thousands stay linear */ };

static const op_attr attrs[] = {
    AXIS_ROW(axis_attrs),
    {0},
};

static bool infer(op_call *c) {
    const tensor_type *first = op_in(c, 0);
    int64_t axis = ((const axis_attrs *)c->attrs)->axis;
    if (!op_want_same_dtype(c) || !op_want_axis(c, &axis)) return false;
    for (int i = 1; i < c->n_in; i++) {
        tensor_type rest = *op_in(c, i);
        /* The sum of lengths is checked, since files choose the shapes. */
        size_t length = (size_t)c->out[0].shape[axis];
        int64_t own = rest.ndim == first->ndim ? rest.shape[axis] : -1;
        if (own >= 0) rest.shape[axis] = first->shape[axis];
        if (own < 0 || !shape_equal(&rest, first) || !size_add(&length, length, (size_t)own) ||
            length > INT64_MAX)
            return op_fail(c, WEFT_SHAPE, "%s and %s differ outside axis %lld, the only one that may differ",
                           TYPE(first), TYPE(op_in(c, i)), (long long)axis);
        c->out[0].shape[axis] = (int64_t)length;
    }
    return true;
}

static void gradient(weft_node *n, weft_value *const *dout, const bool *wanted, weft_value **din) {
    int64_t axis = ((const axis_attrs *)n->attrs)->axis, at = 0;
    if (!axis_resolve(&axis, n->out[0].type.ndim)) return;
    for (int i = 0; i < n->n_in; i++) {
        int64_t end = at + n->in[i]->type.shape[axis];
        if (wanted[i]) din[i] = weft_slice(dout[0], (int)axis, at, end);
        at = end;
    }
}

static weft_status reference(const kernel_call *c) {
    int64_t axis = ((const axis_attrs *)c->attrs)->axis, begin = 0;
    axis_resolve(&axis, c->out[0].type.ndim);
    for (int i = 0; i < c->n_in; i++) {
        int64_t from[WEFT_MAX_NDIM] = {0};
        do {
            int64_t to[WEFT_MAX_NDIM];
            for (int k = 0; k < c->out[0].type.ndim; k++) to[k] = from[k] + (k == axis ? begin : 0);
            element_copy(&c->out[0], to, &c->in[i], from);
        } while (index_next(&c->in[i].type, from));
        begin += c->in[i].type.shape[axis];
    }
    return WEFT_OK;
}

/* concat(concat(a, b), c) along one axis is concat(a, b, c); chains of joined pads (add.c) build such nests.
 * */
static weft_value *simplify(weft_node *n) {
    weft_node *first = n->in[0]->node;
    weft_value *all[MOST_JOINED];
    int count = 0;
    if (n->n_in == 1) return n->in[0];
    int64_t axis = ((const axis_attrs *)n->attrs)->axis, inner;
    if (first->op != n->op || first->n_in + n->n_in > MOST_JOINED) return NULL;
    inner = ((const axis_attrs *)first->attrs)->axis;
    if (!axis_resolve(&axis, n->out[0].type.ndim) || !axis_resolve(&inner, n->out[0].type.ndim) ||
        axis != inner)
        return NULL;
    for (int i = 0; i < first->n_in; i++) all[count++] = first->in[i];
    for (int i = 1; i < n->n_in; i++) all[count++] = n->in[i];
    return weft_concat(count, all, (int)axis);
}

const weft_op weft_op_concat = {
    .name = "concat",
    .summary = "concatenates values along an axis",
    .torch = "torch.cat",
    .min_in = 1,
    .max_in = -1,
    .flags = OP_MOVES,
    .of_nothing = EMPTY_OTHERS,
    OP_ATTRS(axis_attrs, attrs),
    .reference_strided = ~0u,
    .precision = PRECISION_FOLLOWS,
    .infer = infer,
    .simplify = simplify,
    .gradient = gradient,
    .reference = reference,
    .samples = (const op_sample[]){{"f32[2,3], f32[1,3]", .out = "f32[3,3]"},
                                   {"f32[2,3,2], f32[2,1,2], f32[2,4,2]", "axis=-2", .out = "f32[2,8,2]"},
                                   {"u8[3], u8[4]", .out = "u8[7]"},
                                   {"u32[3,5], u32[3,4]", "axis=1", .out = "u32[3,9]"},
                                   {"i8[3], u8[4]", .error = "cast one"},
                                   {"f32[2,3], f32[2,4]", .error = "differ outside axis 0"},
                                   {"f32[2,3], f32[3]", .error = "differ outside axis 0"},
                                   {"f32[2], f64[2]", .error = "cast one"},
                                   {"f32[], f32[]", .error = "has no axis"},
                                   {0}},
};

weft_value *weft_concat(int n, weft_value *const *values, int axis) {
    weft_graph *g = values ? op_graph(&weft_op_concat, n, values) : NULL;
    return g ? node_value(g, &weft_op_concat, n, values, &(axis_attrs){.axis = axis}) : NULL;
}

/* torch.stack: each value with a new axis, one after the other along it. */
weft_value *weft_stack(int n, weft_value *const *values, int axis) {
    weft_graph *g = values ? op_graph(&weft_op_concat, n, values) : NULL;
    if (!g) return NULL;
    weft_value **with_axis = arena_new_array(&g->model->arena, (size_t)n, sizeof *with_axis);
    if (!with_axis) return model_fail(g->model, g, WEFT_MEMORY, "stack: out of memory");
    for (int i = 0; i < n; i++)
        if (values[i] && !type_equal(&values[0]->type, &values[i]->type))
            return model_fail(g->model, g, WEFT_SHAPE,
                              "stack: %s and %s differ: all values have one type and shape",
                              TYPE(&values[0]->type), TYPE(&values[i]->type));
    for (int i = 0; i < n; i++) with_axis[i] = weft_unsqueeze(values[i], axis);
    return weft_concat(n, with_axis, axis);
}
