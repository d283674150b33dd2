/* pool.cu - averages, sliding and adaptive, and maxima. Backward gathers: a thread adds, in the order of the
 * cells, what the cells that hold its pixel give it. So nothing is added atomically, the bits repeat, and dx
 * is written once. */
#include "ops/cuda/image/pool.cuh"

/* PIXELS of a window are added in f32; the sums of such blocks are added in f64, so that large windows keep
 * their precision. */
enum { THREADS = 256, PIXELS = 512 };

/* y: one thread for each pixel of y and VEC channels. */
template <class T, int VEC>
__global__ void __launch_bounds__(THREADS, 4) average_pool(const T *x, T *y, pool_sizes p) {
    const pool_axis &rows = p.axis[0], &columns = p.axis[1];
    EACH_PIXEL(at, rows.small, columns.small, p.channels, VEC, p.small) {
        int y0, y1, x0, x1;
        rows.window(at.y, y0, y1);
        columns.window(at.x, x0, x1);
        float sum[VEC] = {};
        double total[VEC] = {};
        /* added: pixels in `sum`, which goes to `total` when it is full */
        int added = 0;
        for (int row = y0; row < y1; row += rows.step)
            for (int column = x0; column < x1; column += columns.step) {
                float v[VEC];
                load_floats<VEC>(x + pixel_place(at, p, rows.large, columns.large, row, column), v);
                UNROLLED(k, VEC) sum[k] += v[k];
                if (++added < PIXELS) continue;
                added = 0;
                UNROLLED(k, VEC) {
                    total[k] += sum[k];
                    sum[k] = 0;
                }
            }
        float divisor = p.divisor_of(at.y, at.x);
        UNROLLED(k, VEC) sum[k] = (float)(total[k] + sum[k]) / divisor;
        store_floats<VEC>(y + i * VEC, sum);
    }
}

/* dx: one thread for each pixel of dx and VEC channels. */
template <class T, int VEC>
__global__ void __launch_bounds__(THREADS, 4) average_pool_backward(const T *dy, T *dx, pool_sizes p) {
    const pool_axis &rows = p.axis[0], &columns = p.axis[1];
    EACH_PIXEL(at, rows.large, columns.large, p.channels, VEC, p.large) {
        int y0, y1, x0, x1;
        /* the cells whose window holds this pixel */
        rows.cells(at.y, y0, y1);
        columns.cells(at.x, x0, x1);
        float sum[VEC] = {};
        for (int row = y0; row < y1; row++)
            for (int column = x0; column < x1; column++) {
                if (!rows.holds(row, at.y) || !columns.holds(column, at.x)) continue;
                float v[VEC], divisor = p.divisor_of(row, column);
                load_floats<VEC>(dy + pixel_place(at, p, rows.small, columns.small, row, column), v);
                UNROLLED(k, VEC) sum[k] += v[k] / divisor;
            }
        store_floats<VEC>(dx + i * VEC, sum);
    }
}

/* The first of equal values wins, and a NaN wins over everything before it, as in the reference. index = the
 * position within the plane. */
template <class T, int VEC>
__global__ void __launch_bounds__(THREADS, 4) max_pool(const T *x, T *y, int32_t *index, pool_sizes p) {
    const pool_axis &rows = p.axis[0], &columns = p.axis[1];
    EACH_PIXEL(at, rows.small, columns.small, p.channels, VEC, p.small) {
        int y0, y1, x0, x1;
        rows.window(at.y, y0, y1);
        columns.window(at.x, x0, x1);
        float best[VEC];
        vector_of<int32_t, VEC> place;
        UNROLLED(k, VEC) {
            best[k] = -INFINITY;
            place.v[k] = y0 * columns.large + x0;
        }
        for (int row = y0; row < y1; row += rows.step)
            for (int column = x0; column < x1; column += columns.step) {
                float v[VEC];
                load_floats<VEC>(x + pixel_place(at, p, rows.large, columns.large, row, column), v);
                UNROLLED(k, VEC) {
                    bool wins = v[k] > best[k] || v[k] != v[k];
                    best[k] = wins ? v[k] : best[k];
                    place.v[k] = wins ? row * columns.large + column : place.v[k];
                }
            }
        store_floats<VEC>(y + i * VEC, best);
        store(index + i * VEC, place);
    }
}

