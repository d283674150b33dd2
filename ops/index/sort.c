/* sort.c - the elements along an axis in order, and their places; torch.sort, and with `first` = k
 * torch.topk. Equal elements keep their order; NaN is larger than all numbers, and -0 equal to 0, as in
 * PyTorch. Results: the values, and their places in x as i64. dx is scatter_add of the values' gradient into
 * zeros. */
#include "ops/index/sort.h"

#include "ops/index/index.h"

static const op_attr attrs[] = {
    AXIS_ROW(sort_attrs),
    {"descending", ATTR_BOOL, offsetof(sort_attrs, descending)},
    {"first", ATTR_INT, offsetof(sort_attrs, first), 0, INT64_MAX},
    {0},
};

static bool infer(op_call *c) {
    const sort_attrs *a = c->attrs;
    const tensor_type *x = op_in(c, 0);
    int64_t axis = a->axis;
    if (!op_want_axis(c, &axis)) return false;
    if (a->first > x->shape[axis])
        return op_fail(c, WEFT_SHAPE, "%s has no %lld elements along axis %lld", TYPE(x), (long long)a->first,
                       (long long)a->axis);
    c->n_out = 2;
    if (a->first) c->out[0].shape[axis] = a->first;
    c->out[1] = c->out[0];
    c->out[1].dtype = WEFT_I64;
    return true;
}

sort_rows sort_rows_of(const sort_attrs *a, const tensor_type *x) {
    int64_t axis = a->axis;
    axis_resolve(&axis, x->ndim);
    sort_rows r = {1, x->shape[axis], 1, a->first ? a->first : x->shape[axis]};
    for (int i = 0; i < axis; i++) r.outer *= x->shape[i];
    for (int i = (int)axis + 1; i < x->ndim; i++) r.inner *= x->shape[i];
    return r;
}

static void gradient(weft_node *n, weft_value *const *dout, const bool *wanted, weft_value **din) {
    const sort_attrs *a = n->attrs;
    index_loop loop;
    if (!wanted[0] || !dout[0] ||
        !index_loop_of(&(index_attrs){a->axis, false}, &n->in[0]->type, &n->out[1].type, &loop))
        return;
    weft_value *zeros = index_zeros(n->in[0], &loop, dout[0]->type.dtype);
    din[0] = weft_scatter_add(zeros, (int)a->axis, &n->out[1], dout[0]);
}

/* Whether element i of the row at `at` comes after element k, where i < k. */
static bool comes_after(const tensor *x, int64_t *at, int64_t axis, int64_t i, int64_t k, bool descending) {
    at[axis] = i;
    double a = element_get(x, at);
    int64_t whole_a = element_int(x, at);
    at[axis] = k;
    double b = element_get(x, at);
    int64_t whole_b = element_int(x, at);
    at[axis] = 0;
    if (!dtype_is_float(x->type.dtype)) return descending ? whole_a < whole_b : whole_a > whole_b;
    bool is_greater = a > b || (a != a && b == b), is_less = a < b || (a == a && b != b);
    return descending ? is_less : is_greater;
}

/* The place at rank i of the row at `at`. */
static int64_t ranked(const tensor *places, int64_t *at, int64_t axis, int64_t i) {
    at[axis] = i;
    int64_t place = element_int(places, at);
    at[axis] = 0;
    return place;
}

static void rank(const tensor *places, int64_t *at, int64_t axis, int64_t i, int64_t place) {
    at[axis] = i;
    element_set_int(places, at, place);
    at[axis] = 0;
}

/* Insertion: element after element finds its rank among those before it. */
static void sort_row(const kernel_call *c, int64_t *at, int64_t axis) {
    const tensor *x = &c->in[0], *values = &c->out[0], *places = &c->out[1];
    const sort_attrs *a = c->attrs;
    int64_t count = 0, kept = values->type.shape[axis];
    for (int64_t i = 0; i < x->type.shape[axis]; i++) {
        int64_t to = count;
        while (to > 0 && comes_after(x, at, axis, ranked(places, at, axis, to - 1), i, a->descending)) to--;
        if (count < kept) count++;
        for (int64_t k = count - 1; k > to; k--) rank(places, at, axis, k, ranked(places, at, axis, k - 1));
        if (to < kept) rank(places, at, axis, to, i);
    }
    for (int64_t i = 0; i < kept; i++) {
        int64_t from[WEFT_MAX_NDIM], to[WEFT_MAX_NDIM];
        for (int k = 0; k < x->type.ndim; k++) from[k] = to[k] = at[k];
        from[axis] = ranked(places, at, axis, i);
        to[axis] = i;
        element_copy(values, to, x, from);
    }
}

