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

/* ---- launches ---- */

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
    return with_pixels(c, [&](auto zero, auto vec) {
        using T = decltype(zero);
        return launch(c, interpolate<T, decltype(vec)::value>, pixel_grid(c, &y->type, vec, THREADS),
                      dim3(THREADS), 0, static_cast<const T *>(x->data), static_cast<T *>(y->data), r);
    });
}

weft_status cuda_interpolate_backward_run(void *, const kernel_call *c) {
    const tensor *dy = &c->in[0], *dx = &c->out[0];
    resized r = resized_of(c, &dx->type, &dy->type);
    return with_pixels(c, [&](auto zero, auto vec) {
        using T = decltype(zero);
        return launch(c, interpolate_backward<T, decltype(vec)::value>,
                      pixel_grid(c, &dx->type, vec, THREADS), dim3(THREADS), 0,
                      static_cast<const T *>(dy->data), static_cast<T *>(dx->data), r);
    });
}
