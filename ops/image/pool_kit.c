/* pool_kit.c - see pool.h. One reference serves sliding and adaptive averages, since both are means over
 * cells, and one both maxima. */
#include "ops/image/pool.h"

#include <math.h>

/* A dilation of 1 stands in no node, so that equal poolings have equal attributes. */
bool pool_attrs_from(pool_attrs *a, const weft_op *op, weft_value *x, const weft_pool *pool) {
    static const weft_pool none;
    const weft_pool *p = pool ? pool : &none;
    int64_t dilation[2];
    *a = (pool_attrs){.kernel.n = 2,
                      .stride.n = 2,
                      .pad.n = 2,
                      .ceil_mode = p->ceil_mode,
                      .exclude_pad = p->exclude_pad,
                      .divisor = p->divisor};
    for (int i = 0; i < 2; i++) {
        a->kernel.v[i] = p->kernel[i];
        a->stride.v[i] = p->stride[i] ? p->stride[i] : p->kernel[i];
        a->pad.v[i] = p->pad[i];
        dilation[i] = p->dilation[i] ? p->dilation[i] : 1;
    }
    if (x && !value_reserved(x, op->name, p->reserved, sizeof p->reserved)) return false;
    if (x && (p->kernel[2] || p->stride[2] || p->pad[2] || p->dilation[2]))
        return value_fail(x, WEFT_ARGUMENT,
                          "%s: an image has two axes: leave the third number of each setting 0", op->name);
    if (dilation[0] != 1 || dilation[1] != 1)
        a->dilation = (attr_ints){.n = 2, .v = {dilation[0], dilation[1]}};
    if (!x || op != &weft_op_max_pool2d || (!a->exclude_pad && !a->divisor)) return true;
    return value_fail(x, WEFT_ARGUMENT, "%s: exclude_pad and divisor are for averages", op->name);
}

pool_attrs pool_attrs_back(const pool_attrs *a, const tensor_type *input) {
    pool_attrs b = *a;
    b.size = (attr_ints){.n = 2, .v = {input->shape[2], input->shape[3]}};
    return b;
}

/* ---- windows ---- */

/* i * length is below 2^92 (both are at most 2^46), so it is computed in 128 bits. */
static void pool_part(int64_t i, int64_t count, int64_t length, int64_t *begin, int64_t *end) {
    *begin = (int64_t)((__int128)i * length / count);
    *end = (int64_t)(((__int128)(i + 1) * length + count - 1) / count);
}

void pool_window(const pool_attrs *a, int axis, int64_t i, int64_t count, int64_t length, int64_t *begin,
                 int64_t *end) {
    if (a->kernel.n == 0) {
        pool_part(i, count, length, begin, end);
        return;
    }
    int64_t step = pool_step(a, axis), first = i * a->stride.v[axis] - a->pad.v[axis];
    int64_t past = first + step * (a->kernel.v[axis] - 1) + 1;
    *begin = first >= 0 ? first : first + (step - 1 - first) / step * step;
    *end = past < length ? past : length;
    if (*end < *begin) *end = *begin; /* it lies in the padding */
}

/* ---- checks ---- */

bool pool_check_image(const op_call *c) {
    if (!op_want_float(c, 0)) return false;
    return op_in(c, 0)->ndim == 4 ||
           op_fail(c, WEFT_SHAPE, "operand 0 is %s: it must be [N, C, H, W]", TYPE(op_in(c, 0)));
}

bool pool_check_pair(const op_call *c, const char *name, const attr_ints *pair) {
    return pair->n == 2 ||
           op_fail(c, WEFT_ARGUMENT, "%s has %d numbers: it must have 2, height and width", name, pair->n);
}

bool pool_infer_size(op_call *c) {
    const pool_attrs *a = c->attrs;
    if (!pool_check_image(c) || !pool_check_pair(c, "size", &a->size)) return false;
    for (int i = 0; i < 2; i++) c->out[0].shape[2 + i] = a->size.v[i];
    return true;
}