/* Where the window is known: a pixel adds dy of those cells that hold it and whose maximum it was. */
template <class T, int VEC>
__global__ void __launch_bounds__(THREADS, 4)
    max_pool_backward(const T *dy, const int32_t *index, T *dx, pool_sizes p) {
    const pool_axis &rows = p.axis[0], &columns = p.axis[1];
    EACH_PIXEL(at, rows.large, columns.large, p.channels, VEC, p.large) {
        int y0, y1, x0, x1;
        rows.cells(at.y, y0, y1);
        columns.cells(at.x, x0, x1);
        /* the index that cells have whose maximum this pixel is */
        int32_t own = at.y * columns.large + at.x;
        float sum[VEC] = {};
        for (int row = y0; row < y1; row++)
            for (int column = x0; column < x1; column++) {
                int64_t from = pixel_place(at, p, rows.small, columns.small, row, column);
                vector_of<int32_t, VEC> place = load<VEC>(index + from);
                float v[VEC];
                load_floats<VEC>(dy + from, v);
                UNROLLED(k, VEC) sum[k] += place.v[k] == own ? v[k] : 0.0f;
            }
        store_floats<VEC>(dx + i * VEC, sum);
    }
}

/* Indices of unknown origin: a thread has one pixel and channel, and looks through all cells of its plane.
 * Slow, and only for graphs whose indices do not come from max_pool2d. */
template <class T>
__global__ void __launch_bounds__(THREADS, 4)
    max_pool_backward_any(const T *dy, const int32_t *index, T *dx, pool_sizes p, cuda_failure *failure,
                          int order) {
    const pool_axis &rows = p.axis[0], &columns = p.axis[1];
    int64_t plane = (int64_t)rows.large * columns.large, cells = (int64_t)rows.small * columns.small;
    EACH_PIXEL(at, rows.large, columns.large, p.channels, 1, p.large) {
        int32_t own = at.y * columns.large + at.x;
        float sum = 0;
        for (int64_t cell = 0; cell < cells; cell++) {
            int64_t from = (at.n * cells + cell) * p.channels + at.channel;
            int32_t place = index[from];
            if (place == own) sum += to_float(dy[from]);
            if (place < 0 || place >= plane) note_failure(failure, order, place, -1);
        }
        dx[i] = from_float<T>(sum);
    }
}

/* y: one thread for each element; the index is checked, because it may come from anywhere. */
template <class T>
__global__ void __launch_bounds__(THREADS, 4)
    max_pool_gather(const T *x, const int32_t *index, T *y, pool_sizes p, cuda_failure *failure, int order) {
    int64_t plane = (int64_t)p.axis[0].large * p.axis[1].large;
    EACH_PIXEL(at, p.axis[0].small, p.axis[1].small, p.channels, 1, p.small) {
        int32_t place = index[i];
        if (place >= 0 && place < plane)
            y[i] = x[(at.n * plane + place) * p.channels + at.channel];
        else
            note_failure(failure, order, place, -1);
    }
}

/* ---- launches ---- */

static weft_status average_run(const kernel_call *c) {
    const tensor *x = &c->in[0], *y = &c->out[0];
    pool_sizes p = pool_sizes_of(static_cast<const pool_attrs *>(c->attrs), &x->type, &y->type);
    return with_pixels(c, [&](auto zero, auto vec) {
        using T = decltype(zero);
        return launch(c, average_pool<T, decltype(vec)::value>, pixel_grid(c, &y->type, vec, THREADS),
                      dim3(THREADS), 0, static_cast<const T *>(x->data), static_cast<T *>(y->data), p);
    });
}

static weft_status average_backward_run(const kernel_call *c) {
    const tensor *dy = &c->in[0], *dx = &c->out[0];
    pool_sizes p = pool_sizes_of(static_cast<const pool_attrs *>(c->attrs), &dx->type, &dy->type);
    return with_pixels(c, [&](auto zero, auto vec) {
        using T = decltype(zero);
        return launch(c, average_pool_backward<T, decltype(vec)::value>,
                      pixel_grid(c, &dx->type, vec, THREADS), dim3(THREADS), 0,
                      static_cast<const T *>(dy->data), static_cast<T *>(dx->data), p);
    });
}

