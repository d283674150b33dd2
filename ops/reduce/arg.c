/* arg.c - the index of the largest, or smallest, element along an axis, i64; torch.argmax, torch.argmin (it
 * searches -x). The first of equal ones; NaN counts as largest, or smallest, as in PyTorch. Result: the shape
 * of x without the axis, or with length 1 (`keep`). Any element type. No gradient. */
#include "ops/reduce/arg.h"

static const op_attr attrs[] = {
    AXIS_ROW(axis_attrs),
    {"keep", ATTR_BOOL, offsetof(axis_attrs, keep)},
    {0},
};

int arg_sign(const weft_op *op) {
    return op == &weft_op_argmin ? -1 : 1;
}

static bool infer(op_call *c) {
    const axis_attrs *a = c->attrs;
    const tensor_type *x = op_in(c, 0);
    tensor_type *out = &c->out[0];
    int64_t axis = a->axis;
    if (!op_want_axis(c, &axis)) return false;
    *out = type_scalar(WEFT_I64);
    for (int i = 0; i < x->ndim; i++)
        if (i != axis)
            out->shape[out->ndim++] = x->shape[i];
        else if (a->keep)
            out->shape[out->ndim++] = 1;
    return true;
}

/* What is compared of an integer: ~v falls as v rises, for every v. */
static int64_t ranked_int(const tensor *x, const int64_t *at, int sign) {
    int64_t v = element_int(x, at);
    return sign < 0 ? ~v : v;
}

/* The place of the best of integers, in the row that `from` begins. */
static int64_t best_int(const tensor *x, int64_t *from, int64_t axis, int sign) {
    int64_t best = 0, most = 0;
    for (int64_t k = 0; k < x->type.shape[axis]; k++) {
        from[axis] = k;
        int64_t v = ranked_int(x, from, sign);
        if (k > 0 && v <= most) continue;
        best = k;
        most = v;
    }
    return best;
}

/* The same of numbers. v != v: a first NaN wins against any number. */
static int64_t best_of(const tensor *x, int64_t *from, int64_t axis, int sign) {
    int64_t best = 0;
    double most = 0;
    for (int64_t k = 0; k < x->type.shape[axis]; k++) {
        from[axis] = k;
        double v = sign * element_get(x, from);
        if (k == 0 || v > most || (v != v && most == most)) {
            best = k;
            most = v;
        }
    }
    return best;
}

static weft_status reference(const kernel_call *c) {
    const tensor *x = &c->in[0], *y = &c->out[0];
    int sign = arg_sign(c->node->op);
    int64_t axis = ((const axis_attrs *)c->attrs)->axis, at[WEFT_MAX_NDIM] = {0}, to[WEFT_MAX_NDIM] = {0};
    axis_resolve(&axis, x->type.ndim);
    /* One result for each index of x with the axis at 0. */
    tensor_type rows = x->type;
    rows.shape[axis] = 1;
    do {
        int64_t from[WEFT_MAX_NDIM];
        for (int i = 0; i < rows.ndim; i++) from[i] = at[i];
        bool is_float = dtype_is_float(x->type.dtype);
        element_set_int(y, to, is_float ? best_of(x, from, axis, sign) : best_int(x, from, axis, sign));
        index_next(&y->type, to);
    } while (index_next(&rows, at));
    return WEFT_OK;
}

static const op_sample samples[] = {{"f32[4,10]", "axis=-1", .out = "i64[4]"},
                                    {"f32[2,37,3]", "axis=1 keep=1", .out = "i64[2,1,3]"},
                                    {"i64[9]", .out = "i64[]"},
                                    {"i32[5,40]", "axis=1", .out = "i64[5]", .least = -9, .below = 9},
                                    {"u8[40,3]", .out = "i64[3]", .below = 256},
                                    {"f32[50,333]", "axis=1"},
                                    {"f32[2,3]", "axis=2", .error = "has no axis 2"},
                                    {0}};

#define ARG_OP(NAME, TEXT)                                                                                   \
    const weft_op weft_op_##NAME = {                                                                         \
        .name = #NAME,                                                                                       \
        .summary = TEXT,                                                                                     \
        .torch = "torch." #NAME,                                                                             \
        .min_in = 1,                                                                                         \
        .flags = OP_NO_GRADIENT,                                                                             \
        OP_ATTRS(axis_attrs, attrs),                                                                         \
        .reference_strided = 1,                                                                              \
        .precision = PRECISION_FOLLOWS,                                                                      \
        .infer = infer,                                                                                      \
        .reference = reference,                                                                              \
        .samples = samples,                                                                                  \
    };                                                                                                       \
    weft_value *weft_##NAME(weft_value *x, int axis, bool keep) {                                            \
        return op_value(&weft_op_##NAME, 1, &x, &(axis_attrs){axis, keep});                                  \
    }

ARG_OP(argmax, "the index of the largest element")
ARG_OP(argmin, "the index of the smallest element")
