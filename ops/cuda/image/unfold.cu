/* unfold.cu - unfold and fold: a thread has one element of the result. Fold gathers, in the order of the
 * window's elements, so nothing is added atomically, and the bits repeat. */
#include "ops/cuda/kit/kernel.cuh"

extern "C" {
#include "ops/image/unfold.h"
}

enum { THREADS = 256 };

/* One axis: of the image, the window, and its places. */
struct unfold_axis {
    int64_t length, count, kernel, stride, pad, dilation;

    __device__ int64_t at(int64_t place, int64_t k) const {
        return place * stride - pad + k * dilation;
    }
    /* The place where the window's element k is `position`; -1: there is none. */
    __device__ int64_t place(int64_t position, int64_t k) const {
        int64_t from = position + pad - k * dilation;
        return from >= 0 && from % stride == 0 && from / stride < count ? from / stride : -1;
    }
};

struct unfold_sizes {
    unfold_axis row, column;
    int64_t elements; /* of the result */
};

template <class T> __global__ void __launch_bounds__(THREADS) unfold(const T *x, T *y, unfold_sizes s) {
    for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < s.elements;
         i += (int64_t)gridDim.x * THREADS) {
        int64_t across = i % s.column.count, rest = i / s.column.count, down = rest % s.row.count;
        rest /= s.row.count; /* (plane, kernel row, kernel column) */
        int64_t column = s.column.at(across, rest % s.column.kernel);
        rest /= s.column.kernel;
        int64_t row = s.row.at(down, rest % s.row.kernel), plane = rest / s.row.kernel;
        bool is_inside = row >= 0 && row < s.row.length && column >= 0 && column < s.column.length;
        y[i] = is_inside ? x[(plane * s.row.length + row) * s.column.length + column] : from_float<T>(0);
    }
}

template <class T> __global__ void __launch_bounds__(THREADS) fold(const T *x, T *y, unfold_sizes s) {
    for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < s.elements;
         i += (int64_t)gridDim.x * THREADS) {
        int64_t column = i % s.column.length, row = i / s.column.length % s.row.length;
        int64_t plane = i / s.column.length / s.row.length;
        float sum = 0;
        for (int64_t k = 0; k < s.row.kernel; k++) {
            int64_t down = s.row.place(row, k);
            for (int64_t j = 0; down >= 0 && j < s.column.kernel; j++) {
                int64_t across = s.column.place(column, j);
                int64_t line = (plane * s.row.kernel + k) * s.column.kernel + j;
                if (across >= 0) sum += to_float(x[(line * s.row.count + down) * s.column.count + across]);
            }
        }
        y[i] = from_float<T>(sum);
    }
}

/* ---- launches ---- */

static unfold_axis axis_of(const kernel_call *c, const tensor_type *image, int i) {
    const unfold_attrs *a = static_cast<const unfold_attrs *>(c->attrs);
    int64_t length = image->shape[2 + i];
    return unfold_axis{length,         unfold_count(a, i, length), a->kernel.v[i],
                       a->stride.v[i], a->pad.v[i],                a->dilation.v[i]};
}

static unfold_sizes unfold_sizes_of(const kernel_call *c, const tensor_type *image) {
    return unfold_sizes{axis_of(c, image, 0), axis_of(c, image, 1), type_elements(&c->out[0].type)};
}

weft_status cuda_unfold_run(void *, const kernel_call *c) {
    unfold_sizes s = unfold_sizes_of(c, &c->in[0].type);
    return with_float(c, c->in[0].type.dtype, [&](auto zero) {
        using T = decltype(zero);
        return launch(c, unfold<T>, dim3(blocks_for(c, s.elements, THREADS)), dim3(THREADS), 0,
                      static_cast<const T *>(c->in[0].data), static_cast<T *>(c->out[0].data), s);
    });
}

weft_status cuda_fold_run(void *, const kernel_call *c) {
    unfold_sizes s = unfold_sizes_of(c, &c->out[0].type);
    return with_float(c, c->in[0].type.dtype, [&](auto zero) {
        using T = decltype(zero);
        return launch(c, fold<T>, dim3(blocks_for(c, s.elements, THREADS)), dim3(THREADS), 0,
                      static_cast<const T *>(c->in[0].data), static_cast<T *>(c->out[0].data), s);
    });
}
