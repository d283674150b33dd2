/* arange.c - begin + i step for i = 0, 1, ...; torch.arange. Computed in f64 and rounded once; integers
 * are exact up to 2^53. No operands, no gradient. linspace, eye, tril, triu and one_hot are built on it by
 * comparisons, which fuse with their readers. */
#include "ops/shape/arange.h"

#include "ops/shape/lengths.h"

#include <math.h>

static const op_attr attrs[] = {
    {"dtype", ATTR_DTYPE, offsetof(arange_attrs, dtype)},
    {"shape", ATTR_INTS, offsetof(arange_attrs, shape), 0, INT64_MAX},
    {"begin", ATTR_REAL, offsetof(arange_attrs, begin)},
    {"step", ATTR_REAL, offsetof(arange_attrs, step)},
    {0},
};

/* Numbers between the first and the last fit if these two do and the step is one of the type. */
static bool infer(op_call *c) {
    const arange_attrs *a = c->attrs;
    c->out[0] = type_of(a->dtype, a->shape.n, a->shape.v);
    shape_bind(c, &c->out[0]);
    if (a->shape.n != 1) return op_fail(c, WEFT_SHAPE, "shape: %d axes: there must be one", a->shape.n);
    double steps = fmax(0, (double)(c->out[0].shape[0] - 1)), last = a->begin + steps * a->step;
    bool is_whole = dtype_is_float(a->dtype) || a->step == floor(a->step);
    if (!is_whole || !constant_fits(a->dtype, a->begin) || !constant_fits(a->dtype, last))
        return op_fail(c, WEFT_ARGUMENT, "%s cannot hold the numbers %g to %g by steps of %g",
                       dtype_name(a->dtype), a->begin, last, a->step);
    return true;
}

static weft_status reference(const kernel_call *c) {
    const arange_attrs *a = c->attrs;
    int64_t at[WEFT_MAX_NDIM] = {0};
    do element_set(&c->out[0], at, a->begin + (double)at[0] * a->step);
    while (index_next(&c->out[0].type, at));
    return WEFT_OK;
}

const weft_op weft_op_arange = {
    .name = "arange",
    .summary = "begin + i * step for i = 0, 1, ...",
    .torch = "torch.arange",
    .flags = OP_NO_GRADIENT,
    OP_ATTRS(arange_attrs, attrs),
    .infer = infer,
    .reference = reference,
    .samples =
        (const op_sample[]){{"", "dtype=i64 shape=5 step=1", .out = "i64[5]"},
                            {"", "dtype=f32 shape=1003 begin=-1.5 step=0.25", .out = "f32[1003]"},
                            {"", "dtype=i32 shape=70 begin=9 step=-2", .out = "i32[70]"},
                            {"", "dtype=f64 shape=3 step=0.1", .out = "f64[3]"},
                            {"", "dtype=bf16 shape=37 begin=1 step=1"},
                            {"", "dtype=f16 shape=37 begin=1 step=0.5"},
                            {"", "dtype=u8 shape=256 step=1", .out = "u8[256]"},
                            {"", "dtype=u8 shape=257 step=1", .error = "u8 cannot hold the numbers 0 to 256"},
                            {"", "dtype=i64 shape=3 step=0.5", .error = "by steps of 0.5"},
                            {"", "dtype=f32 shape=2,3 step=1", .error = "2 axes: there must be one"},
                            {"", "dtype=f32 shape=-1", .error = "at least 0"},
                            {0}},
};

/* n numbers from `begin` on. */
static weft_value *numbers(weft_graph *g, weft_dtype dtype, int64_t n, double begin, double step) {
    return node_value(g, &weft_op_arange, 0, NULL, &(arange_attrs){dtype, {1, {n}}, begin, step});
}

