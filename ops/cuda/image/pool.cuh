/* pool.cuh - channels-last images for the pooling kernels: a thread has one pixel and some neighbouring
 * channels; which cells of the small image hold a pixel of the large one, and which pixels a cell holds.
 * interpolate.cu has its images and threads too. */
#ifndef WEFT_OPS_CUDA_IMAGE_POOL_CUH
#define WEFT_OPS_CUDA_IMAGE_POOL_CUH

#include "ops/cuda/kit/vectors.cuh"

extern "C" {
#include "ops/image/pool.h"
}

/* One axis (height or width, below 2^30) of a large image and of the small one that pooling makes of it. */
struct pool_axis {
    int large, small;
    /* kernel 0: adaptive, cells are floor(i large / small) to ceil((i + 1) large / small) */
    int kernel, stride, pad;
    int step; /* from one element of a window to the next */
    int exclude_pad;

    __device__ int reach() const {
        return step * (kernel - 1) + 1;
    }
    /* Positions begin, begin + step, ... below end of the large image in cell i. */
    __device__ void window(int i, int &begin, int &end) const {
        if (kernel == 0) return part(i, large, small, begin, end);
        begin = i * stride - pad;
        end = begin + reach() < large ? begin + reach() : large;
        if (begin < 0) begin += (step - 1 - begin) / step * step;
    }
    /* Cells [begin, end) that hold position i, or, where step is above 1, have it between their elements. */
    __device__ void cells(int i, int &begin, int &end) const {
        if (kernel == 0) return part(i, small, large, begin, end);
        int from = i + pad - reach() + 1, last = (i + pad) / stride;
        begin = from > 0 ? (from + stride - 1) / stride : 0;
        end = last + 1 < small ? last + 1 : small;
    }
    /* The factor of this axis in the divisor of cell i: padding counts, but not what is after it. */
    __device__ int length(int i) const {
        int begin, end, rest = (large + 2 * pad - i * stride + step - 1) / step;
        if (kernel && !exclude_pad) return rest < kernel ? rest : kernel;
        window(i, begin, end);
        return end > begin ? (end - begin + step - 1) / step : 0;
    }
    /* Whether cell i of those that cells() gives holds position k. */
    __device__ bool holds(int i, int k) const {
        return step == 1 || (k - i * stride + pad) % step == 0;
    }
    __device__ static void part(int i, int length, int count, int &begin, int &end) {
        begin = (int)((int64_t)i * length / count);
        end = (int)((((int64_t)i + 1) * length + count - 1) / count);
    }
};

struct pool_sizes {
    int64_t n;
    int channels;
    pool_axis axis[2];
    int64_t large, small; /* pixels of all images */
    float divisor;        /* of averages, for all cells; 0: the number of their elements */

    __device__ float divisor_of(int y, int x) const {
        return divisor != 0 ? divisor : (float)axis[0].length(y) * (float)axis[1].length(x);
    }
};

/* `a` NULL or without a kernel: adaptive. */
static inline pool_sizes pool_sizes_of(const pool_attrs *a, const tensor_type *large,
                                       const tensor_type *small) {
    pool_sizes p = {large->shape[0], (int)large->shape[1], {}, 0, 0, a ? (float)a->divisor : 0};
    for (int i = 0; i < 2; i++) {
        bool slides = a && a->kernel.n == 2;
        p.axis[i] = pool_axis{(int)large->shape[2 + i],         (int)small->shape[2 + i],
                              slides ? (int)a->kernel.v[i] : 0, slides ? (int)a->stride.v[i] : 1,
                              slides ? (int)a->pad.v[i] : 0,    slides ? (int)pool_step(a, i) : 1,
                              slides && a->exclude_pad};
    }
    p.large = p.n * large->shape[2] * large->shape[3];
    p.small = p.n * small->shape[2] * small->shape[3];
    return p;
}

/* a = q b + rest; returns q. A 64-bit division costs as much as the rest of a kernel, so it is used only
 * where it must be. */
__device__ static inline int64_t divide(int64_t a, int b, int &rest) {
    if (a <= INT32_MAX) {
        rest = (int)a % b;
        return (int)a / b;
    }
    rest = (int)(a % b);
    return a / b;
}

/* The pixel of a thread (of the large or the small image): its image, row, column and first channel. */
struct pixel {
    int64_t n;
    int y, x, channel;
    __device__ pixel(int64_t i, int height, int width, int channels, int vec) {
        int64_t place = divide(i, channels / vec, channel);
        channel *= vec;
        n = divide(divide(place, width, x), height, y);
    }
};

/* Loops over the pixels of a thread, VEC channels at a time; i counts them. */
#define EACH_PIXEL(at, height, width, channels, VEC, pixels)                                                 \
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < (pixels) * (channels / VEC);        \
         i += (int64_t)gridDim.x * blockDim.x)                                                               \
        for (pixel at(i, height, width, channels, VEC), *once = &at; once; once = nullptr)

/* Offset in elements of pixel (y, x) of the thread's image and channel, in images of `height` x `width`. */
__device__ static inline int64_t pixel_place(const pixel &at, const pool_sizes &p, int height, int width,
                                             int y, int x) {
    return ((at.n * height + y) * width + x) * p.channels + at.channel;
}

/* ---- launches ---- */

/* Calls f(T(), VEC as a constant); VEC is the channels that fit 16 bytes where every tensor allows that, else
 * 1. */
template <class F> static weft_status with_pixels(const kernel_call *c, F f) {
    int64_t channels = c->in[0].type.shape[1];
    return with_float(c, c->in[0].type.dtype, [&](auto zero) {
        using T = decltype(zero);
        bool vectored = true;
        /* every operand and result must allow vectors */
        for (int i = 0; i < c->n_in; i++) vectored &= is_vectored<T>(c->in[i].data, channels);
        for (int k = 0; k < c->n_out; k++) vectored &= is_vectored<T>(c->out[k].data, channels);
        return vectored ? f(zero, std::integral_constant<int, vector_width<T>>())
                        : f(zero, std::integral_constant<int, 1>());
    });
}

static inline dim3 pixel_grid(const kernel_call *c, const tensor_type *of, int vec, int threads) {
    return dim3(blocks_for(c, type_elements(of) / vec, threads));
}

#endif
