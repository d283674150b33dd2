/* arange.cu - a number to a thread, computed in f64 as the reference does, since f32 would round twice. */
#include "ops/cuda/kit/kernel.cuh"

extern "C" {
#include "ops/shape/arange.h"
}

enum { ARANGE_THREADS = 256 };

template <class T> __device__ static inline T number_as(double x) {
    return static_cast<T>(x);
}
template <> __device__ inline __nv_bfloat16 number_as(double x) {
    return from_float<__nv_bfloat16>(static_cast<float>(x));
}
template <> __device__ inline __half number_as(double x) {
    return from_float<__half>(static_cast<float>(x));
}

template <class T>
__global__ void __launch_bounds__(ARANGE_THREADS) arange(T *y, int64_t n, double begin, double step) {
    int64_t stride = (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride)
        y[i] = number_as<T>(begin + static_cast<double>(i) * step);
}

template <class T> static weft_status run(const kernel_call *c) {
    const arange_attrs *a = static_cast<const arange_attrs *>(c->attrs);
    int64_t n = c->out[0].type.shape[0];
    return launch(c, arange<T>, dim3(blocks_for(c, n, ARANGE_THREADS)), dim3(ARANGE_THREADS), 0,
                  static_cast<T *>(c->out[0].data), n, a->begin, a->step);
}

extern "C" weft_status cuda_arange_run(void *, const kernel_call *c) {
    switch (c->out[0].type.dtype) {
    case WEFT_F32:
        return run<float>(c);
    case WEFT_BF16:
        return run<__nv_bfloat16>(c);
    case WEFT_F16:
        return run<__half>(c);
    case WEFT_I64:
        return run<int64_t>(c);
    case WEFT_I32:
        return run<int32_t>(c);
    default:
        return run<uint8_t>(c);
    }
}