/* The number of elements is torch.arange's: ceil((end - begin) / step). */
weft_value *weft_arange(weft_graph *g, weft_dtype dtype, double begin, double end, double step) {
    if (!g) return NULL;
    double n = ceil((end - begin) / step);
    if (end == (double)WEFT_BATCH) return numbers(g, dtype, WEFT_BATCH, begin, step);
    if (!((end - begin) / step >= 0 && n < 0x1p46))
        return model_fail(
            g->model, g, WEFT_ARGUMENT,
            "arange: from %g to %g by steps of %g: the step must lead there, and the numbers be "
            "less than 2^46",
            begin, end, step);
    return numbers(g, dtype, (int64_t)n, begin, step);
}

weft_value *weft_linspace(weft_graph *g, weft_dtype dtype, double begin, double end, int64_t n) {
    if (!g) return NULL;
    if (n < 0)
        return model_fail(g->model, g, WEFT_ARGUMENT, "linspace: %lld numbers: at least 0", (long long)n);
    return numbers(g, dtype, n, begin, n > 1 ? (end - begin) / (double)(n - 1) : 0);
}

/* The numbers 0, 1, ... as a column [n, 1], or from `begin` on. */
static weft_value *column(weft_graph *g, int64_t n, double begin) {
    weft_value *v = numbers(g, WEFT_I64, n, begin, 1);
    return weft_reshape(v, 2, (int64_t[]){-1, 1});
}

weft_value *weft_eye(weft_graph *g, weft_dtype dtype, int64_t rows, int64_t columns) {
    if (!g) return NULL;
    if (rows < 0 || columns < 0)
        return model_fail(g->model, g, WEFT_ARGUMENT, "eye: %lld rows and %lld columns: at least 0 of each",
                          (long long)rows, (long long)columns);
    weft_value *row = column(g, rows, 0);
    weft_value *place = row ? numbers(g, WEFT_I64, columns, 0, 1) : NULL;
    weft_value *same = place ? weft_equal(row, place) : NULL;
    return weft_cast(same, dtype);
}

/* x where row + diagonal >= column, or with `upper` where it is <=. */
static weft_value *triangle(const char *name, weft_value *x, int64_t diagonal, bool upper) {
    if (!x) return NULL;
    weft_graph *g = x->node->graph;
    int last = x->type.ndim - 1;
    if (last < 1)
        return value_fail(x, WEFT_SHAPE, "%s: %s has no rows and columns: two axes at least", name,
                          TYPE(&x->type));
    int64_t rows = axis_length(x, last - 1), columns = axis_length(x, last);
    if (rows != WEFT_BATCH) x = fixed_axis(x, last - 1);
    if (columns != WEFT_BATCH) x = fixed_axis(x, last);
    weft_value *row = column(g, rows, (double)diagonal);
    weft_value *place = row ? numbers(g, WEFT_I64, columns, 0, 1) : NULL;
    weft_value *out = !place ? NULL : upper ? weft_greater(row, place) : weft_greater(place, row);
    weft_value *zero = out ? weft_constant(g, x->type.dtype, 0, NULL, 0) : NULL;
    return zero ? weft_where(out, zero, x) : NULL;
}

weft_value *weft_tril(weft_value *x, int64_t diagonal) {
    return triangle("tril", x, diagonal, false);
}

weft_value *weft_triu(weft_value *x, int64_t diagonal) {
    return triangle("triu", x, diagonal, true);
}

weft_value *weft_one_hot(weft_value *ids, int64_t classes, weft_dtype dtype) {
    if (!ids) return NULL;
    weft_graph *g = ids->node->graph;
    if (!dtype_is_integer(ids->type.dtype))
        return value_fail(ids, WEFT_TYPE, "one_hot: ids are %s: they must be integer", TYPE(&ids->type));
    if (classes < 1 || (ids->type.dtype == WEFT_U8 && classes > 256))
        return value_fail(ids, WEFT_ARGUMENT, "one_hot: %lld classes for ids of type %s", (long long)classes,
                          dtype_name(ids->type.dtype));
    weft_value *each = weft_unsqueeze(ids, -1);
    weft_value *all = each ? numbers(g, ids->type.dtype, classes, 0, 1) : NULL;
    weft_value *same = all ? weft_equal(each, all) : NULL;
    return weft_cast(same, dtype);
}
