/* interpolate.cu - interpolate and its gradient on channels-last images: a thread has one pixel of the result
 * and some neighbouring channels. Backward gathers: a thread adds, in order, what the pixels of dy that read
 * its pixel give it. So nothing is added atomically, and the bits repeat. */
#include "ops/cuda/image/pool.cuh"

extern "C" {
#include "ops/image/interpolate.h"
}

enum { THREADS = 256 };

/* One axis of x, of length `in`, and of y; positions in f64, because a weight is the fraction of one. */
struct resized_axis {
    int in, out;
    double step, offset;                /* element i of y is at step (i + offset) - offset of x */
    float nearest_step, nearest_offset; /* nearest_step 0: bilinear */

    /* Element i of y is (1 - second) x[k] + second x[k + 1] for the k that is returned. */
    __device__ int tap(int i, float &second) const {
        second = 0;
        /* in f32 and without a fused multiply-add, as in PyTorch: rounding decides which element it is */
        if (nearest_step > 0) return last((int)floorf(((float)i + nearest_offset) * nearest_step));
        double at = step * (i + offset) - offset;
        if (at < 0) at = 0;
        if (at >= in - 1) return in - 1;
        second = (float)(at - (int)at);
        return (int)at;
    }
    __device__ int last(int k) const {
        return k < in - 1 ? k : in - 1;
    }
    /* The weight of element k of x in element i of y. */
    __device__ float weight(int i, int k) const {
        float second;
        int first = tap(i, second);
        return k == first ? 1 - second : k == first + 1 ? second : 0.0f;
    }
    /* The first element of y whose first element of x is `k` or later; they grow with i. */
    __device__ int reader(int k) const {
        int low = 0, high = out;
        while (low < high) {
            float second;
            int middle = low + (high - low) / 2;
            if (tap(middle, second) < k)
                low = middle + 1;
            else
                high = middle;
        }
        return low;
    }
    /* Elements of y that read element k of x, and at most a few beside them. */
    __device__ void readers(int k, int &begin, int &end) const {
        begin = reader(nearest_step > 0 ? k : k - 1);
        end = reader(k + 1);
    }
};

/* One axis where an element of y reads more than two of x: bicubic, or the mean of all that it covers. As
 * interpolate_span of ops/image/interpolate.h. */
struct wide_axis {
    int in, out;
    double step, offset; /* of bicubic, as above */
    double reach, scale; /* of a mean: elements of x on either side, and per unit of the filter */
    int is_cubic, is_mean;

    __device__ static float cubic(float x, float a) {
        x = fabsf(x);
        if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
        return x < 2 ? ((x - 5) * x + 8) * x * a - 4 * a : 0.0f;
    }
    __device__ double place(int i) const {
        if (is_mean) return step * (i + 0.5);
        double at = step * (i + offset) - offset;
        return at < in ? at : in;
    }
    __device__ int begin(int i) const {
        double first = is_mean ? place(i) - reach + 0.5 : floor(place(i)) - 1;
        return first < 0 ? 0 : first < in - 1 ? (int)first : in - 1;
    }
    __device__ int end(int i) const {
        double past = is_mean ? place(i) + reach + 0.5 : floor(place(i)) + 3;
        return past < 1 ? 1 : past < in ? (int)past : in;
    }
    /* The weight of element k of x at a place in it, not yet divided by `total`. */
    __device__ float weight(double at, int k) const {
        float sum = 0;
        if (is_mean) {
            float x = (float)((k - at + 0.5) / scale);
            return is_cubic ? cubic(x, -0.5f) : fmaxf(1 - fabsf(x), 0.0f);
        }
        int first = (int)floor(at);
        float after = (float)(at - first);
        for (int j = -1; j < 3; j++) {
            int held = first + j < 0 ? 0 : first + j < in ? first + j : in - 1;
            if (held == k) sum += cubic(j - after, -0.75f);
        }
        return sum;
    }
    __device__ float total(int i) const {
        float sum = 0;
        if (!is_mean) return 1;
        for (int k = begin(i); k < end(i); k++) sum += weight(place(i), k);
        return sum;
    }
    /* Elements [from, past) of y that read element k of x. */
    __device__ void readers(int k, int &from, int &past) const {
        int low = 0, high = out;
        while (low < high) {
            int middle = low + (high - low) / 2;
            if (end(middle) <= k)
                low = middle + 1;
            else
                high = middle;
        }
        from = low;
        high = out;
        while (low < high) {
            int middle = low + (high - low) / 2;
            if (begin(middle) <= k)
                low = middle + 1;
            else
                high = middle;
        }
        past = low;
    }
};