weft_status cuda_avg_pool2d_run(void *, const kernel_call *c) {
    return average_run(c);
}

weft_status cuda_adaptive_avg_pool2d_run(void *, const kernel_call *c) {
    return average_run(c);
}

weft_status cuda_avg_pool2d_backward_run(void *, const kernel_call *c) {
    return average_backward_run(c);
}

weft_status cuda_adaptive_avg_pool2d_backward_run(void *, const kernel_call *c) {
    return average_backward_run(c);
}

/* x [N, C, H, W] -> y and i32 indices [N, C, OH, OW], all channels-last. */
static weft_status max_run(const kernel_call *c) {
    const tensor *x = &c->in[0], *y = &c->out[0];
    pool_sizes p = pool_sizes_of(static_cast<const pool_attrs *>(c->attrs), &x->type, &y->type);
    return with_pixels(c, [&](auto zero, auto vec) {
        using T = decltype(zero);
        return launch(c, max_pool<T, decltype(vec)::value>, pixel_grid(c, &y->type, vec, THREADS),
                      dim3(THREADS), 0, static_cast<const T *>(x->data), static_cast<T *>(y->data),
                      static_cast<int32_t *>(c->out[1].data), p);
    });
}

weft_status cuda_max_pool2d_run(void *, const kernel_call *c) {
    return max_run(c);
}

weft_status cuda_adaptive_max_pool2d_run(void *, const kernel_call *c) {
    return max_run(c);
}

/* The attributes of the pooling that made the indices; NULL when another op made them. */
static const pool_attrs *window_of(const kernel_call *c) {
    const weft_value *index = c->node->in[1];
    const weft_node *from = index->node;
    bool is_pool = from->op == &weft_op_max_pool2d || from->op == &weft_op_adaptive_max_pool2d;
    if (!is_pool || index->index != 1) return nullptr;
    bool is_same = from->in[0]->type.shape[2] == c->out[0].type.shape[2] &&
                   from->in[0]->type.shape[3] == c->out[0].type.shape[3];
    return is_same ? static_cast<const pool_attrs *>(from->attrs) : nullptr;
}

/* dy and indices -> dx. Without a known window the slow kernel checks the indices as well. */
weft_status cuda_max_pool2d_backward_run(void *, const kernel_call *c) {
    const tensor *dy = &c->in[0], *dx = &c->out[0];
    const pool_attrs *window = window_of(c);
    const int32_t *index = static_cast<const int32_t *>(c->in[1].data);
    pool_sizes p = pool_sizes_of(window, &dx->type, &dy->type);
    return with_pixels(c, [&](auto zero, auto vec) {
        using T = decltype(zero);
        const T *from = static_cast<const T *>(dy->data);
        T *to = static_cast<T *>(dx->data);
        if (window)
            return launch(c, max_pool_backward<T, decltype(vec)::value>,
                          pixel_grid(c, &dx->type, vec, THREADS), dim3(THREADS), 0, from, index, to, p);
        return launch(c, max_pool_backward_any<T>, pixel_grid(c, &dx->type, 1, THREADS), dim3(THREADS), 0,
                      from, index, to, p, c->cuda->failure, c->node->order);
    });
}

weft_status cuda_max_pool2d_gather_run(void *, const kernel_call *c) {
    const tensor *x = &c->in[0], *y = &c->out[0];
    pool_sizes p = pool_sizes_of(nullptr, &x->type, &y->type);
    const int32_t *index = static_cast<const int32_t *>(c->in[1].data);
    return with_float(c, x->type.dtype, [&](auto zero) {
        using T = decltype(zero);
        return launch(c, max_pool_gather<T>, pixel_grid(c, &y->type, 1, THREADS), dim3(THREADS), 0,
                      static_cast<const T *>(x->data), index, static_cast<T *>(y->data), p, c->cuda->failure,
                      c->node->order);
    });
}
