/* index.c - x[i, :, j], elements of x by ids for several of its axes (places.h); torch's indexing by tensors
 * of integers. An id outside its axis fails the run. dx is index_put of dy into zeros, adding. */
#include "ops/index/places.h"

static const op_attr attrs[] = {
    {"axes", ATTR_INTS, offsetof(places_attrs, axes), 0, WEFT_MAX_NDIM - 1},
    {0},
};

static bool infer(op_call *c) {
    places_loop loop;
    if (!places_want_loop(c, 0, &loop)) return false;
    c->out[0] = loop.shape;
    return true;
}

static void gradient(weft_node *n, weft_value *const *dout, const bool *wanted, weft_value **din) {
    places_attrs a = *(const places_attrs *)n->attrs;
    weft_value *in[WEFT_MAX_NDIM + 2];
    const tensor_type *x = &n->in[0]->type;
    if (!wanted[0]) return;
    in[0] = weft_broadcast_to(weft_constant(n->graph, x->dtype, 0, NULL, 0), x->ndim, x->shape);
    for (int k = 1; k < n->n_in; k++) in[k] = n->in[k];
    in[n->n_in] = dout[0];
    a.accumulate = true;
    din[0] = in[0] ? node_value(n->graph, &weft_op_index_put, n->n_in + 1, in, &a) : NULL;
}

static weft_status reference(const kernel_call *c) {
    const tensor *x = &c->in[0], *y = &c->out[0];
    int64_t at[WEFT_MAX_NDIM] = {0}, from[WEFT_MAX_NDIM];
    places_loop loop;
    if (places_loop_of(c->attrs, c->node->in, &loop)) return WEFT_INTERNAL;
    weft_status status = places_check(c, &loop);
    if (status) return status;
    do {
        places_target(c, &loop, at, from);
        element_copy(y, at, x, from);
    } while (index_next(&y->type, at));
    return WEFT_OK;
}

const weft_op weft_op_index = {
    .name = "index",
    .torch = "torch.Tensor.__getitem__",
    .summary = "elements by ids for several axes",
    .min_in = 2,
    .max_in = WEFT_MAX_NDIM + 1,
    OP_ATTRS(places_attrs, attrs),
    .reference_strided = (1 << (WEFT_MAX_NDIM + 1)) - 1,
    .precision = PRECISION_FOLLOWS,
    .infer = infer,
    .gradient = gradient,
    .reference = reference,
    .samples = (const op_sample[]){{"f32[4,5], i64[6], i64[6]", "axes=0,1", .out = "f32[6]"},
                                   {"f32[2,4,5,3], i64[6], i32[6]", "axes=1,2", .out = "f32[2,6,3]"},
                                   {"f32[4,2,5,3], i64[7], i64[7]", "axes=0,2", .out = "f32[7,2,3]"},
                                   {"f32[4,5,6], i64[3,1], i64[1,2]", "axes=0,1", .out = "f32[3,2,6]"},
                                   {"f32[4,5,6], i64[3,1], i64[2]", "axes=1,2", .out = "f32[4,3,2]"},
                                   {"f32[5,3], i64[]", "axes=0", .out = "f32[3]"},
                                   {"f32[5], i32[1,1]", "axes=0", .out = "f32[1,1]"},
                                   {"f32[5], i64[]", "axes=0", .out = "f32[]"},
                                   {"f32[2,3,5], u8[2,4]", "axes=2", .out = "f32[2,3,2,4]"},
                                   /* from the end */
                                   {"f32[4,5,3], i64[9], i32[9]", "axes=0,1", .least = -4, .below = 4},
                                   {"f32[3,3,3,3,3], i64[2], i64[], i64[2]", "axes=0,2,4", .below = 3},
                                   {"f32[37,9,40], i64[65], i64[65]", "axes=0,1", .below = 9},
                                   {"f32[9,40,37], i64[5,1], i64[70]", "axes=0,2", .least = -9, .below = 9},
                                   {"bool[4,4], i64[2], i64[2]", "axes=0,1", .out = "bool[2]"},
                                   {"i64[5,2], i64[3]", "axes=0", .out = "i64[3,2]"},
                                   {"f32[4,3], f32[5]", "axes=0", .error = "ids are f32[5]: they must be"},
                                   {"f32[4,3], i64[5], i64[4]", "axes=0,1", .error = "do not broadcast"},
                                   {"f32[4,3], i64[5], i64[5]", "axes=1,0", .error = "the axes must rise"},
                                   {"f32[4,3], i64[5]", "axes=2", .error = "the axes must rise, and be axes"},
                                   {"f32[4,3], i64[5], -", "axes=0,1", .error = "operand 2 is missing"},
                                   {"f32[4,3], i64[5]", "axes=0,1", .error = "2 operands for 2 axes"},
                                   {"f32[1,1,1,1,1,1], i64[1,1,1,1]", "axes=0", .error = "more than 8 axes"},
                                   {0}},
};