/* Not an array of axes: the emulated GPU cannot copy one (tests/cuda_host/launch.h). */
struct wide {
    wide_axis rows, columns;
    pool_sizes sizes;
};

struct resized {
    resized_axis axis[2];
    pool_sizes sizes; /* large: x, small: y; of these kernels the names of pooling's sizes */
};

template <class T, int VEC>
__global__ void __launch_bounds__(THREADS, 4) interpolate(const T *x, T *y, resized r) {
    const resized_axis &rows = r.axis[0], &columns = r.axis[1];
    EACH_PIXEL(at, rows.out, columns.out, r.sizes.channels, VEC, r.sizes.small) {
        float down[2], across[2], sum[VEC] = {};
        int row = rows.tap(at.y, down[1]), column = columns.tap(at.x, across[1]);
        down[0] = 1 - down[1];
        across[0] = 1 - across[1];
        UNROLLED(corner, 4) {
            float v[VEC], factor = down[corner / 2] * across[corner % 2];
            /* a neighbour of weight 0 may be outside of x, or infinite */
            if (factor == 0) continue;
            load_floats<VEC>(
                x + pixel_place(at, r.sizes, rows.in, columns.in, row + corner / 2, column + corner % 2), v);
            UNROLLED(k, VEC) sum[k] += factor * v[k];
        }
        store_floats<VEC>(y + i * VEC, sum);
    }
}

template <class T, int VEC>
__global__ void __launch_bounds__(THREADS, 4) interpolate_backward(const T *dy, T *dx, resized r) {
    const resized_axis &rows = r.axis[0], &columns = r.axis[1];
    EACH_PIXEL(at, rows.in, columns.in, r.sizes.channels, VEC, r.sizes.large) {
        int y0, y1, x0, x1;
        rows.readers(at.y, y0, y1);
        columns.readers(at.x, x0, x1);
        float sum[VEC] = {};
        for (int row = y0; row < y1; row++) {
            float down = rows.weight(row, at.y);
            for (int column = x0; column < x1; column++) {
                float v[VEC], factor = down * columns.weight(column, at.x);
                if (factor == 0) continue;
                load_floats<VEC>(dy + pixel_place(at, r.sizes, rows.out, columns.out, row, column), v);
                UNROLLED(k, VEC) sum[k] += factor * v[k];
            }
        }
        store_floats<VEC>(dx + i * VEC, sum);
    }
}

/* ---- four elements or more along an axis ---- */

template <class T, int VEC>
__global__ void __launch_bounds__(THREADS, 4) interpolate_wide(const T *x, T *y, wide r) {
    const wide_axis &rows = r.rows, &columns = r.columns;
    EACH_PIXEL(at, rows.out, columns.out, r.sizes.channels, VEC, r.sizes.small) {
        float sum[VEC] = {}, total = rows.total(at.y) * columns.total(at.x);
        double y_place = rows.place(at.y), x_place = columns.place(at.x);
        int last_row = rows.end(at.y), last_column = columns.end(at.x);
        for (int row = rows.begin(at.y); row < last_row; row++) {
            float down = rows.weight(y_place, row) / total;
            for (int column = columns.begin(at.x); column < last_column; column++) {
                float v[VEC], factor = down * columns.weight(x_place, column);
                if (factor == 0) continue;
                load_floats<VEC>(x + pixel_place(at, r.sizes, rows.in, columns.in, row, column), v);
                UNROLLED(k, VEC) sum[k] += factor * v[k];
            }
        }
        store_floats<VEC>(y + i * VEC, sum);
    }
}