/* Windows along an axis of `length`; below 1 where it is too short. */
static int64_t count_windows(const pool_attrs *a, int axis, int64_t length) {
    int64_t stride = a->stride.v[axis], pad = a->pad.v[axis];
    int64_t room = length + 2 * pad - pool_step(a, axis) * (a->kernel.v[axis] - 1) - 1;
    if (a->ceil_mode) room += stride - 1;
    if (room < 0) return 0;
    int64_t count = room / stride + 1;
    /* the last window must begin inside the input or the padding before it */
    return a->ceil_mode && (count - 1) * stride >= length + pad ? count - 1 : count;
}

/* Whether each window holds an element of the input: one that begins in it does. */
static bool windows_hold(const pool_attrs *a, int axis, int64_t count, int64_t length) {
    int64_t begin, end, stride = a->stride.v[axis], pad = a->pad.v[axis];
    for (int64_t i = 0; i < count && i * stride < pad; i++) {
        pool_window(a, axis, i, count, length, &begin, &end);
        if (begin >= end) return false;
    }
    return (count - 1) * stride - pad < length;
}

/* What a window in the padding would give: a mean of its zeros, or of nothing, as a maximum. */
static bool needs_elements(const op_call *c, const pool_attrs *a) {
    return c->op == &weft_op_max_pool2d || (a->exclude_pad && !a->divisor);
}

bool pool_shape(const op_call *c, const pool_attrs *a, const tensor_type *input, tensor_type *result) {
    if (!pool_check_pair(c, "kernel", &a->kernel) || !pool_check_pair(c, "stride", &a->stride) ||
        !pool_check_pair(c, "pad", &a->pad) ||
        (a->dilation.n && !pool_check_pair(c, "dilation", &a->dilation)))
        return false;
    *result = *input;
    for (int i = 0; i < 2; i++) {
        int64_t reach = pool_step(a, i) * (a->kernel.v[i] - 1) + 1, pad = a->pad.v[i];
        const char *dilated = a->dilation.n ? " with dilation" : "";
        result->shape[2 + i] = count_windows(a, i, input->shape[2 + i]);
        if (result->shape[2 + i] < 1)
            return op_fail(c, WEFT_SHAPE,
                           "%s: axis %d with pad %lld on both sides is smaller than the kernel %lld%s",
                           TYPE(input), 2 + i, (long long)pad, (long long)reach, dilated);
        if (needs_elements(c, a) && !windows_hold(a, i, result->shape[2 + i], input->shape[2 + i]))
            return op_fail(c, WEFT_SHAPE,
                           "%s: along axis %d a window of kernel %lld%s lies in the padding: use less than "
                           "pad %lld",
                           TYPE(input), 2 + i, (long long)reach, dilated, (long long)pad);
    }
    return true;
}

/* ---- cells of averages ---- */

/* Elements of window i that an average counts along an axis: the zeros of the padding too (count_include_pad,
 * PyTorch's default), but not what a last window of ceil_mode has after it. */
static int64_t counted(const pool_attrs *a, int axis, int64_t i, int64_t length, int64_t held) {
    if (a->kernel.n == 0 || a->exclude_pad) return held;
    int64_t step = pool_step(a, axis), rest = length + 2 * a->pad.v[axis] - i * a->stride.v[axis];
    rest = (rest + step - 1) / step;
    return rest < a->kernel.v[axis] ? rest : a->kernel.v[axis];
}

pool_cell pool_cell_at(const pool_attrs *a, const tensor_type *big, const tensor_type *small, int64_t y,
                       int64_t x) {
    pool_cell cell = {.divisor = 1};
    int64_t at[2] = {y, x};
    for (int i = 0; i < 2; i++) {
        int64_t length = big->shape[2 + i], step = cell.step[i] = pool_step(a, i);
        pool_window(a, i, at[i], small->shape[2 + i], length, &cell.begin[i], &cell.end[i]);
        int64_t held = (cell.end[i] - cell.begin[i] + step - 1) / step;
        cell.divisor *= (double)counted(a, i, at[i], length, held);
    }
    if (a->divisor) cell.divisor = (double)a->divisor;
    return cell;
}

