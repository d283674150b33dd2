/* conv_kernels.cuh - what convolutions need besides cuDNN: weights reordered between [O, C, taps] and [O,
 * taps, C], a bias added, an image extended with zeros. All of them move bytes once, so they are as fast as
 * memory; the type is a branch for each element, the same in all threads. */
#ifndef WEFT_OPS_CUDA_IMAGE_CONV_KERNELS_CUH
#define WEFT_OPS_CUDA_IMAGE_CONV_KERNELS_CUH

#include "ops/cuda/kit/kernel.cuh"

/* An array of f32, bf16 or f16 in the GPU's memory. */
typedef struct elements {
    void *at;
    weft_dtype dtype;
} elements;

__device__ static inline float element_load(elements e, int64_t i) {
    if (e.dtype == WEFT_BF16) return to_float(((const __nv_bfloat16 *)e.at)[i]);
    if (e.dtype == WEFT_F16) return to_float(((const __half *)e.at)[i]);
    return ((const float *)e.at)[i];
}

__device__ static inline void element_store(elements e, int64_t i, float x) {
    if (e.dtype == WEFT_BF16)
        ((__nv_bfloat16 *)e.at)[i] = from_float<__nv_bfloat16>(x);
    else if (e.dtype == WEFT_F16)
        ((__half *)e.at)[i] = from_float<__half>(x);
    else
        ((float *)e.at)[i] = x;
}

enum { CONV_THREADS = 256 };

/* A thread has the taps of one (o, c) pair. Neighbouring threads read the same cache lines on the plain side
 * and write neighbouring elements on the other. packs: plain to reordered; else back. */
static __global__ void reorder_weight_kernel(bool packs, elements from, elements to, int64_t pairs,
                                             int64_t channels, int64_t taps) {
    int64_t step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < pairs; i += step) {
        int64_t plain = i * taps, turned = i / channels * taps * channels + i % channels;
        for (int64_t k = 0; k < taps; k++) {
            int64_t here = plain + k, there = turned + k * channels;
            element_store(to, packs ? there : here, element_load(from, packs ? here : there));
        }
    }
}

static weft_status reorder_weight(const kernel_call *c, bool packs, elements from, elements to,
                                  const tensor_type *weight) {
    int64_t pairs = weight->shape[0] * weight->shape[1], taps = type_elements(weight) / pairs;
    return launch(c, reorder_weight_kernel, dim3(blocks_for(c, pairs, CONV_THREADS)), dim3(CONV_THREADS), 0,
                  packs, from, to, pairs, weight->shape[1], taps);
}

/* to[..., channels] = from + bias, also in place. Without a bias it only converts. */
static __global__ void add_bias_kernel(elements from, elements to, elements bias, int64_t channels,
                                       int64_t count) {
    int64_t step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step)
        element_store(to, i, element_load(from, i) + (bias.at ? element_load(bias, i % channels) : 0.0f));
}

static weft_status add_bias(const kernel_call *c, elements from, elements to, elements bias, int64_t channels,
                            int64_t count) {
    return launch(c, add_bias_kernel, dim3(blocks_for(c, count, CONV_THREADS)), dim3(CONV_THREADS), 0, from,
                  to, bias, channels, count);
}

/* Depth (of an image 1), height and width. */
typedef struct extents {
    int64_t d, h, w;
} extents;

static inline extents extents_of(const tensor_type *t) {
    const int64_t *last = t->shape + t->ndim - 1;
    return {t->ndim == 5 ? last[-2] : 1, last[-1], last[0]};
}

/* [N, d, h, w, C] -> [N, D, H, W, C], zeros in what is new. */
static __global__ void extend_kernel(elements from, extents small, elements to, extents big, int64_t channels,
                                     int64_t count) {
    int64_t step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) {
        int64_t row = i / channels / big.w, x = i / channels % big.w, y = row % big.h, plane = row / big.h,
                z = plane % big.d, n = plane / big.d;
        int64_t at = ((n * small.d + z) * small.h + y) * small.w + x;
        float value = 0.0f;
        if (z < small.d && y < small.h && x < small.w)
            value = element_load(from, at * channels + i % channels);
        element_store(to, i, value);
    }
}

static weft_status extend_image(const kernel_call *c, const tensor *from, const tensor_type *type, void *to) {
    int64_t count = type_elements(type);
    return launch(c, extend_kernel, dim3(blocks_for(c, count, CONV_THREADS)), dim3(CONV_THREADS), 0,
                  elements{from->data, type->dtype}, extents_of(&from->type), elements{to, type->dtype},
                  extents_of(type), type->shape[1], count);
}

#endif