/* Puts x and the indices that are there into `in`, and their axes into *a; returns how many are in `in`. 0
 * after an error: there are more than axes. */
static int take_indices(const char *name, weft_value *x, int n, weft_value *const *indices, weft_value **in,
                        places_attrs *a) {
    int count = 1;
    in[0] = x;
    if (n < 0 || n > x->type.ndim) {
        value_fail(x, WEFT_ARGUMENT, "%s: %d indices for %s: there is one for each axis at most", name, n,
                   TYPE(&x->type));
        return 0;
    }
    for (int i = 0; i < n; i++)
        if (indices[i]) {
            a->axes.v[a->axes.n++] = i;
            in[count++] = indices[i];
        }
    return count;
}

weft_value *weft_index(weft_value *x, int n, weft_value *const *indices) {
    weft_value *in[WEFT_MAX_NDIM + 1];
    places_attrs a = {0};
    if (!x) return op_value(&weft_op_index, 1, &x, &a);
    int count = take_indices("index", x, n, indices, in, &a);
    for (int i = 0; i < count; i++)
        if (i && in[i]->type.dtype == WEFT_BOOL)
            return value_fail(x, WEFT_TYPE,
                              "index: the index of axis %d is a mask, %s: the shape would depend on its "
                              "elements; weft_where() puts a number where it is false",
                              (int)a.axes.v[i - 1], TYPE(&in[i]->type));
    return count > 1 ? op_value(&weft_op_index, count, in, &a) : count ? value_again(x) : NULL;
}

/* x with values where a mask, which is the only index, is true. Values that stood for the elements that are
 * true would need to know how many these are. */
static weft_value *put_by_mask(weft_value *x, int axis, weft_value *mask, weft_value *values,
                               bool accumulate) {
    int after = x->type.ndim - axis - mask->type.ndim;
    bool fits = after >= 0;
    for (int i = 0; fits && i < mask->type.ndim; i++) fits = mask->type.shape[i] == x->type.shape[axis + i];
    if (!fits)
        return value_fail(x, WEFT_SHAPE, "index_put: the mask of axis %d is %s, which is not so in %s", axis,
                          TYPE(&mask->type), TYPE(&x->type));
    if (values->type.ndim > after)
        return value_fail(x, WEFT_SHAPE,
                          "index_put: values are %s: those for a mask are one number, or have axes after its "
                          "own; give others in the shape of x to weft_where()",
                          TYPE(&values->type));
    for (int i = 0; mask && i < after; i++) mask = weft_unsqueeze(mask, -1);
    if (!accumulate) return weft_where(mask, values, x);
    weft_value *zero = weft_constant(x->node->graph, x->type.dtype, 0, NULL, 0);
    return weft_add(x, weft_where(mask, values, zero));
}

weft_value *weft_index_put(weft_value *x, int n, weft_value *const *indices, weft_value *values,
                           bool accumulate) {
    weft_value *in[WEFT_MAX_NDIM + 2];
    places_attrs a = {.accumulate = accumulate};
    if (!x || !values) return op_value(&weft_op_index_put, 2, (weft_value *[]){x, values}, &a);
    int count = take_indices("index_put", x, n, indices, in, &a);
    if (count == 0) return NULL;
    if (count == 2 && in[1]->type.dtype == WEFT_BOOL)
        return put_by_mask(x, (int)a.axes.v[0], in[1], values, accumulate);
    if (count > 1) {
        in[count] = values;
        return op_value(&weft_op_index_put, count + 1, in, &a);
    }
    values = weft_broadcast_to(values, x->type.ndim, x->type.shape);
    return accumulate ? weft_add(x, values) : values;
}