/* ---- references ---- */

/* Sums in double, divided once. */
weft_status pool_average(const kernel_call *c) {
    const tensor *x = &c->in[0], *y = &c->out[0];
    int64_t at[WEFT_MAX_NDIM] = {0};
    do {
        pool_cell cell = pool_cell_at(c->attrs, &x->type, &y->type, at[2], at[3]);
        double sum = 0;
        for (int64_t row = cell.begin[0]; row < cell.end[0]; row += cell.step[0])
            for (int64_t column = cell.begin[1]; column < cell.end[1]; column += cell.step[1])
                sum += element_get(x, (int64_t[]){at[0], at[1], row, column});
        element_set(y, at, sum / cell.divisor);
    } while (index_next(&y->type, at));
    return WEFT_OK;
}

static bool cell_holds(const pool_cell *cell, int axis, int64_t k) {
    return k >= cell->begin[axis] && k < cell->end[axis] && (k - cell->begin[axis]) % cell->step[axis] == 0;
}

/* Each element of dx is the sum over the cells that contain it. */
weft_status pool_average_backward(const kernel_call *c) {
    const tensor *dy = &c->in[0], *dx = &c->out[0];
    int64_t at[WEFT_MAX_NDIM] = {0};
    do {
        double sum = 0;
        for (int64_t y = 0; y < dy->type.shape[2]; y++)
            for (int64_t x = 0; x < dy->type.shape[3]; x++) {
                pool_cell cell = pool_cell_at(c->attrs, &dx->type, &dy->type, y, x);
                if (cell_holds(&cell, 0, at[2]) && cell_holds(&cell, 1, at[3]))
                    sum += element_get(dy, (int64_t[]){at[0], at[1], y, x}) / cell.divisor;
            }
        element_set(dx, at, sum);
    } while (index_next(&dx->type, at));
    return WEFT_OK;
}

weft_status pool_maximum(const kernel_call *c) {
    const pool_attrs *a = c->attrs;
    const tensor *x = &c->in[0], *y = &c->out[0];
    int64_t at[WEFT_MAX_NDIM] = {0}, begin[2], end[2];
    do {
        for (int i = 0; i < 2; i++)
            pool_window(a, i, at[2 + i], y->type.shape[2 + i], x->type.shape[2 + i], &begin[i], &end[i]);
        /* The window is cut at the borders, so the padding is never read. */
        double best = -INFINITY;
        int64_t index = begin[0] * x->type.shape[3] + begin[1];
        for (int64_t row = begin[0]; row < end[0]; row += pool_step(a, 0))
            for (int64_t column = begin[1]; column < end[1]; column += pool_step(a, 1)) {
                double v = element_get(x, (int64_t[]){at[0], at[1], row, column});
                if (!(v > best) && !isnan(v)) continue;
                best = v;
                index = row * x->type.shape[3] + column;
            }
        element_set(y, at, best);
        element_set_int(&c->out[1], at, index);
    } while (index_next(&y->type, at));
    return WEFT_OK;
}

/* ---- maxima ---- */

/* The index is i32, so a plane has fewer than 2^31 elements. */
bool pool_infer_maximum(op_call *c) {
    const tensor_type *x = op_in(c, 0);
    if (x->shape[3] && x->shape[2] > INT32_MAX / x->shape[3])
        return op_fail(c, WEFT_SHAPE, "%s: a plane must have fewer than 2^31 elements", TYPE(x));
    c->n_out = 2;
    c->out[1] = c->out[0];
    c->out[1].dtype = WEFT_I32;
    return true;
}

void pool_maximum_gradient(weft_node *n, weft_value *const *dout, const bool *wanted, weft_value **din) {
    if (!dout[0]) return;
    pool_attrs a = {.size = {.n = 2, .v = {n->in[0]->type.shape[2], n->in[0]->type.shape[3]}}};
    din[0] = node_value(n->graph, &weft_op_max_pool2d_backward, 2, (weft_value *[]){dout[0], &n->out[1]}, &a);
}