static weft_status reference(const kernel_call *c) {
    int64_t axis = ((const sort_attrs *)c->attrs)->axis, at[WEFT_MAX_NDIM] = {0};
    tensor_type rows = c->in[0].type;
    axis_resolve(&axis, rows.ndim);
    rows.shape[axis] = 1;
    do sort_row(c, at, axis);
    while (index_next(&rows, at));
    return WEFT_OK;
}

const weft_op weft_op_sort = {
    .name = "sort",
    .torch = "torch.sort",
    .summary = "the elements along an axis in order, or the first of them, and their places",
    .min_in = 1,
    OP_ATTRS(sort_attrs, attrs),
    .reference_strided = 1,
    .precision = PRECISION_FOLLOWS,
    .infer = infer,
    .gradient = gradient,
    .reference = reference,
    .samples =
        (const op_sample[]){{"f32[5,7]", "axis=1", .out = "f32[5,7], i64[5,7]"},
                            {"f32[2,5,4,3]", "axis=1 descending=1", .out = "f32[2,5,4,3], i64[2,5,4,3]"},
                            {"f32[3,40]", "axis=-1 first=3 descending=1", .out = "f32[3,3], i64[3,3]"},
                            {"f32[6,3]", "first=2", .out = "f32[2,3], i64[2,3]"},
                            {"i64[9]", "axis=0 descending=1", .out = "i64[9], i64[9]"},
                            {"i32[100]", .out = "i32[100], i64[100]"},
                            {"u8[2,70]", "axis=1", .out = "u8[2,70], i64[2,70]"},
                            {"bool[11]", .out = "bool[11], i64[11]"},
                            {"f32[300]", "first=200", .no_gradient = true}, /* large: fast */
                            {"f32[1,520]", "axis=1 descending=1", .no_gradient = true},
                            {"i64[300]", "first=30"},
                            {"i64[3,5,2]", "axis=1"},
                            {"f32[2,1030]", "axis=1", .no_gradient = true},
                            {"f32[2,3]", "axis=2", .error = "has no axis 2"},
                            {"f32[2,3]", "axis=1 first=4", .error = "has no 4 elements along axis 1"},
                            {"f32[2,3]", "first=-1", .error = "first=-1"},
                            {0}},
};

/* Both results; NULL after an error. */
static weft_node *sorted(weft_value *x, const sort_attrs *a) {
    weft_value *values = op_value(&weft_op_sort, 1, &x, a);
    return values ? values->node : NULL;
}

static weft_value *give(weft_node *n, weft_value **places) {
    if (places) *places = n ? &n->out[1] : NULL;
    return n ? &n->out[0] : NULL;
}

weft_value *weft_sort(weft_value *x, int axis, bool descending, weft_value **places) {
    return give(sorted(x, &(sort_attrs){axis, descending, 0}), places);
}

weft_value *weft_argsort(weft_value *x, int axis, bool descending) {
    weft_node *n = sorted(x, &(sort_attrs){axis, descending, 0});
    return n ? &n->out[1] : NULL;
}

weft_value *weft_topk(weft_value *x, int64_t k, int axis, bool largest, weft_value **places) {
    int64_t at = axis;
    if (places) *places = NULL;
    if (!x) return NULL;
    if (!axis_resolve(&at, x->type.ndim))
        return value_fail(x, WEFT_SHAPE, "topk: %s has no axis %d", TYPE(&x->type), axis);
    if (k < 1 || k > x->type.shape[at])
        return value_fail(x, WEFT_ARGUMENT, "topk: k=%lld: 1 to %lld, the length of axis %d of %s",
                          (long long)k, (long long)x->type.shape[at], axis, TYPE(&x->type));
    return give(sorted(x, &(sort_attrs){axis, largest, k}), places);
}