template <class T, int VEC>
__global__ void __launch_bounds__(THREADS, 4) interpolate_wide_backward(const T *dy, T *dx, wide r) {
    const wide_axis &rows = r.rows, &columns = r.columns;
    EACH_PIXEL(at, rows.in, columns.in, r.sizes.channels, VEC, r.sizes.large) {
        int y0, y1, x0, x1;
        float sum[VEC] = {};
        rows.readers(at.y, y0, y1);
        columns.readers(at.x, x0, x1);
        for (int row = y0; row < y1; row++) {
            float down = rows.weight(rows.place(row), at.y) / rows.total(row);
            for (int column = x0; column < x1; column++) {
                float across = columns.weight(columns.place(column), at.x) / columns.total(column);
                float v[VEC], factor = down * across;
                if (factor == 0) continue;
                load_floats<VEC>(dy + pixel_place(at, r.sizes, rows.out, columns.out, row, column), v);
                UNROLLED(k, VEC) sum[k] += factor * v[k];
            }
        }
        store_floats<VEC>(dx + i * VEC, sum);
    }
}

/* ---- launches ---- */

static bool is_wide(const kernel_call *c) {
    const interpolate_attrs *a = static_cast<const interpolate_attrs *>(c->attrs);
    return a->antialias || a->mode == WEFT_INTERPOLATE_BICUBIC;
}

static wide_axis wide_axis_of(const kernel_call *c, int i, const tensor_type *x, const tensor_type *y) {
    interpolate_axis axis = interpolate_axis_of(static_cast<const interpolate_attrs *>(c->attrs), i, x, y);
    return wide_axis{(int)axis.in,
                     (int)axis.out,
                     axis.step,
                     axis.align_corners ? 0 : 0.5,
                     axis.reach,
                     axis.step > 1 ? axis.step : 1,
                     axis.mode == WEFT_INTERPOLATE_BICUBIC,
                     axis.antialias};
}

static wide wide_of(const kernel_call *c, const tensor_type *x, const tensor_type *y) {
    return wide{wide_axis_of(c, 0, x, y), wide_axis_of(c, 1, x, y), pool_sizes_of(nullptr, x, y)};
}

static resized resized_of(const kernel_call *c, const tensor_type *x, const tensor_type *y) {
    const interpolate_attrs *a = static_cast<const interpolate_attrs *>(c->attrs);
    resized r = {{}, pool_sizes_of(nullptr, x, y)};
    for (int i = 0; i < 2; i++) {
        interpolate_axis axis = interpolate_axis_of(a, i, x, y);
        r.axis[i] = resized_axis{(int)axis.in,
                                 (int)axis.out,
                                 axis.step,
                                 axis.align_corners ? 0 : 0.5,
                                 axis.mode == WEFT_INTERPOLATE_BILINEAR ? 0.0f : (float)axis.step,
                                 axis.mode == WEFT_INTERPOLATE_NEAREST_EXACT ? 0.5f : 0.0f};
    }
    return r;
}

weft_status cuda_interpolate_run(void *, const kernel_call *c) {
    const tensor *x = &c->in[0], *y = &c->out[0];
    resized r = resized_of(c, &x->type, &y->type);
    wide w = wide_of(c, &x->type, &y->type);
    return with_pixels(c, [&](auto zero, auto vec) {
        using T = decltype(zero);
        if (is_wide(c))
            return launch(c, interpolate_wide<T, decltype(vec)::value>, pixel_grid(c, &y->type, vec, THREADS),
                          dim3(THREADS), 0, static_cast<const T *>(x->data), static_cast<T *>(y->data), w);
        return launch(c, interpolate<T, decltype(vec)::value>, pixel_grid(c, &y->type, vec, THREADS),
                      dim3(THREADS), 0, static_cast<const T *>(x->data), static_cast<T *>(y->data), r);
    });
}

weft_status cuda_interpolate_backward_run(void *, const kernel_call *c) {
    const tensor *dy = &c->in[0], *dx = &c->out[0];
    resized r = resized_of(c, &dx->type, &dy->type);
    wide w = wide_of(c, &dx->type, &dy->type);
    return with_pixels(c, [&](auto zero, auto vec) {
        using T = decltype(zero);
        if (is_wide(c))
            return launch(c, interpolate_wide_backward<T, decltype(vec)::value>,
                          pixel_grid(c, &dx->type, vec, THREADS), dim3(THREADS), 0,
                          static_cast<const T *>(dy->data), static_cast<T *>(dx->data), w);
        return launch(c, interpolate_backward<T, decltype(vec)::value>,
                      pixel_grid(c, &dx->type, vec, THREADS), dim3(THREADS), 0,
                      static_cast<const T *>(dy->data), static_cast<T *>(dx->data), r);
    });
}
