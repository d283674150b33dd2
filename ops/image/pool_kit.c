/* pool_kit.c - see pool.h. One reference serves sliding and adaptive averages, since both are means over
 * cells. */
#include "ops/image/pool.h"

pool_attrs pool_attrs_from(const weft_pool *pool) {
    static const weft_pool none;
    const weft_pool *p = pool ? pool : &none;
    pool_attrs a = {.kernel.n = 2, .stride.n = 2, .pad.n = 2};
    for (int i = 0; i < 2; i++) {
        a.kernel.v[i] = p->kernel[i];
        a.stride.v[i] = p->stride[i] ? p->stride[i] : p->kernel[i];
        a.pad.v[i] = p->pad[i];
    }
    return a;
}

pool_attrs pool_attrs_back(const pool_attrs *a, const tensor_type *input) {
    pool_attrs b = *a;
    b.size = (attr_ints){.n = 2, .v = {input->shape[2], input->shape[3]}};
    return b;
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

bool pool_shape(const op_call *c, const pool_attrs *a, const tensor_type *input, tensor_type *result) {
    if (!pool_check_pair(c, "kernel", &a->kernel) || !pool_check_pair(c, "stride", &a->stride) ||
        !pool_check_pair(c, "pad", &a->pad))
        return false;
    *result = *input;
    for (int i = 0; i < 2; i++) {
        int64_t kernel = a->kernel.v[i], pad = a->pad.v[i], length = input->shape[2 + i];
        /* PyTorch's rule; it ensures that every window holds an element of the input. */
        if (pad > kernel / 2)
            return op_fail(c, WEFT_SHAPE, "pad %lld: it must be at most half of the kernel %lld",
                           (long long)pad, (long long)kernel);
        if (length + 2 * pad < kernel)
            return op_fail(c, WEFT_SHAPE,
                           "%s: axis %d with pad %lld on both sides is smaller than the kernel %lld",
                           TYPE(input), 2 + i, (long long)pad, (long long)kernel);
        result->shape[2 + i] = (length + 2 * pad - kernel) / a->stride.v[i] + 1;
    }
    return true;
}

/* ---- windows ---- */

void pool_window(const pool_attrs *a, int axis, int64_t i, int64_t length, int64_t *begin, int64_t *end) {
    int64_t first = i * a->stride.v[axis] - a->pad.v[axis], past = first + a->kernel.v[axis];
    *begin = first > 0 ? first : 0;
    *end = past < length ? past : length;
}

/* i * length is below 2^92 (both are at most 2^46), so it is computed in 128 bits. */
void pool_part(int64_t i, int64_t count, int64_t length, int64_t *begin, int64_t *end) {
    *begin = (int64_t)((__int128)i * length / count);
    *end = (int64_t)(((__int128)(i + 1) * length + count - 1) / count);
}

/* A sliding window divides by its whole size, so that zeros of the padding count (count_include_pad,
 * PyTorch's default). As the size of the result is rounded down, no window reaches beyond the padding. */
pool_cell pool_cell_at(const pool_attrs *a, const tensor_type *big, const tensor_type *small, int64_t y,
                       int64_t x) {
    pool_cell cell;
    int64_t at[2] = {y, x};
    bool is_adaptive = a->kernel.n == 0;
    for (int i = 0; i < 2; i++)
        if (is_adaptive)
            pool_part(at[i], small->shape[2 + i], big->shape[2 + i], &cell.begin[i], &cell.end[i]);
        else
            pool_window(a, i, at[i], big->shape[2 + i], &cell.begin[i], &cell.end[i]);
    cell.divisor = is_adaptive ? (double)((cell.end[0] - cell.begin[0]) * (cell.end[1] - cell.begin[1]))
                               : (double)(a->kernel.v[0] * a->kernel.v[1]);
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
        for (int64_t row = cell.begin[0]; row < cell.end[0]; row++)
            for (int64_t column = cell.begin[1]; column < cell.end[1]; column++)
                sum += element_get(x, (int64_t[]){at[0], at[1], row, column});
        element_set(y, at, sum / cell.divisor);
    } while (index_next(&y->type, at));
    return WEFT_OK;
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
                if (at[2] >= cell.begin[0] && at[2] < cell.end[0] && at[3] >= cell.begin[1] &&
                    at[3] < cell.end[1])
                    sum += element_get(dy, (int64_t[]){at[0], at[1], y, x}) / cell.divisor;
            }
        element_set(dx, at, sum);
    } while (index_next(&dx->type, at));
    return WEFT_OK;
}
